//! What of a conversation stays, and what is summed up.

use std::sync::Arc;

use loopwright_core::{
    AgentState,
    messages::{SectionName, Transcript, Turn, TurnBody},
};

use crate::{
    compaction::policy::CompactionPolicy,
    summarization::{TokenCounter, stays, turn_tokens},
};

/// What of a conversation stays, and what does not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Turns that are older than what stays, with what becomes of them.
    pub(super) older: Vec<(Arc<Turn>, Fate)>,
    /// How many of the older turns stand in the buffer.
    pub(super) buffered: usize,
    /// The newest exchanges.
    pub(super) kept: Vec<Arc<Turn>>,
    /// How many of these are before the newest exchange.
    pub(super) settled: usize,
}

/// What becomes of a turn when those around it are summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays as it was said.
    Stays,
    /// It is summed up.
    Summed,
    /// It goes: the model is not shown it any more.
    Hidden,
}

impl Plan {
    pub(super) fn of(
        state: &AgentState,
        policy: &CompactionPolicy,
        counter: &dyn TokenCounter,
    ) -> Self {
        let sections = state.context().sections();
        let buffer = sections.get(SectionName::BUFFER).cloned().unwrap_or_default();
        let messages = state.transcript();
        let (cut, newest) = cut(messages, policy, counter);
        let older: Vec<_> = buffer.iter().chain(messages.iter().take(cut)).cloned().collect();
        let kept: Vec<_> = messages.iter_from(cut).cloned().collect();
        let stays = stays(older.iter(), kept.iter());
        let fate = |stays| if stays { Fate::Stays } else { Fate::Summed };
        let older = older.into_iter().zip(stays.into_iter().map(fate)).collect();
        Self { older, buffered: buffer.len(), kept, settled: newest - cut }
    }

    /// Notes which of the older turns the model is shown. Where it is shown none of them as they are,
    /// they are summed up all the same.
    pub(super) fn hide(&mut self, is_shown: impl Fn(&Arc<Turn>) -> bool) {
        if !self.older.iter().any(|(turn, _)| is_shown(turn)) {
            return;
        }
        for (turn, fate) in &mut self.older {
            if *fate == Fate::Summed && !is_shown(turn) {
                *fate = Fate::Hidden;
            }
        }
    }

    /// Returns the older turns of a fate.
    pub(super) fn older(&self, fate: Fate) -> impl Iterator<Item = &Arc<Turn>> {
        self.older.iter().filter(move |it| it.1 == fate).map(|(turn, _)| turn)
    }

    /// Returns the turns whose outputs may go to files.
    pub(super) fn shortened(&mut self) -> impl Iterator<Item = &mut Arc<Turn>> {
        let older = self.older.iter_mut().filter(|it| it.1 != Fate::Hidden);
        older.map(|(turn, _)| turn).chain(self.kept.iter_mut().take(self.settled))
    }
}

/// Returns where what stays begins, and where the newest exchange does.
fn cut(messages: &Transcript, policy: &CompactionPolicy, counter: &dyn TokenCounter) -> (usize, usize) {
    let is_input = |at: usize| {
        messages.get(at).is_some_and(|turn| matches!(turn.body(), TurnBody::Input(_)))
    };
    let (mut cut, mut newest, mut tokens) = (messages.len(), None, 0_u64);
    let mut exchanges = 0;
    while cut > 0 && exchanges < policy.keep_exchanges.max(1) {
        let end = cut;
        let mut begin = cut;
        // What nobody has answered yet belongs to the newest exchange.
        while newest.is_none() && begin > 0 && is_input(begin - 1) {
            begin -= 1;
        }
        begin = begin.saturating_sub(1);
        while begin > 0 && is_input(begin - 1) {
            begin -= 1;
        }
        let turns = messages.iter().skip(begin).take(end - begin);
        tokens += turns.map(|turn| turn_tokens(counter, turn)).sum::<u64>();
        if newest.is_some() && tokens > policy.keep_tokens {
            break;
        }
        (cut, exchanges) = (begin, exchanges + 1);
        newest.get_or_insert(begin);
    }
    (cut, newest.unwrap_or(cut))
}
