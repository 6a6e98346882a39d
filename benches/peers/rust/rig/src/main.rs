//! An agent of rig. Its model in process stands below everything that rig itself does.

use std::{
    convert::Infallible,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use futures::{StreamExt as _, stream};
use peer_work::{DESCRIPTION, Done, Failure, SYSTEM, TOOL, Work, drive, schema};
use rig::{
    AgentBuilder,
    agent::MultiTurnStreamItem,
    completion::{CompletionRequest, CompletionResponse, Usage},
    driver::{Exchange, Model, Opened, Opening, Transport},
    http_client::{DynHttpClient, ReqwestClient},
    message::{AssistantContent, Origin, ToolCall, ToolFunction, ToolName},
    providers::openai::OpenAIConfig,
    tool::{Tool, ToolContext},
};
use rig_core::test_utils::{MockFrame, MockScript};
use serde::Deserialize;
use serde_json::{Value, json};

static CLIENT: OnceLock<DynHttpClient> = OnceLock::new();

#[derive(Deserialize)]
struct Arguments {
    a: i64,
    b: i64,
}

#[derive(Clone)]
struct Add {
    work: Arc<Work>,
    calls: Arc<AtomicU64>,
}

impl Tool for Add {
    const NAME: &'static str = TOOL;
    type Args = Arguments;
    type Output = String;
    type Error = Infallible;

    fn description(&self) -> String {
        DESCRIPTION.to_owned()
    }

    fn parameters(&self) -> Value {
        schema()
    }

    async fn call(
        &self,
        _context: &mut ToolContext,
        Arguments { a, b }: Arguments,
    ) -> Result<String, Infallible> {
        self.calls.fetch_add(1, Relaxed);
        Ok(self.work.sum(a, b))
    }
}

/// Calls the tool so many times and is done then.
#[derive(Clone)]
struct Scripted {
    work: Arc<Work>,
    name: ToolName,
    step: Arc<AtomicU64>,
}

impl Transport<MockScript> for Scripted {
    fn send(&self, _request: CompletionRequest, _exchange: Exchange) -> Opening<MockFrame> {
        let step = self.step.fetch_add(1, Relaxed);
        let content = if step >= self.work.steps {
            AssistantContent::text(self.work.farewell())
        } else {
            let function = ToolFunction::new(self.name.clone(), json!({ "a": step, "b": 0 }));
            AssistantContent::ToolCall(ToolCall::from_wire(format!("call_{step}_0"), function))
        };
        let response = CompletionResponse::new(
            vec![content],
            Usage::new().total_tokens(15),
            Origin::new("example.api", "fake", ""),
            Value::Null,
        );
        let frame = MockFrame::Response(Box::new(response));
        Opening::ready(Opened::new(stream::iter([Ok(frame)])))
    }
}

fn main() -> Result<(), Failure> {
    drive(run)
}

async fn run(work: Arc<Work>) -> Result<Done, Failure> {
    let calls = Arc::new(AtomicU64::new(0));
    let add = Add { work: Arc::clone(&work), calls: Arc::clone(&calls) };
    let builder = if work.is_fake {
        let (name, step) = (ToolName::new(TOOL)?, Arc::default());
        let scripted = Scripted { work: Arc::clone(&work), name, step };
        AgentBuilder::new(Model::new(MockScript::new("fake"), scripted))
    } else {
        let client = CLIENT.get_or_init(|| DynHttpClient::new(ReqwestClient::default())).clone();
        let config = OpenAIConfig::new("sk-mock").with_base_url(work.base_url.clone());
        AgentBuilder::new(config.connect(client).chat("mock"))
    };
    let agent = builder.preamble(SYSTEM).tool(add).build();
    let prompt = agent.prompt(work.prompt()).max_turns(work.allowed_steps());
    let mut text = String::new();
    if work.streams {
        let mut stream = prompt.stream();
        while let Some(item) = stream.next().await {
            if let MultiTurnStreamItem::FinalResponse(response) = item? {
                text = response.output();
            }
        }
    } else {
        text = prompt.await?.output();
    }
    Ok(Done { text, calls: calls.load(Relaxed) })
}
