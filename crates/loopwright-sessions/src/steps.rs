//! The positions where the steps of a session end and its last turn begins.

use loopwright_core::{
    Change, ChangeRecord, Edit, Seq,
    messages::{Role, SectionName},
};

/// Returns the number of changes up to the end of a step, counted from one over all executions;
/// step 0 is the state before the first execution. The end of an execution belongs to its last
/// step.
///
/// # Errors
///
/// Returns the number of steps if there are fewer.
pub fn step_end(changes: &[ChangeRecord], step: u64) -> Result<Seq, u64> {
    let (mut steps, mut end) = (0, None);
    for (number, stamped) in (0..).zip(changes) {
        match (&stamped.change, end) {
            (Change::ExecutionStarted { .. }, None) if step == 0 => return Ok(number),
            (Change::ExecutionStarted { .. } | Change::StepStarted { .. }, Some(end)) => {
                return Ok(end);
            }
            (Change::ExecutionEnded(_), Some(_)) => return Ok(number + 1),
            (Change::StepCompleted { .. } | Change::StepFailed { .. }, None) => {
                steps += 1;
                end = (steps == step).then_some(number + 1);
            }
            _ => {}
        }
    }
    match end {
        Some(end) => Ok(end),
        None if step == 0 => Ok(changes.len() as u64),
        None => Err(steps),
    }
}

/// The target of a rewind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewindPoint {
    /// The end of a step; see [`step_end`].
    Step(u64),
    /// The beginning of the last turn; see [`last_turn`].
    LastTurn,
    /// The beginning of the turn to which the message of a change belongs. The number is that of the change, counted from zero.
    TurnOf(Seq),
}

impl From<u64> for RewindPoint {
    fn from(step: u64) -> Self {
        Self::Step(step)
    }
}

/// Returns the number of changes before the last turn: before the last message of the user and the
/// execution that followed. A turn without a message of the user, such as one that only compacts
/// the conversation, begins with its execution. For a message in the middle of an execution, the
/// position is the end of the step before it.
pub fn last_turn(changes: &[ChangeRecord]) -> Seq {
    let (mut steps, mut start) = (0, None);
    // What the user said since the model or a run did something.
    let mut words: Option<Seq> = None;
    let mut is_running = false;
    for (number, stamped) in (0..).zip(changes) {
        match &stamped.change {
            Change::StepCompleted { .. } | Change::StepFailed { .. } => steps += 1,
            Change::ExecutionStarted { .. } => {
                start = words.take().or(Some(number));
                is_running = true;
            }
            Change::ExecutionResumed => {
                start = words.take().or(start);
                is_running = true;
            }
            Change::ExecutionEnded(_) => is_running = false,
            change => match speaker(change) {
                Some(Role::User) if is_running => start = step_end(changes, steps).ok().or(start),
                Some(Role::User) => words = words.or(Some(number)),
                Some(_) => words = None,
                None => {}
            },
        }
    }
    words.or(start).unwrap_or(changes.len() as u64)
}

/// Returns `true` if one of the changes adds a message or starts a step.
pub fn has_words(changes: &[ChangeRecord]) -> bool {
    let is_word = |it: &Change| matches!(it, Change::StepStarted { .. }) || speaker(it).is_some();
    changes.iter().any(|it| is_word(&it.change))
}

/// Returns the role that says something in the conversation with a change that no part of a run made.
fn speaker(change: &Change) -> Option<Role> {
    let message = match change {
        Change::MessageSteered(message) => message,
        Change::StateEdited { edit: Edit::Append { section, message }, by }
            if section.as_str() == SectionName::MESSAGES && &**by == "caller" =>
        {
            message
        }
        _ => return None,
    };
    (!message.is_empty()).then(|| message.role())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loopwright_core::{
        ExecutionStatus, StopSignal, Timestamp,
        messages::{AgentId, ExecutionId, Message},
    };

    use super::*;

    fn said(text: &str) -> Change {
        let section = SectionName::MESSAGES.into();
        let edit = Edit::Append { section, message: Message::user(text) };
        Change::StateEdited { by: "caller".into(), edit }
    }

    fn started() -> Change {
        let (agent, execution) = (AgentId::new("a"), ExecutionId::new("e"));
        Change::ExecutionStarted { agent, execution }
    }

    fn step() -> [Change; 2] {
        [Change::StepStarted { attempt: 1 }, Change::StepCompleted { duration: Duration::ZERO }]
    }

    fn turn_of(changes: impl IntoIterator<Item = Change>) -> Seq {
        let at = Timestamp::from_millis(1);
        let changes: Vec<_> =
            changes.into_iter().map(|change| ChangeRecord { at, change }).collect();
        last_turn(&changes)
    }

    fn ended(status: ExecutionStatus) -> Change {
        Change::ExecutionEnded(status)
    }

    #[test]
    fn the_last_turn_begins_with_what_the_user_said_last() {
        let [begins, ends] = step();
        let first = [said("1"), started(), begins, ends, ended(ExecutionStatus::Completed)];
        let second = || first.clone().into_iter().chain(first.clone());
        assert_eq!(turn_of([]), 0);
        assert_eq!(turn_of([said("1")]), 0);
        assert_eq!(turn_of(first.clone()), 0);
        assert_eq!(turn_of(second()), 5);
        assert_eq!(turn_of(second().chain([said("3")])), 10);
        // A compaction: the user said nothing.
        let compaction = [started(), ended(ExecutionStatus::Completed)];
        assert_eq!(turn_of(second().chain(compaction)), 10);
    }

    #[test]
    fn resuming_a_stopped_execution_is_a_turn_of_its_own() {
        let [begins, ends] = step();
        let stopped = ended(ExecutionStatus::Stopped(StopSignal::user_requested("enough")));
        let first = [said("1"), started(), begins.clone(), ends.clone(), stopped];
        let second = [said("2"), Change::ExecutionResumed, begins.clone(), ends.clone()];
        assert_eq!(turn_of(first.iter().chain(&second).cloned()), 5);
        assert_eq!(turn_of(first.iter().cloned().chain([Change::ExecutionResumed])), 0);
        // A message to a run goes back to the end of the step before it.
        let steered = Change::MessageSteered(Message::user("2"));
        let told = [said("1"), started(), begins.clone(), ends.clone(), steered, begins, ends];
        assert_eq!(turn_of(told), 4);
    }
}
