//! What becomes of sub-agents in the background.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, AgentDefinition, DefinitionRegistry, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentState, ChatModel, DeniedCall, InferCx, ModelError, ToolApproval, ToolOptions, ToolPause,
    messages::{InferenceRequest, InferenceResponse, Message, Usage},
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, tool_results};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::background::BackgroundTasks;
use crate::subagents::UseSubagents;

/// What happens before the parent's model answers for the n-th time.
type Before = Box<dyn Fn(usize, &Script) -> Act + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Nothing,
    /// The sub-agent may answer.
    Open,
    /// The sub-agent may answer, and has ended.
    End,
    /// The user ends the sub-agent, and it has ended.
    Stop,
}

/// A model whose sub-agent answers when it may.
struct Script {
    parent: FakeModel,
    child: FakeModel,
    calls: AtomicUsize,
    gate: Notify,
    tasks: BackgroundTasks,
    before: Before,
    seen: Mutex<Vec<InferenceRequest>>,
}

impl Script {
    fn new(
        parent: FakeModel,
        child: FakeModel,
        before: impl Fn(usize, &Self) -> Act + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            parent,
            child,
            calls: AtomicUsize::new(0),
            gate: Notify::new(),
            tasks: BackgroundTasks::default(),
            before: Box::new(before),
            seen: Mutex::default(),
        })
    }

    async fn until_ended(&self) {
        while self.tasks.list().iter().any(|it| it.ended.is_none()) {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl ChatModel for Script {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        if request.system.as_deref() == Some("You help.") {
            tokio::select! {
                () = self.gate.notified() => {}
                () = cx.cancel.cancelled() => return FakeModel::pending().infer(request, cx).await,
            }
            return self.child.infer(request, cx).await;
        }
        self.seen.lock().unwrap().push(request.clone());
        let call = self.calls.fetch_add(1, SeqCst);
        match (self.before)(call, self) {
            Act::Nothing => {}
            Act::Open => self.gate.notify_one(),
            Act::End => {
                self.gate.notify_one();
                self.until_ended().await;
            }
            Act::Stop => {
                assert!(self.tasks.stop(1));
                self.until_ended().await;
            }
        }
        self.parent.infer(request, cx).await
    }
}

fn spawn() -> ScenarioStep {
    ScenarioStep::tool_call("spawn_subagent", json!({ "subagent": "helper", "prompt": "Do it." }))
}

fn read(wait: i64) -> ScenarioStep {
    ScenarioStep::tool_call("subagent_read", json!({ "id": "1", "wait_seconds": wait }))
}

const STARTED: &str = "Sub-agent 1 (helper) runs in the background. A message will report when it ends; `subagent_read` returns its answer.";

/// Runs an agent with a helper in the background, and returns the state, the model and the list of tasks.
fn run<const N: usize>(
    steps: [ScenarioStep; N],
    before: impl Fn(usize, &Script) -> Act + Send + Sync + 'static,
) -> (AgentState, Arc<Script>) {
    let child = [ScenarioStep::from("It is done.").with_usage(Usage::new(3, 7))];
    let script = Script::new(FakeModel::script(steps), FakeModel::script(child), before);
    let tasks = script.tasks.clone();
    let mut agents = DefinitionRegistry::new();
    let helper = AgentDefinition::new("helper", "Helps.", "You help.");
    agents.register(AgentDefinition { background: true, ..helper });
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(Shared(Arc::clone(&script))))
        .with_capability(UseSubagents::new(agents).with_background_tasks(tasks))
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let state = runtime.block_on(async {
        let state = agent.execute(AgentState::new().with_user_message("go")).await;
        // What the run left behind ends with it.
        while !script.tasks.list().is_empty() {
            tokio::task::yield_now().await;
        }
        state
    });
    (state, script)
}

struct Shared(Arc<Script>);

#[async_trait]
impl ChatModel for Shared {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        self.0.infer(request, cx).await
    }
}

/// What the user's side said to the parent besides the first message.
fn told(script: &Script) -> Vec<String> {
    let seen = script.seen.lock().unwrap();
    let turns = seen.last().unwrap().prompt.stable().map(|it| it.message());
    let texts = turns.filter(|it| it.role() == loopwright_core::messages::Role::User);
    texts.map(Message::text).filter(|it| it.starts_with('[')).collect()
}

#[test]
fn a_parent_that_would_answer_reads_its_sub_agents_first() {
    let steps = [spawn(), "Early.".into(), read(60), "Done.".into()];
    let (state, script) = run(steps, |call, _| if call == 2 { Act::Open } else { Act::Nothing });
    assert_eq!(state.text(), "Done.");
    assert_eq!(tool_results(&state), [STARTED, "[Subagent: helper] It is done."]);
    let expect = "[Before you answer, read the answers of the background sub-agents with `subagent_read`, or end the sub-agents with \
        `subagent_stop`: 1 (helper, running)]";
    assert_eq!(told(&script), [expect]);
}

