//! The plan of a compaction: the turns that stay, and the turns to summarize.

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
    /// Which of these are before the newest exchange, and shown.
    settled: Vec<bool>,
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
    /// Looks at a conversation of which the model is shown only some turns.
    pub(super) fn of(
        state: &AgentState,
        policy: &CompactionPolicy,
        counter: &dyn TokenCounter,
        is_shown: impl Fn(&Arc<Turn>) -> bool,
    ) -> Self {
        let sections = state.context().sections();
        let buffer = sections.get(SectionName::BUFFER).cloned().unwrap_or_default();
        let messages = state.transcript();
        let (cut, newest) = cut(messages, policy, counter, &is_shown);
        let older: Vec<_> = buffer.iter().chain(messages.iter().take(cut)).cloned().collect();
        let kept: Vec<_> = messages.iter_from(cut).cloned().collect();
        let stays = stays(older.iter(), kept.iter());
        let fate = |(turn, stays): (Arc<Turn>, bool)| {
            let fate = match (stays, is_shown(&turn)) {
                (true, _) => Fate::Stays,
                (false, true) => Fate::Summed,
                (false, false) => Fate::Hidden,
            };
            (turn, fate)
        };
        let older = older.into_iter().zip(stays).map(fate).collect();
        let settled = kept.iter().take(newest - cut).map(&is_shown).collect();
        Self { older, buffered: buffer.len(), kept, settled }
    }

    /// Returns the older turns of a fate.
    pub(super) fn older(&self, fate: Fate) -> impl Iterator<Item = &Arc<Turn>> {
        self.older.iter().filter(move |it| it.1 == fate).map(|(turn, _)| turn)
    }

    /// Returns the turns whose outputs may go to files.
    pub(super) fn shortened(&mut self) -> impl Iterator<Item = &mut Arc<Turn>> {
        let older = self.older.iter_mut().filter(|it| it.1 != Fate::Hidden);
        let kept = self.kept.iter_mut().zip(&self.settled).filter(|it| *it.1);
        older.map(|(turn, _)| turn).chain(kept.map(|(turn, _)| turn))
    }
}

/// Returns where what stays begins, and where the newest exchange does.
fn cut(
    messages: &Transcript,
    policy: &CompactionPolicy,
    counter: &dyn TokenCounter,
    is_shown: &impl Fn(&Arc<Turn>) -> bool,
) -> (usize, usize) {
    let tokens_of = |begin: usize, end: usize| -> u64 {
        let turns = messages.iter_from(begin).take(end - begin).filter(|it| is_shown(it));
        turns.map(|turn| turn_tokens(counter, turn)).sum()
    };
    let newest = newest_exchange(messages, is_shown);
    let (mut cut, mut tokens) = (newest, tokens_of(newest, messages.len()));
    for _ in 1..policy.keep_exchanges {
        let begin = back(messages, cut.saturating_sub(1), is_shown);
        tokens += tokens_of(begin, cut);
        if tokens > policy.keep_tokens {
            break;
        }
        cut = begin;
    }
    (cut, newest)
}

/// Returns where the newest exchange begins. What no process has answered yet belongs to it.
pub(super) fn newest_exchange(
    messages: &Transcript,
    is_shown: &impl Fn(&Arc<Turn>) -> bool,
) -> usize {
    let end = back(messages, messages.len(), is_shown);
    back(messages, end.saturating_sub(1), is_shown)
}

/// Goes back over what led to a turn, which belongs to its exchange, and so does what the model is not
/// shown any more.
fn back(messages: &Transcript, at: usize, is_shown: &impl Fn(&Arc<Turn>) -> bool) -> usize {
    let is_input = |turn: &Arc<Turn>| matches!(turn.body(), TurnBody::Input(_));
    let turns = messages.iter().take(at).rev();
    at - turns.take_while(|turn| is_input(turn) || !is_shown(turn)).count()
}
