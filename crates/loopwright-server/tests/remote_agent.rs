//! Agents of this server as remote agents of another program.

use std::sync::Arc;

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_broadcast::BroadcastConfig;
use loopwright_capabilities::{
    questions::UseQuestions,
    remote_agent::{RemoteAgent, RemoteProtocol, UseRemoteAgent},
};
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, CallableHook, ExecutionStatus,
    Interceptor, ToolDecision, messages::Usage,
};
use loopwright_models::Secret;
use loopwright_testing::{FakeModel, MockTool, ModelDriver, ScenarioStep, test_loop, tool_results};
use loopwright_worker::{Worker, WorkerOptions};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    api::LOCAL,
    world::{Same, World},
};

const PROTOCOLS: [(RemoteProtocol, &str); 2] =
    [(RemoteProtocol::A2a, "a2a"), (RemoteProtocol::AgUi, "ag-ui")];

/// Serves an agent with a worker, and returns an agent that gives it a task.
async fn served(
    agent: AgentLoop,
    (protocol, path): (RemoteProtocol, &str),
) -> (World, AgentLoop, DropGuard) {
    let world = World::with(agent.clone()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let app = world.at_host(&host);
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let worker = Worker::new(world.store.clone() as _, Same(agent)).unwrap();
    let worker = worker.with_options(WorkerOptions::default());
    let worker = worker.with_event_log(BroadcastConfig::standard());
    let ends = CancellationToken::new();
    let shutdown = ends.clone();
    tokio::spawn(async move { worker.run(&shutdown).await });

    let url = format!("http://{host}/v1/agents/helper/{path}");
    let remote = RemoteAgent::new("helper", "Helps.", &url).unwrap().with_private_addresses();
    let remote = remote.with_protocol(protocol);
    let remote = UseRemoteAgent::new([remote.with_token(Secret::new(LOCAL))]);
    let ask = json!({ "agent": "helper", "message": "How many?" });
    let steps = [ScenarioStep::tool_call("ask_remote_agent", ask), "done".into()];
    let caller = AgentBuilder::base()
        .with(UseLlmConfig::model(FakeModel::script(steps)))
        .with(remote)
        .build();
    (world, caller.unwrap(), ends.drop_guard())
}

fn agent(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentLoop {
    AgentBuilder::base()
        .with(UseLlmConfig::model(FakeModel::script(steps)))
        .with(UseQuestions::default())
        .build()
        .unwrap()
}

/// Returns the answer without the ID of the conversation.
fn answer(state: &AgentState) -> String {
    let results = tool_results(state);
    results[0].split("\n[context: ").next().unwrap().to_owned()
}

#[tokio::test]
async fn an_agent_of_this_server_answers_as_a_remote_agent_and_its_usage_counts() {
    for protocol in PROTOCOLS {
        let step = ScenarioStep::from("Forty-two.").with_usage(Usage::new(40, 2));
        let (_world, caller, _worker) = served(agent([step]), protocol).await;
        let done = caller.execute(AgentState::new().with_user_message("go")).await;
        assert_eq!(
            (answer(&done), done.text()),
            ("[Remote agent: helper] Forty-two.".into(), "done".into()),
            "{protocol:?}"
        );
        assert_eq!(done.usage(), Usage::new(40, 2), "{protocol:?}");
    }
}

#[tokio::test]
async fn a_question_of_an_agent_of_this_server_is_answered_at_the_root_of_the_caller() {
    for (protocol, expect) in PROTOCOLS.into_iter().zip(["ask_user: Of what?", "Of what?"]) {
        let question = json!({ "question": "Of what?" });
        let steps = [ScenarioStep::tool_call("ask_user", question), "Forty-two apples.".into()];
        let (_world, caller, _worker) = served(agent(steps), protocol).await;
        let paused = caller.execute(AgentState::new().with_user_message("go")).await;
        assert_eq!(paused.status(), &ExecutionStatus::Paused, "{protocol:?}");
        let asked = paused.pending()[0];
        assert_eq!((asked.address(), &*asked.question.text), (vec![0, 0], expect));
        let decision = ApprovalDecision::Reply("Apples.".into());
        let state = caller.decide(&paused, &[0, 0], decision).unwrap();
        let done = caller.execute(state).await;
        assert_eq!(answer(&done), "[Remote agent: helper] Forty-two apples.", "{protocol:?}");
    }
}

#[tokio::test]
async fn a_call_of_a_remote_agent_runs_only_once_the_user_of_the_caller_approves_it() {
    let questions = ["paint: may it?", "may it?\npaint {\"n\":7}"];
    for (protocol, question) in PROTOCOLS.into_iter().zip(questions) {
        for (decision, expect) in [("approve", 1), ("deny", 0)] {
            let tool = MockTool::returning("paint", "Paints.", "red");
            let calls = tool.clone();
            let steps = [ScenarioStep::tool_call("paint", json!({"n": 7})), "Over.".into()];
            let agent = test_loop(ModelDriver::new(FakeModel::script(steps))).with_tool(tool);
            let hook = CallableHook::new("policy").before_tool(|_, _, _| {
                Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "policy")))
            });
            let agent = agent.with_interceptor(Interceptor::from_hook(Arc::new(hook)));
            let (_world, caller, _worker) = served(agent, protocol).await;
            let paused = caller.execute(AgentState::new().with_user_message("go")).await;
            let asked = paused.pending()[0];
            assert_eq!(asked.question.text, question);
            let decision = ApprovalDecision::Reply(decision.into());
            let state = caller.decide(&paused, &asked.address(), decision).unwrap();
            let done = caller.execute(state).await;
            assert_eq!(answer(&done), "[Remote agent: helper] Over.", "{protocol:?}");
            assert_eq!(calls.calls().len(), expect, "{protocol:?}");
        }
    }
}
