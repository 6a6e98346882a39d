//! The mapping of checkpoints to steps, and the conversation after a rewind.

use loopwright_core::{
    AgentState, Key, Step,
    messages::{ExecutionId, Transcript, Turn, TurnBody},
};
use serde::{Deserialize, Serialize};

use crate::retrospective::prompt::is_guidance;

/// The checkpoints of an execution. The next execution starts from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoints {
    /// The number of checkpoints; the newest one has this number minus one.
    pub taken: u32,
    /// The number of rewinds of the execution.
    pub rewinds: u32,
}

impl Checkpoints {
    /// Counts the checkpoints of the current or last execution.
    pub fn of(state: &AgentState) -> Self {
        let Some(execution) = state.execution() else { return Self::default() };
        let ways = Ways::of(state);
        let is_open = execution.open_step().is_some();
        let next = ways.checkpoint_before(state.step_count() + 1);
        Self { taken: next + u32::from(is_open), rewinds: ways.rewinds }
    }
}

/// A request to rewind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewindRequest {
    /// The target checkpoint, counted from zero.
    pub checkpoint: u32,
    /// The guidance of the model.
    pub guidance: String,
}

/// Which steps are the way that the conversation shows. It is written when the execution goes back and
/// at no other time, so that a step costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ways {
    pub(super) rewinds: u32,
    /// Where steps that stand on the way are not those that were taken one after the other: there are no
    /// more of them than rewinds, in ascending order.
    turns: Vec<Bend>,
}

/// From this checkpoint on the way continues with this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Bend {
    checkpoint: u32,
    step: u32,
}

impl Bend {
    const BEGINNING: Self = Self { checkpoint: 0, step: 1 };
}

pub(super) const WAYS: Key<Ways> = Key::execution("retrospective", "ways");

impl Ways {
    pub(super) fn of(state: &AgentState) -> Self {
        state.get(&WAYS).unwrap_or_default()
    }

    /// Returns the number of the checkpoint before a step that is the newest one.
    pub(super) fn checkpoint_before(&self, step: u32) -> u32 {
        let last = self.turns.last().unwrap_or(&Bend::BEGINNING);
        last.checkpoint + step.saturating_sub(last.step)
    }

    /// Returns the number of the step that followed a checkpoint, counted from one.
    pub(super) fn step_after(&self, checkpoint: u32) -> u32 {
        let before = self.turns.iter().rev().find(|it| it.checkpoint <= checkpoint);
        let Bend { checkpoint: first, step } = before.copied().unwrap_or(Bend::BEGINNING);
        step + (checkpoint - first)
    }

    /// Returns `true` if the execution went back before a step.
    pub(super) fn bend_at(&self, step: u32) -> bool {
        self.turns.last().is_some_and(|it| it.step == step)
    }

    /// Notes that the execution went back, and which step is the next one.
    pub(super) fn go_back(&mut self, checkpoint: u32, step: u32) {
        self.turns.retain(|it| it.checkpoint < checkpoint);
        self.turns.push(Bend { checkpoint, step });
        self.rewinds += 1;
    }
}

/// Returns `true` if the conversation still holds what came after the checkpoint before a step. Where it
/// was compacted meanwhile, nothing can be taken away from its summary.
pub(super) fn is_reachable(state: &AgentState, step: u32) -> bool {
    let mut taken = (step..=state.step_count()).filter_map(|it| state.step_at(it as usize - 1));
    let first = taken.find_map(Step::turn);
    let Some(first) = first.and_then(|turn| turn.meta().step) else { return true };
    let kept = state.transcript().get(cut(state, step));
    kept.is_some_and(|turn| turn.meta().step == Some(first))
}

/// Returns the conversation as it was before a step. Of what came later, only what others than the model
/// said is kept.
pub(super) fn before(state: &AgentState, step: u32) -> Transcript {
    let turns = state.transcript();
    let cut = cut(state, step);
    let mut kept = turns.prefix(cut);
    kept.extend(turns.iter_from(cut).filter(|turn| is_from_outside(turn)).cloned());
    kept
}

/// Returns the position of the first turn that a step, or one after it, recorded. What is before that is
/// not looked at.
fn cut(state: &AgentState, step: u32) -> usize {
    let turns = state.transcript();
    let current = state.execution().map(loopwright_core::Execution::id);
    let mut cut = turns.len();
    for (turn, position) in turns.iter().rev().zip((0..turns.len()).rev()) {
        match step_of(turn, current) {
            Some(it) if it >= step => cut = position,
            Some(_) => break,
            None if turn.meta().execution.is_some() => break,
            None => (),
        }
    }
    cut
}

fn step_of(turn: &Turn, current: Option<&ExecutionId>) -> Option<u32> {
    turn.meta().step.filter(|_| turn.meta().execution.as_ref() == current)
}

fn is_from_outside(turn: &Turn) -> bool {
    matches!(turn.body(), TurnBody::Input(message) if !is_guidance(&message.text()))
}
