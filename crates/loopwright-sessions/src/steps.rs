//! Where the steps of a session end.

use loopwright_core::{Change, ChangeRecord, Seq};

/// Returns how many changes there are up to the end of a step, counted from one over all executions;
/// 0 is what comes before the first execution. The end of an execution belongs to its last step.
///
/// # Errors
///
/// How many steps there are, if there are fewer.
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
