//! What many facts need.

use loopwright_agent::{AgentBuilder, Capability, UseLlmConfig};
use loopwright_core::{AgentLoop, AgentState};
pub(crate) use loopwright_testing::tool_results as told;
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::Value;

/// An agent that makes these calls, one step each, and ends.
pub(crate) fn calling(capability: impl Capability + 'static, calls: &[(&str, Value)]) -> AgentLoop {
    let steps = calls.iter().map(|(tool, args)| ScenarioStep::tool_calls([(*tool, args.clone())]));
    let steps: Vec<ScenarioStep> = steps.chain([ScenarioStep::final_answer("done")]).collect();
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
        .with_capability(capability)
        .build()
        .unwrap()
}

/// Runs the calls and returns what the model was told.
pub(crate) async fn answers(
    capability: impl Capability + 'static,
    calls: &[(&str, Value)],
) -> Vec<String> {
    let agent = calling(capability, calls);
    told(&agent.execute(AgentState::new().with_user_message("go")).await)
}

/// The names of the tools that a capability adds.
pub(crate) fn names(capability: impl Capability + 'static) -> Vec<String> {
    calling(capability, &[]).tools().names().iter().map(ToString::to_string).collect()
}
