//! The two stages: moving turns into the buffer, and summarizing the buffer.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::summarization::{MessageBufferSummarized, MessagesMovedToBuffer, TranscriptSize};
use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, Key, StateEdit,
    messages::{CacheBreak, SectionName, Transcript, Turn},
};

use crate::summarization::{
    Answer, Backoff, Books, Ledger, SummarizationPolicy, Summarizer, SummaryInput, TokenCounter,
    ask, first_of, last_model_turn, stays, summary_of, summary_turn,
};

const BACKOFF: Key<Backoff> = Key::session("summarization", "backoff");

/// What both stages need.
pub(super) struct Work {
    pub(super) policy: SummarizationPolicy,
    pub(super) summarizer: Arc<dyn Summarizer>,
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) books: Books,
}

/// Moves what exceeds the conversation's limit to the buffer.
pub(super) struct MoveMessagesToBuffer(pub(super) Arc<Work>);

/// Summarises the buffer when it exceeds its own limit.
pub(super) struct SummarizeBuffer(pub(super) Arc<Work>);

/// What is summed up of a buffer, and what is left of it.
struct Batch {
    turns: Vec<Arc<Turn>>,
    volume: TranscriptSize,
    rest: Transcript,
    /// The tokens of each turn that is left.
    rest_tokens: Vec<u64>,
}

impl Work {
    fn move_overflow(&self, state: &mut StateEdit<'_>, cx: &HookCx<'_>) {
        let Some(agent) = state.id().cloned() else { return };
        let mut counts = self.books.take(&agent);
        counts.messages.follow(state.transcript(), &*self.counter);
        if counts.messages.total() > self.policy.max_message_tokens {
            let length = state.transcript().len();
            let newest = last_model_turn(state.transcript()).unwrap_or(length.saturating_sub(1));
            let overflow =
                counts.messages.overflow(self.policy.max_message_tokens, length - newest);
            if overflow > 0 {
                self.make_summary_first(state);
                let buffer = self.policy.buffer_section.as_str();
                counts.buffer.follow(&section(state, buffer), &*self.counter);
                state.move_oldest(SectionName::MESSAGES, buffer, overflow);
                let into = section(state, buffer);
                let from = state.transcript();
                let moved = counts.messages.hand_over(overflow, &mut counts.buffer, from, &into);
                let kept = counts.messages.volume();
                cx.events.emit(|| MessagesMovedToBuffer::new(moved, kept));
            }
        }
        self.books.put(agent, counts);
    }

    /// Sections of other names are read in the order in which they were made.
    fn make_summary_first(&self, state: &mut StateEdit<'_>) {
        let name = self.policy.summary_section.as_str();
        if state.context().sections().get(name).is_none() {
            state.replace(name, Transcript::new(), CacheBreak::Compaction);
        }
    }

    /// Returns what is to be summed up now, if anything is.
    fn batch(&self, state: &AgentState) -> Option<Batch> {
        let buffer = state.context().sections().get(self.policy.buffer_section.as_str())?;
        let agent = state.id()?;
        let mut counts = self.books.take(agent);
        counts.buffer.follow(buffer, &*self.counter);
        let is_over = counts.buffer.total() > self.policy.max_buffer_tokens;
        let is_due = is_over && Backoff::allows(&BACKOFF, state);
        let tokens: Vec<u64> = if is_due { counts.buffer.counts().collect() } else { Vec::new() };
        self.books.put(agent.clone(), counts);
        if !is_due {
            return None;
        }
        let stays = stays(buffer.iter(), state.transcript().iter());
        let goes: Vec<usize> = (0..tokens.len()).filter(|at| !stays[*at]).collect();
        if goes.iter().map(|at| tokens[*at]).sum::<u64>() <= self.policy.max_buffer_tokens {
            return None;
        }
        let now = first_of(goes.iter().map(|at| tokens[*at]), self.policy.max_input_tokens);
        let now = &goes[..now];
        let volume = TranscriptSize {
            turns: now.len(),
            tokens: now.iter().map(|at| tokens[*at]).sum::<u64>(),
        };
        let turns = now.iter().filter_map(|at| buffer.get(*at).cloned()).collect();
        let left: Vec<usize> =
            (0..tokens.len()).filter(|at| now.binary_search(at).is_err()).collect();
        let rest = left.iter().filter_map(|at| buffer.get(*at).cloned()).collect();
        let rest_tokens = left.iter().map(|at| tokens[*at]).collect();
        Some(Batch { turns, volume, rest, rest_tokens })
    }

    /// What is left was counted already.
    fn count(&self, batch: &Batch, state: &AgentState) {
        if let Some(agent) = state.id() {
            let mut counts = self.books.take(agent);
            counts.buffer = Ledger::of(&batch.rest, batch.rest_tokens.clone());
            self.books.put(agent.clone(), counts);
        }
    }

    async fn summarize(&self, state: &mut StateEdit<'_>, cx: &HookCx<'_>) -> Result<(), BoxError> {
        let Some(batch) = self.batch(state) else { return Ok(()) };
        let summary_section = self.policy.summary_section.as_str();
        let earlier = summary_of(state.context().sections().get(summary_section));
        let max_tokens = self.policy.max_summary_tokens;
        let material =
            SummaryInput { earlier: earlier.as_deref(), turns: &batch.turns, max_tokens };
        match ask(&*self.summarizer, &*self.counter, material, state, cx).await {
            Answer::Summary(summary) => {
                let turn = summary_turn(&summary).into_iter().collect();
                state.replace(summary_section, turn, CacheBreak::Compaction);
                let buffer = self.policy.buffer_section.as_str();
                self.count(&batch, state);
                state.replace(buffer, batch.rest, CacheBreak::Compaction);
                Backoff::worked(&BACKOFF, state);
                let tokens = self.counter.count(&summary);
                cx.events.emit(|| MessageBufferSummarized::new(batch.volume, summary, tokens));
            }
            Answer::Failed(error) => {
                let failed = Backoff::failed(&BACKOFF, state, error)?;
                cx.events.emit(|| failed);
            }
            Answer::Stopped(signal) => state.signal(signal),
            Answer::Cancelled => (),
        }
        Ok(())
    }
}

fn section(state: &AgentState, name: &str) -> Transcript {
    state.context().sections().get(name).cloned().unwrap_or_default()
}

#[async_trait]
impl Hook for MoveMessagesToBuffer {
    fn name(&self) -> Cow<'static, str> {
        "summarization:move".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::AfterStep.into()
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.0.move_overflow(state, cx);
        Ok(Flow::Continue)
    }
}

#[async_trait]
impl Hook for SummarizeBuffer {
    fn name(&self) -> Cow<'static, str> {
        "summarization:summarize".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::AfterStep.into()
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.0.summarize(state, cx).await?;
        Ok(Flow::Continue)
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("policy", &self.policy).finish_non_exhaustive()
    }
}
