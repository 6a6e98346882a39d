//! What many facts need.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, Capability, UseDriver, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentLoop, AgentState, Driver, StepError, StepResponse, StopReason, ThinkCx,
    events::PromptCacheBroken,
    messages::{CacheBreak, Message},
};
use loopwright_testing::{EventRecorder, FakeDriver, FakeModel, MockTool, ScenarioStep, Timeline};
pub(crate) use loopwright_testing::{execute, test_options as options, turn_texts as said};

/// A builder whose agent follows a script.
pub(crate) fn scripted<S: Into<ScenarioStep>>(steps: impl IntoIterator<Item = S>) -> AgentBuilder {
    let driver = FakeDriver::steps(steps.into_iter().map(Into::into));
    AgentBuilder::base()
        .with_capability(UseDriver::new(driver))
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
}

/// A builder whose agent asks a model and offers the scripted tool.
pub(crate) fn asking(model: &FakeModel) -> AgentBuilder {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
}

/// The agent of a builder and one more capability.
#[track_caller]
pub(crate) fn with(builder: AgentBuilder, capability: impl Capability + 'static) -> AgentLoop {
    builder.with_capability(capability).build().unwrap()
}

/// A state in which the user has said something.
pub(crate) fn asked() -> AgentState {
    AgentState::new().with_user_message("go")
}

/// Runs to the end and keeps what was told.
#[track_caller]
pub(crate) fn recorded(agent: &AgentLoop, state: AgentState) -> (AgentState, EventRecorder) {
    let events = EventRecorder::new();
    let state = execute(&agent.with_event_sink(events.sink()), state);
    (state, events)
}

/// The words of each message.
pub(crate) fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

/// Why the run was stopped, and by whom.
pub(crate) fn stopped(state: &AgentState) -> Option<(StopReason, String)> {
    let signal = state.stop_signal()?;
    Some((signal.reason, signal.source.as_deref().unwrap_or_default().to_owned()))
}

/// Why requests did not begin with the request before, by step.
pub(crate) fn breaks(events: &EventRecorder) -> Vec<(u32, CacheBreak)> {
    events.events_of::<PromptCacheBroken>().into_iter().map(|it| (it.step, it.cause)).collect()
}

/// The names of an agent's hooks, in calling order.
pub(crate) fn hook_names(agent: &AgentLoop) -> Vec<String> {
    agent.interceptor().hooks().iter().map(|it| it.name().to_owned()).collect()
}

/// The names of an agent's tools, in order.
pub(crate) fn tool_names(agent: &AgentLoop) -> Vec<String> {
    agent.tools().names().iter().map(ToString::to_string).collect()
}

/// A driver around another one, which notes when it is asked.
pub(crate) struct Noting {
    inner: Arc<dyn Driver>,
    name: &'static str,
    timeline: Timeline,
}

impl Noting {
    pub(crate) fn around(
        inner: Arc<dyn Driver>,
        name: &'static str,
        timeline: &Timeline,
    ) -> Arc<dyn Driver> {
        Arc::new(Self { inner, name, timeline: timeline.clone() })
    }
}

#[async_trait]
impl Driver for Noting {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        self.timeline.note(self.name);
        self.inner.think(state, cx).await
    }

    fn name(&self) -> &'static str {
        self.name
    }
}