#[test]
fn a_parent_is_told_of_the_end_and_pays_when_it_reads_the_answer() {
    let steps = [spawn(), read(0), read(0), "Done.".into()];
    let (state, script) = run(steps, |call, _| if call == 2 { Act::End } else { Act::Nothing });
    let running = "[sub-agent 1 is still running]";
    assert_eq!(tool_results(&state), [STARTED, running, "[Subagent: helper] It is done."]);
    assert_eq!(told(&script), Vec::<String>::new());
    assert_eq!(state.total_spent().usage, Usage::new(3, 7));
    // It hears of the end after the step in which it happens.
    let steps = [spawn(), read(0), ScenarioStep::tool_call("subagent_read", json!({ "id": "7" }))]
        .into_iter()
        .chain([read(0), "Done.".into()]);
    let steps: Vec<ScenarioStep> = steps.collect();
    let steps: [ScenarioStep; 5] = steps.try_into().ok().unwrap();
    let (state, script) = run(steps, |call, _| if call == 2 { Act::End } else { Act::Nothing });
    let ended = "[Sub-agents have ended: 1 (helper). Read their answers with `subagent_read`]";
    assert_eq!(told(&script), [ended]);
    assert!(tool_results(&state)[2].contains("unknown sub-agent `7`"), "{state:?}");
}

#[test]
fn the_user_ends_a_sub_agent() {
    let steps = [spawn(), read(60), "Done.".into()];
    let (state, _) = run(steps, |call, _| if call == 1 { Act::Stop } else { Act::Nothing });
    let results = tool_results(&state);
    assert!(results[1].starts_with("[Subagent: helper] (no answer: "), "{results:?}");
}

#[test]
fn a_parent_ends_a_sub_agent_by_its_number_as_text_or_as_a_number() {
    for id in [json!("1"), json!(1)] {
        let stop = ScenarioStep::tool_call("subagent_stop", json!({ "id": id }));
        let (state, _) = run([spawn(), stop, "Done.".into()], |_, _| Act::Nothing);
        let results = tool_results(&state);
        assert!(results[1].starts_with("[Subagent: helper] (no answer: "), "{results:?}");
    }
}

#[test]
fn a_parent_reads_a_sub_agent_by_a_number() {
    let read = ScenarioStep::tool_call("subagent_read", json!({ "id": 1, "wait_seconds": 0 }));
    let (state, _) = run([spawn(), read, self::read(60), "Done.".into()], |call, _| {
        if call == 2 { Act::Open } else { Act::Nothing }
    });
    assert_eq!(tool_results(&state)[1], "[sub-agent 1 is still running]");
}

#[test]
fn an_agent_that_does_not_read_is_reminded_three_times_and_its_sub_agents_end_with_its_run() {
    let (state, script) = run([spawn(), "Done.".into()], |_, _| Act::Nothing);
    assert_eq!((state.text().as_str(), told(&script).len()), ("Done.", 3));
    assert_eq!(script.tasks.list(), []);
}

#[test]
fn nine_sub_agents_are_too_many() {
    let ask = || ("spawn_subagent", json!({ "subagent": "helper", "prompt": "Do it." }));
    let calls: Vec<(&str, Value)> = (0..9).map(|_| ask()).collect();
    let (state, _) = run([ScenarioStep::tool_calls(calls), "Done.".into()], |_, _| Act::Nothing);
    let results = tool_results(&state);
    let refused = results.iter().filter(|it| it.contains("8 sub-agents are running")).count();
    assert_eq!((results.len(), refused), (9, 1), "{results:?}");
}

#[test]
fn a_sub_agent_that_cannot_wait_names_its_calls_and_their_denial_is_on_record() {
    let color = json!({ "color": "red" });
    let paint = MockTool::returning("paint", "", "painted").with_options(ToolOptions {
        approval: ToolApproval::Always("paints the door".into()),
        ..ToolOptions::default()
    });
    let ask = MockTool::with_cx("ask", "", |_, _| {
        Box::pin(async move { Err(ToolPause::ask("Which door?").into()) })
    });
    let steps = [spawn(), read(60), "Done.".into()];
    let calls = [("paint", color.clone()), ("ask", json!({}))];
    let script = Script::new(
        FakeModel::script(steps),
        FakeModel::script([ScenarioStep::tool_calls(calls)]),
        |call, _| if call == 1 { Act::End } else { Act::Nothing },
    );
    let tasks = script.tasks.clone();
    let mut agents = DefinitionRegistry::new();
    let helper = AgentDefinition::new("helper", "Helps.", "You help.");
    agents.register(AgentDefinition { background: true, ..helper });
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(Shared(Arc::clone(&script))))
        .with_capability(UseTools::new().with_tool(paint.clone()).with_tool(ask))
        .with_capability(UseSubagents::new(agents).with_background_tasks(tasks))
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = AgentState::new().with_user_message("go");
    let state = runtime.block_on(agent.execute(asked));
    let told = "[Subagent: helper] `helper` ended, because a sub-agent in the background cannot wait: `paint` with {\"color\":\"red\"} \
        needs approval (paints the door), `ask` with {} needs an answer (Which door?); make such a call yourself, which can wait, or \
        continue without it";
    assert_eq!(tool_results(&state), [STARTED, told]);
    let denied = |tool: &str, arguments: &Value, reason: &str| DeniedCall {
        agents: vec!["helper".into()],
        tool: tool.into(),
        arguments: arguments.clone(),
        reason: reason.to_owned(),
    };
    let expect = [
        denied("paint", &color, "needs approval (paints the door)"),
        denied("ask", &json!({}), "needs an answer (Which door?)"),
    ];
    assert_eq!(state.denied_calls(), expect);
    assert_eq!((paint.keys().len(), state.text()), (0, "Done.".to_owned()));
}
