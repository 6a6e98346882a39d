//! Token counts that grow with a conversation: no turn is counted twice.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::summarization::TranscriptSize;
use loopwright_core::messages::{AgentId, Mark, Transcript};

use crate::summarization::counter::{TokenCounter, turn_tokens};

/// The tokens of a section, turn by turn, up to where it was looked at last.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    mark: Mark,
    counts: VecDeque<u64>,
    total: u64,
}

impl Ledger {
    /// Counts the new turns, and returns `true` if the section continues. One that is another one
    /// than before is counted from its beginning.
    pub(crate) fn follow(&mut self, section: &Transcript, counter: &dyn TokenCounter) -> bool {
        let goes_on = section.extends(self.mark);
        if !goes_on {
            *self = Self::default();
        }
        for turn in section.iter_from(self.mark.turns()) {
            let tokens = turn_tokens(counter, turn);
            self.counts.push_back(tokens);
            self.total += tokens;
        }
        self.mark = section.mark();
        goes_on
    }

    /// Takes over what was counted of these turns already.
    pub(crate) fn of(section: &Transcript, counts: Vec<u64>) -> Self {
        Self { mark: section.mark(), total: counts.iter().sum(), counts: counts.into() }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn volume(&self) -> TranscriptSize {
        TranscriptSize { turns: self.counts.len(), tokens: self.total }
    }

    /// Returns the tokens of each turn.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().copied()
    }

    /// Returns the tokens of the newest turns.
    #[cfg(all(feature = "tools", target_os = "linux"))]
    pub(crate) fn newest(&self, turns: usize) -> u64 {
        self.counts.iter().rev().take(turns).sum()
    }

    /// Returns how many of the oldest turns have to go so that the rest is within a limit. The newest
    /// ones stay, whatever they are.
    pub(crate) fn overflow(&self, limit: u64, stay: usize) -> usize {
        let may_go = self.counts.len().saturating_sub(stay);
        let mut left = self.total;
        let goes = |tokens: &&u64| {
            let is_over = left > limit;
            left -= if is_over { **tokens } else { 0 };
            is_over
        };
        self.counts.iter().take(may_go).take_while(goes).count()
    }

    /// Notes that the oldest turns were moved to the end of another section; returns how much that is.
    pub(crate) fn hand_over(
        &mut self,
        turns: usize,
        to: &mut Self,
        section: &Transcript,
        other: &Transcript,
    ) -> TranscriptSize {
        let moved: Vec<u64> = self.counts.drain(..turns).collect();
        let tokens = moved.iter().sum();
        self.total -= tokens;
        to.total += tokens;
        to.counts.extend(moved);
        (self.mark, to.mark) = (section.mark(), other.mark());
        TranscriptSize { turns, tokens }
    }
}

/// The tokens of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) messages: Ledger,
    pub(crate) buffer: Ledger,
}

/// The number of remembered conversations. Others are counted again.
const REMEMBERED: usize = 256;

/// What is known of the conversations that were looked at last, newest first.
#[derive(Debug, Default)]
pub(crate) struct Books<T = Counts>(Mutex<VecDeque<(AgentId, T)>>);

impl<T: Default> Books<T> {
    /// Takes out what is known of an agent's conversation.
    pub(crate) fn take(&self, agent: &AgentId) -> T {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(it, _)| it == agent);
        at.and_then(|at| kept.remove(at)).map(|(_, known)| known).unwrap_or_default()
    }

    /// Puts it back.
    pub(crate) fn put(&self, agent: AgentId, known: T) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((agent, known));
        kept.truncate(REMEMBERED);
    }
}
