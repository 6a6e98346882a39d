//! The checkpoints that the model sees at the end of a request; they are never recorded.

use std::{fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, CompileError, ContextCompiler,
    messages::{Message, Prompt},
};

use crate::retrospective::checkpoint::Ways;

/// So many checkpoints before the newest one are shown with what followed them.
const SHOWN: u32 = 8;

/// Adds the checkpoints to what another compiler made, as long as the model may go back to them.
pub(super) struct Marking {
    pub(super) inner: Arc<dyn ContextCompiler>,
    pub(super) max_rewinds: u32,
}

#[async_trait]
impl ContextCompiler for Marking {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let mut prompt = self.inner.compile(state, previous).await?;
        let ways = Ways::of(state);
        if ways.rewinds < self.max_rewinds {
            prompt.tail.push(Message::user(markers(state, &ways)));
        }
        Ok(prompt)
    }
}

/// Lists the newest checkpoints. Its length does not depend on how many there are.
fn markers(state: &AgentState, ways: &Ways) -> String {
    let newest = ways.checkpoint_before(state.step_count() + 1);
    let first = newest.saturating_sub(SHOWN);
    let mut text = String::new();
    // Writing to a string does not fail.
    if first > 0 {
        let _ = writeln!(text, "[CHECKPOINT 0] to [CHECKPOINT {}]: earlier", first - 1);
    }
    for checkpoint in first..newest {
        let what = followed_by(state, ways.step_after(checkpoint));
        let _ = writeln!(text, "[CHECKPOINT {checkpoint}] then {what}");
    }
    let _ = write!(text, "[CHECKPOINT {newest}] now");
    text
}

/// Says what a step did, by the names of its tools.
fn followed_by(state: &AgentState, step: u32) -> String {
    let step = state.step_at(step as usize - 1);
    let Some(message) = step.and_then(|it| it.message()) else { return "nothing".to_owned() };
    let tools: Vec<&str> = message.tool_calls().map(|call| &*call.name).collect();
    if tools.is_empty() { "an answer".to_owned() } else { tools.join(", ") }
}
