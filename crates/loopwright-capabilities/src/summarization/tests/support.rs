//! What many facts need.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentLoop, AgentState,
    messages::{Message, Transcript},
};
use loopwright_testing::{EventRecorder, FakeModel, MockTool, block_on};

use crate::summarization::{SummarizationPolicy, TokenCounter, UseSummarization};

/// Counts a word as a token, and notes what it was given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    bytes: Arc<AtomicU64>,
}

impl Words {
    /// Returns how many bytes it has looked at since it was last asked.
    pub(crate) fn looked_at(&self) -> u64 {
        self.bytes.swap(0, SeqCst)
    }
}

impl TokenCounter for Words {
    fn count(&self, text: &str) -> u64 {
        self.bytes.fetch_add(text.len() as u64, SeqCst);
        text.split_whitespace().count() as u64
    }
}

/// Small limits: messages, buffer, summary.
pub(crate) fn limits(messages: u64, buffer: u64, summary: u64) -> UseSummarization {
    let policy = SummarizationPolicy {
        max_message_tokens: messages,
        max_buffer_tokens: buffer,
        max_summary_tokens: summary,
        ..SummarizationPolicy::default()
    };
    UseSummarization::new(policy).with_token_counter(Words::default())
}

pub(crate) fn agent(
    model: &FakeModel,
    summarization: UseSummarization,
) -> (AgentLoop, EventRecorder) {
    let tools = UseTools::new().with_tool(MockTool::scripted());
    watched(model, AgentBuilder::base().with_capability(tools).with_capability(summarization))
}

/// Builds an agent that asks a model, and notes what it tells.
pub(crate) fn watched(model: &FakeModel, agent: AgentBuilder) -> (AgentLoop, EventRecorder) {
    let events = EventRecorder::new();
    let agent = agent.with_capability(UseLlmConfig::model(model.clone())).build().unwrap();
    (agent.with_event_sink(events.sink()), events)
}

pub(crate) fn run(agent: &AgentLoop, state: AgentState, text: &str) -> AgentState {
    block_on(agent.execute(state.with_user_message(text)))
}

/// The user and the model, in turn.
pub(crate) fn talk(texts: &[&str]) -> AgentState {
    let said = texts.iter().enumerate().map(|(at, text)| {
        if at % 2 == 0 { Message::user(*text) } else { Message::assistant(*text) }
    });
    AgentState::new().with_appended_messages(said)
}

pub(crate) fn texts(state: &AgentState, section: &str) -> Vec<String> {
    state.section(section).map(|turn| turn.message().text()).collect()
}

/// All sections as a model reads them.
pub(crate) fn whole(state: &AgentState) -> Transcript {
    let sections = state.context().sections().in_order();
    sections.flat_map(|(_, turns)| turns.iter().cloned()).collect()
}
