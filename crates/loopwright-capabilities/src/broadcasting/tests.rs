use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_broadcast::{BroadcastEnvelope, BroadcastStatus, Subscription};
use loopwright_core::{AgentState, BoxError, Budget, ToolOutput};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, block_on};
use serde_json::json;

use super::*;
use crate::child::ChildAgent;

/// Runs an agent that has a tool which hands work to another one, and returns what is told.
fn told(config: BroadcastConfig, session: Option<&str>, budget: Budget) -> Vec<BroadcastEnvelope> {
    let help = MockTool::with_cx("help", "Asks somebody.", |_, cx| {
        Box::pin(async move {
            let child = ChildAgent::of(cx, "helper");
            let ended = child.run("How?", |state| state.with_user_message("How?")).await;
            let answer = ended.and_then(|it| it.answer()).map_err(BoxError::from)?;
            Ok(ToolOutput::text(answer.text))
        })
    });
    let steps = [ScenarioStep::tool_call("help", json!({})), "like this".into(), "done".into()];
    let broadcasting = Broadcasting::new(config);
    let broadcasting = match session {
        Some(session) => broadcasting.with_session(session),
        None => broadcasting,
    };
    let subscription = broadcasting.subscribe(CAPACITY);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(steps).with_fragment_size(4)))
        .with_capability(UseTools::new().with_tool(help))
        .with_capability(UseBroadcasting::from_broadcasting(broadcasting))
        .build()
        .unwrap();
    drop(block_on(agent.execute(AgentState::new().with_budget(budget).with_user_message("go"))));
    drop(agent);
    all(subscription)
}

fn all(mut subscription: Subscription) -> Vec<BroadcastEnvelope> {
    let mut told = Vec::new();
    while let Some(frame) = block_on(subscription.recv()) {
        told.push(frame.envelope().unwrap());
    }
    told
}

fn last_status(told: &[BroadcastEnvelope]) -> Option<BroadcastStatus> {
    told.iter().rev().find_map(BroadcastEnvelope::status)
}

#[test]
fn item_10_the_capability_tells_the_right_end() {
    let minimal = BroadcastConfig::minimal();
    let completed = told(minimal, Some("s"), Budget::unlimited());
    assert_eq!(last_status(&completed), Some(BroadcastStatus::Completed));
    assert!(completed.last().unwrap().is_idle_or_terminal());
    let one = Budget { steps: Some(1), ..Budget::unlimited() };
    assert_eq!(last_status(&told(minimal, Some("s"), one)), Some(BroadcastStatus::Stopped));
}

#[test]
fn sub_agents_are_told_of_as_executions_of_their_own() {
    let told_in = |session| told(BroadcastConfig::standard(), session, Budget::unlimited());
    let told = told_in(Some("s"));
    assert!(told.iter().all(|it| it.session_id == "s"));
    let (own, others): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|it| it.parent_agent_id.is_none());
    let statuses = |told: &[BroadcastEnvelope]| -> Vec<_> {
        told.iter().filter_map(BroadcastEnvelope::status).collect()
    };
    let both = [BroadcastStatus::Processing, BroadcastStatus::Completed];
    assert_eq!((statuses(&own), statuses(&others)), (both.to_vec(), both.to_vec()));
    assert!(
        others
            .iter()
            .all(|it| !it.is_idle_or_terminal() && it.execution_id == others[0].execution_id)
    );
    assert_ne!(own[0].execution_id, others[0].execution_id);
    // Without a session each agent has a channel of its own.
    let (own, others): (Vec<_>, Vec<_>) =
        told_in(None).into_iter().partition(|it| it.parent_agent_id.is_none());
    assert_eq!(others[0].parent_agent_id.as_ref(), Some(&own[0].session_id));
    assert_ne!(others[0].session_id, own[0].session_id);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_when_the_agent_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let built = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::default()))
        .with_capability(UseBroadcasting::to_file(folder.path()))
        .build();
    let error = built.unwrap_err().to_string();
    assert!(error.ends_with("cannot be written") && error.contains("use_broadcasting"), "{error}");
}
