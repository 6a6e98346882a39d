//! Cached data about a conversation, so that no turn is examined twice.

use loopwright_core::{
    AgentState,
    messages::{Mark, SectionName, Transcript, Turn},
};

use crate::{
    compaction::plan::newest_exchange,
    summarization::{Ledger, TokenCounter, last_model_turn},
};

/// What is known of a conversation.
#[derive(Debug, Default)]
pub(super) struct Known {
    summary: Ledger,
    buffer: Ledger,
    messages: Ledger,
    /// How many of these tokens the model was not shown when that was looked at last.
    hidden: u64,
    /// Up to where the buffer and the conversation were searched.
    searched: [Mark; 2],
}

/// How many tokens the next request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// The provider counted them in the last step, but for what came since.
    Reported(u64),
    /// It did not. They may be fewer: what the model is not shown any more is counted too, until it is
    /// known.
    Estimated(u64),
}

impl Size {
    pub(super) fn tokens(self) -> u64 {
        let (Self::Reported(tokens) | Self::Estimated(tokens)) = self;
        tokens
    }
}

impl Known {
    /// Returns how many tokens the next request has. The cost is that of what came since.
    pub(super) fn size(&mut self, state: &AgentState, counter: &dyn TokenCounter) -> Size {
        self.follow(state, counter);
        match state.last_step().map_or(0, |step| step.usage().input) {
            0 => Size::Estimated(self.total().saturating_sub(self.hidden)),
            read => Size::Reported(read + self.since(state.transcript())),
        }
    }

    /// Notes how many tokens the model is shown.
    pub(super) fn note_shown(&mut self, tokens: u64) {
        self.hidden = self.total().saturating_sub(tokens);
    }

    /// Returns `true` if there is such a turn before the newest exchange. One that is not is asked about once.
    pub(super) fn has(&mut self, state: &AgentState, is_it: impl Fn(&Turn) -> bool) -> bool {
        let buffer = state.context().sections().get(SectionName::BUFFER);
        let messages = state.transcript();
        let [in_buffer, in_messages] = &mut self.searched;
        buffer.is_some_and(|it| find(it, it.len(), in_buffer, &is_it))
            || find(messages, newest_exchange(messages, &|_| true), in_messages, &is_it)
    }

    fn follow(&mut self, state: &AgentState, counter: &dyn TokenCounter) {
        let none = Transcript::new();
        let sections = [
            (SectionName::SUMMARY, &mut self.summary),
            (SectionName::BUFFER, &mut self.buffer),
            (SectionName::MESSAGES, &mut self.messages),
        ];
        for (name, ledger) in sections {
            let section = state.context().sections().get(name).unwrap_or(&none);
            if !ledger.follow(section, counter) {
                self.hidden = 0;
            }
        }
    }

    fn total(&self) -> u64 {
        self.summary.total() + self.buffer.total() + self.messages.total()
    }

    /// Returns the tokens of what the model said last, and of what came since.
    fn since(&self, messages: &Transcript) -> u64 {
        self.messages.newest(messages.len() - last_model_turn(messages).unwrap_or(0))
    }
}

/// Searches on, up to an end, and stays where there is something.
fn find(
    section: &Transcript,
    end: usize,
    searched: &mut Mark,
    is_it: &impl Fn(&Turn) -> bool,
) -> bool {
    let begin = if section.extends(*searched) { searched.turns() } else { 0 };
    let mut turns = section.iter_from(begin).take(end.saturating_sub(begin));
    let found = turns.position(|turn| is_it(turn));
    let next = found.map_or(end.max(begin), |at| begin + at);
    *searched = section.prefix(next).mark();
    found.is_some()
}
