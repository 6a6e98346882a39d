//! The compaction of a conversation.

use std::collections::HashSet;
use std::sync::Arc;

use crate::compaction::ConversationCompacted;
use crate::summarization::TranscriptSize;
use loopwright_core::{
    AgentState, BoxError, HookCx, Key, StateEdit,
    messages::{CacheBreak, SectionName, Transcript, Turn},
};

use crate::{
    compaction::{
        gate::{CompactionGate, CompactionTrigger},
        known::Known,
        plan::{Fate, Plan},
        policy::CompactionPolicy,
        spill::{Spill, has_long_output},
    },
    files::WorkspaceRoot,
    summarization::{
        Answer, Backoff, Summarizer, SummaryInput, TokenCounter, ask, first_of, summary_of,
        summary_turn, turn_tokens,
    },
};

pub(super) const NAME: &str = "compaction";

pub(super) const BACKOFF: Key<Backoff> = Key::session(NAME, "backoff");

/// Compacts conversations.
#[derive(Clone)]
pub(super) struct Compactor {
    pub(super) policy: CompactionPolicy,
    pub(super) summarizer: Option<Arc<dyn Summarizer>>,
    pub(super) root: Option<WorkspaceRoot>,
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) gate: Option<Arc<dyn CompactionGate>>,
    pub(super) trigger: CompactionTrigger,
}

/// What the model is shown.
pub(super) struct Shown {
    pub(super) volume: TranscriptSize,
    /// The turns, by where they are in memory. None if the model is shown no turn as it is: then it is not
    /// known what it is shown of each.
    turns: Option<HashSet<usize>>,
}

impl Shown {
    fn has(&self, turn: &Arc<Turn>) -> bool {
        self.turns.as_ref().is_none_or(|it| it.contains(&address(turn)))
    }
}

fn address(turn: &Arc<Turn>) -> usize {
    Arc::as_ptr(turn).addr()
}

/// What came of summing up.
enum Summed {
    /// The summary of all that was to be summed up, if there was anything.
    Up(Option<String>),
    /// There is none.
    Failed(String),
    /// The run ends before there is one.
    GivenUp,
}

impl Compactor {
    /// Returns `true` if there is a long output to move, or enough to be summed up: a summary takes its own
    /// length and a request.
    pub(super) fn is_worth_it(&self, state: &AgentState, known: &mut Known) -> bool {
        let (policy, counter) = (&self.policy, &*self.counter);
        let is_long = |turn: &Turn| has_long_output(turn, policy, counter);
        let may_move = self.root.is_some() && known.has(state, is_long);
        may_move || self.summarizer.is_some() && self.has_enough(state)
    }

    fn has_enough(&self, state: &AgentState) -> bool {
        let plan = Plan::of(state, &self.policy, &*self.counter, |_| true);
        self.tokens(plan.older(Fate::Summed)) > 2 * self.policy.max_summary_tokens
    }

