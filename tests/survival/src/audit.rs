//! Compares what happened with what is stored.

use std::collections::{BTreeMap, BTreeSet};

use loopwright_core::{
    AgentState, Change, ChangeRecord, ExecutionStatus, IdempotencyKey, Seq, ToolOutcome,
    messages::ExecutionId,
};

use crate::{
    ledger::Entry,
    script::{ANSWER, Kind},
};

/// Finds whatever is wrong with a run of the scripted agent that has ended: what its ledger tells, and
/// what is stored of it.
///
/// - What was acknowledged, or loaded once, is stored as it was then, and was there at every load.
/// - No model is asked again once its answer was acknowledged, and none before its step was.
/// - No effect begins before its beginning was acknowledged, and none that must not be repeated begins
///   twice.
/// - Every call has an outcome. One that returned took effect; one that took effect is told of.
pub fn problems(entries: &[Entry], stored: &[ChangeRecord], steps: u32) -> Vec<String> {
    let mut audit = Audit { order: Order::of(stored), ..Audit::default() };
    for entry in entries {
        audit.hear(entry);
    }
    audit.check_stored(stored);
    match AgentState::new().replay(stored.to_vec()) {
        Ok(state) => audit.check_end(&state, steps),
        Err(error) => audit.problems.push(format!("what is stored leads nowhere: {error}")),
    }
    audit.problems
}

/// What each change is about.
#[derive(Default)]
struct Order(BTreeMap<Seq, About>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Opened(u32),
    Answered(u32),
    Started(String),
}

impl Order {
    fn of(changes: &[ChangeRecord]) -> Self {
        let (mut execution, mut step) = (ExecutionId::from(""), 1);
        let mut about = BTreeMap::new();
        for (number, stamped) in (0..).zip(changes) {
            let found = match &stamped.change {
                Change::ExecutionStarted { execution: id, .. } => {
                    execution = id.clone();
                    continue;
                }
                Change::StepCompleted { .. } | Change::StepFailed { .. } => {
                    step += 1;
                    continue;
                }
                Change::StepStarted { .. } => About::Opened(step),
                Change::ModelResponded(_) => About::Answered(step),
                Change::ToolCallStarted { call, .. } => {
                    About::Started(key(&execution, step, *call).to_string())
                }
                _ => continue,
            };
            about.insert(number, found);
        }
        Self(about)
    }
}

fn key(execution: &ExecutionId, step: u32, call: u16) -> IdempotencyKey {
    IdempotencyKey { execution: execution.clone(), step, call: Some(call) }
}

/// What is known at some point of a ledger.
#[derive(Default)]
struct Audit {
    order: Order,
    /// What must be stored from now on.
    known: BTreeMap<Seq, ChangeRecord>,
    about: BTreeSet<(About, Seq)>,
    began: BTreeMap<String, usize>,
    done: BTreeMap<String, usize>,
    problems: Vec<String>,
}

impl Audit {
    fn hear(&mut self, entry: &Entry) {
        match entry {
            Entry::Found(changes) => {
                self.check_stored(changes);
                self.know(0, changes);
            }
            Entry::Kept { first, changes, .. } => self.know(*first, changes),
            Entry::Asked { step } => {
                if self.times(&About::Answered(*step)) > 0 {
                    self.problems.push(format!("step {step} was paid again"));
                }
                if self.times(&About::Opened(*step)) == 0 {
                    self.problems.push(format!("step {step} was asked for before it was kept"));
                }
            }
            Entry::Began { kind, key } => {
                let times = *self.began.entry(key.clone()).and_modify(|it| *it += 1).or_insert(1);
                let started = self.times(&About::Started(key.clone()));
                if *kind == Kind::Once && times > 1 {
                    self.problems.push(format!("{key} began {times} times"));
                }
                if *kind != Kind::Pure && started < times {
                    let text =
                        format!("{key} began {times} times and is on record {started} times");
                    self.problems.push(text);
                }
            }
            Entry::Done { key, .. } => *self.done.entry(key.clone()).or_default() += 1,
            _ => {}
        }
    }

    fn know(&mut self, first: Seq, changes: &[ChangeRecord]) {
        for (number, stamped) in (first..).zip(changes) {
            self.known.insert(number, stamped.clone());
            if let Some(about) = self.order.0.get(&number) {
                self.about.insert((about.clone(), number));
            }
        }
    }

    fn times(&self, about: &About) -> usize {
        self.about.range((about.clone(), 0)..=(about.clone(), Seq::MAX)).count()
    }

    /// Checks that all that is known is there.
    fn check_stored(&mut self, changes: &[ChangeRecord]) {
        let at = |number: Seq| changes.get(usize::try_from(number).unwrap_or(usize::MAX));
        let lost = self.known.iter().filter(|(number, known)| at(**number) != Some(known));
        let lost: Vec<_> =
            lost.map(|(number, _)| format!("change {number} was kept and is lost")).collect();
        self.problems.extend(lost);
    }

    fn check_end(&mut self, state: &AgentState, steps: u32) {
        let found = (state.status(), state.step_count(), state.text());
        if found != (&ExecutionStatus::Completed, steps, ANSWER.to_owned()) {
            self.problems.push(format!("the run ended as {found:?}"));
        }
        let Some(execution) = state.execution() else { return };
        let mut told = BTreeSet::new();
        for step in execution.steps() {
            for (call, (asked, outcome)) in (0..).zip(step.tool_executions()) {
                let key = key(execution.id(), step.number(), call).to_string();
                let done = self.done.get(&key).copied().unwrap_or_default();
                if !is_right(Kind::of(&asked.name), outcome, done) {
                    self.problems.push(format!("{key} took effect {done} times: {outcome:?}"));
                }
                told.insert(key);
            }
        }
        let untold = self.done.keys().filter(|key| !told.contains(*key));
        let untold: Vec<_> =
            untold.map(|key| format!("{key} took effect and nobody is told")).collect();
        self.problems.extend(untold);
    }
}

/// Tells whether an outcome says what happened to a call that took effect so often.
fn is_right(kind: Option<Kind>, outcome: &ToolOutcome, done: usize) -> bool {
    match (kind, outcome) {
        (Some(Kind::Once), ToolOutcome::Unknown) => done <= 1,
        (Some(Kind::Once), ToolOutcome::Returned(_)) => done == 1,
        (Some(Kind::Pure | Kind::Idempotent), ToolOutcome::Returned(_)) => done >= 1,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
