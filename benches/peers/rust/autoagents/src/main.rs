//! The tool loop of autoagents, with a window of messages that is wider than the run.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use autoagents::{
    async_trait,
    core::{
        agent::{
            AgentBuilder, AgentDeriveT, AgentHooks, DirectAgent, memory::SlidingWindowMemory,
            prebuilt::executor::ReActAgent, task::Task,
        },
        tool::{ToolCallError, ToolRuntime, ToolT},
    },
    llm::{
        LLMProvider,
        backends::openai::{OpenAI, OpenAIApiMode},
        builder::LLMBuilder,
    },
};
use futures::StreamExt as _;
use peer_work::{DESCRIPTION, Done, Failure, SYSTEM, TOOL, Work, drive, schema};
use serde_json::Value;

static MODEL: OnceLock<Arc<dyn LLMProvider>> = OnceLock::new();

#[derive(Clone, Debug)]
struct Add {
    work: Arc<Work>,
    calls: Arc<AtomicU64>,
}

impl ToolT for Add {
    fn name(&self) -> &'static str {
        TOOL
    }

    fn description(&self) -> &'static str {
        DESCRIPTION
    }

    fn args_schema(&self) -> Value {
        schema()
    }
}

#[async_trait]
impl ToolRuntime for Add {
    async fn execute(&self, arguments: Value) -> Result<Value, ToolCallError> {
        self.calls.fetch_add(1, Relaxed);
        let argument = |name: &str| arguments[name].as_i64().unwrap_or_default();
        Ok(self.work.sum(argument("a"), argument("b")).into())
    }
}

#[derive(Clone, Debug)]
struct Calculator(Add);

impl AgentDeriveT for Calculator {
    type Output = String;

    fn name(&self) -> &'static str {
        "calculator"
    }

    fn description(&self) -> &'static str {
        SYSTEM
    }

    fn output_schema(&self) -> Option<Value> {
        None
    }

    fn tools(&self) -> Vec<Box<dyn ToolT>> {
        vec![Box::new(self.0.clone())]
    }
}

impl AgentHooks for Calculator {}

fn main() -> Result<(), Failure> {
    drive(run)
}

async fn run(work: Arc<Work>) -> Result<Done, Failure> {
    let calls = Arc::new(AtomicU64::new(0));
    let calculator = Calculator(Add { work: Arc::clone(&work), calls: Arc::clone(&calls) });
    let executor = ReActAgent::with_max_turns(calculator, work.allowed_steps());
    let window = usize::try_from(4 * work.steps * work.par + 16)?;
    let mut agent = AgentBuilder::<_, DirectAgent>::new(executor)
        .llm(model(&work)?)
        .memory(Box::new(SlidingWindowMemory::new(window)))
        .build()
        .await?;
    let listening = tokio::spawn(async move { while agent.rx.next().await.is_some() {} });
    let text = agent.agent.run(Task::new(work.prompt())).await?;
    listening.abort();
    Ok(Done { text, calls: calls.load(Relaxed) })
}

fn model(work: &Work) -> Result<Arc<dyn LLMProvider>, Failure> {
    if let Some(model) = MODEL.get() {
        return Ok(Arc::clone(model));
    }
    let model = LLMBuilder::<OpenAI>::new()
        .api_key("sk-mock")
        .base_url(format!("{}/", work.base_url))
        .model("mock")
        .api_mode(OpenAIApiMode::ChatCompletions)
        .build()?;
    Ok(Arc::clone(MODEL.get_or_init(|| model)))
}