    /// Compacts the conversation, of which the model is shown this, and returns what it saved.
    /// Returns `None` if the run ends meanwhile, or the gate keeps the conversation as it is. What
    /// cannot be done leaves that part of the conversation as it is.
    pub(super) async fn compact(
        &self,
        before: Shown,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Option<ConversationCompacted>, BoxError> {
        if let Some(gate) = &self.gate
            && gate.keeps(self.trigger, state).await
        {
            Backoff::wait(&BACKOFF, state)?;
            return Ok(None);
        }
        let mut told = ConversationCompacted::new(before.volume, before.volume);
        let mut plan = Plan::of(state, &self.policy, &*self.counter, |turn| before.has(turn));
        self.shorten(&mut plan, &mut told, cx).await;
        match self.sum_up(&plan, state, cx).await {
            Summed::Up(summary) => self.replace(&plan, summary.as_deref(), state, &mut told),
            Summed::Failed(error) => {
                told.problems.push(error.clone());
                let failed = Backoff::failed(&BACKOFF, state, error)?;
                cx.events.emit(|| failed);
                put_shortened(&plan, state, &told);
            }
            Summed::GivenUp => return Ok(None),
        }
        told.after = self.shown(state, cx).await?.volume;
        Ok(Some(told))
    }

    /// Finds out what the model is shown.
    pub(super) async fn shown(
        &self,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<Shown, BoxError> {
        let prompt = cx.agent().compiler().compile(state, None).await?;
        let tokens = self.tokens(&prompt.turns);
        let turns: HashSet<usize> = prompt.turns.iter().map(address).collect();
        let mut all = state.context().sections().in_order().flat_map(|(_, section)| section);
        let turns = all.any(|turn| turns.contains(&address(turn))).then_some(turns);
        Ok(Shown { volume: TranscriptSize { turns: prompt.turns.len(), tokens }, turns })
    }

    fn tokens<'a>(&self, turns: impl IntoIterator<Item = &'a Arc<Turn>>) -> u64 {
        turns.into_iter().map(|turn| turn_tokens(&*self.counter, turn)).sum()
    }

    /// Moves long outputs to files, but for those of the newest exchange.
    async fn shorten(&self, plan: &mut Plan, told: &mut ConversationCompacted, cx: &HookCx<'_>) {
        let Some(root) = &self.root else { return };
        let (policy, counter, run) = (&self.policy, &*self.counter, cx.run());
        let (files, problems) = (Vec::new(), Vec::new());
        let cancel = run.cancellation();
        let mut spill = Spill { root, policy, counter, cancel, files, problems };
        for turn in plan.shortened() {
            *turn = spill.shorten(turn).await;
        }
        (told.files, told.problems) = (spill.files, spill.problems);
    }

    /// Sums up what is older, in as many requests as it takes.
    async fn sum_up(&self, plan: &Plan, state: &mut StateEdit<'_>, cx: &HookCx<'_>) -> Summed {
        let turns: Vec<Arc<Turn>> = plan.older(Fate::Summed).cloned().collect();
        let mut rest = &turns[..];
        let Some(summarizer) = self.summarizer.as_deref().filter(|_| !rest.is_empty()) else {
            return Summed::Up(None);
        };
        let mut summary = summary_of(state.context().sections().get(SectionName::SUMMARY));
        while !rest.is_empty() {
            let sizes = rest.iter().map(|turn| turn_tokens(&*self.counter, turn));
            let (turns, later) = rest.split_at(first_of(sizes, self.policy.max_input_tokens));
            let (earlier, max_tokens) = (summary.as_deref(), self.policy.max_summary_tokens);
            let material = SummaryInput { earlier, turns, max_tokens };
            match ask(summarizer, &*self.counter, material, state, cx).await {
                Answer::Summary(text) => summary = Some(text),
                Answer::Failed(error) => return Summed::Failed(error),
                Answer::Stopped(signal) => {
                    state.signal(signal);
                    return Summed::GivenUp;
                }
                Answer::Cancelled => return Summed::GivenUp,
            }
            rest = later;
        }
        Summed::Up(summary)
    }

    /// Puts the summary in the place of what it sums up, if that is longer.
    fn replace(
        &self,
        plan: &Plan,
        summary: Option<&str>,
        state: &mut StateEdit<'_>,
        told: &mut ConversationCompacted,
    ) {
        let Some(turn) = summary.and_then(summary_turn).map(Arc::new) else {
            return put_shortened(plan, state, told);
        };
        let old = state.context().sections().get(SectionName::SUMMARY).cloned().unwrap_or_default();
        if self.tokens([&turn]) >= self.tokens(plan.older(Fate::Summed)) + self.tokens(&old) {
            told.problems
                .push("the summary is not shorter than the messages it replaces".to_owned());
            return put_shortened(plan, state, told);
        }
        put(state, SectionName::SUMMARY, [turn].into_iter().collect());
        put(state, SectionName::BUFFER, plan.older(Fate::Stays).cloned().collect());
        put(state, SectionName::MESSAGES, plan.kept.iter().cloned().collect());
        Backoff::worked(&BACKOFF, state);
    }
}

/// Puts turns without their long outputs in the place of those with them.
fn put_shortened(plan: &Plan, state: &mut StateEdit<'_>, told: &ConversationCompacted) {
    if told.files.is_empty() {
        return;
    }
    let (buffered, older) = plan.older.split_at(plan.buffered);
    let buffered = buffered.iter().map(|(turn, _)| turn).cloned();
    put(state, SectionName::BUFFER, buffered.collect());
    let older = older.iter().map(|(turn, _)| turn);
    put(state, SectionName::MESSAGES, older.chain(&plan.kept).cloned().collect());
}

/// Replaces a section if it is to hold something else than it does.
fn put(state: &mut StateEdit<'_>, name: &str, turns: Transcript) {
    let is = state.context().sections().get(name).cloned().unwrap_or_default();
    if is != turns {
        state.replace(name, turns, CacheBreak::Compaction);
    }
}
