//! Agents of this server as remote agents of another program.

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_broadcast::BroadcastConfig;
use loopwright_capabilities::{
    questions::UseQuestions,
    remote_agent::{RemoteAgent, UseRemoteAgent},
};
use loopwright_core::{AgentLoop, AgentState, ApprovalDecision, ExecutionStatus, messages::Usage};
use loopwright_models::Secret;
use loopwright_testing::{FakeModel, ScenarioStep, tool_results};
use loopwright_worker::{Worker, WorkerOptions};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    api::LOCAL,
    world::{Same, World},
};

/// Serves an agent with a worker, and returns an agent that gives it a task.
async fn served(agent: AgentLoop) -> (World, AgentLoop, DropGuard) {
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

    let url = format!("http://{host}/v1/agents/helper/a2a");
    let remote = RemoteAgent::new("helper", "Helps.", &url).unwrap().with_private_addresses();
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
    let step = ScenarioStep::from("Forty-two.").with_usage(Usage::new(40, 2));
    let (_world, caller, _worker) = served(agent([step])).await;
    let done = caller.execute(AgentState::new().with_user_message("go")).await;
    assert_eq!(
        (answer(&done), done.text()),
        ("[Remote agent: helper] Forty-two.".into(), "done".into())
    );
    assert_eq!(done.usage(), Usage::new(40, 2));
}

#[tokio::test]
async fn a_question_of_an_agent_of_this_server_is_answered_at_the_root_of_the_caller() {
    let question = json!({ "question": "Of what?" });
    let steps = [ScenarioStep::tool_call("ask_user", question), "Forty-two apples.".into()];
    let (_world, caller, _worker) = served(agent(steps)).await;
    let paused = caller.execute(AgentState::new().with_user_message("go")).await;
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    let asked = paused.pending()[0];
    assert_eq!((asked.address(), &*asked.question.text), (vec![0, 0], "ask_user: Of what?"));
    let decision = ApprovalDecision::Reply("Apples.".into());
    let state = caller.decide(&paused, &[0, 0], decision).unwrap();
    let done = caller.execute(state).await;
    assert_eq!(answer(&done), "[Remote agent: helper] Forty-two apples.");
}
