//! Reasons why the remaining calls of a step do not run.

use crate::{executor::CallDisposition, outcome::ToolOutcome};

/// Why no further call of a step starts.
#[derive(Clone, Debug)]
pub(super) enum StopMode {
    Stopped,
    Cancelled,
    HookFailed,
}

impl StopMode {
    /// Returns the outcome of a call that has not started.
    pub(super) fn outcome(&self) -> ToolOutcome {
        let skipped = |reason: &str| ToolOutcome::Skipped { reason: reason.to_owned() };
        match self {
            Self::Cancelled => ToolOutcome::Cancelled { started: false },
            Self::Stopped => skipped("the run was stopped before the tool started"),
            Self::HookFailed => skipped("a hook failed before the tool started"),
        }
    }
}

impl CallDisposition {
    /// Returns why no other call of the same wave starts, or `None` if they can.
    pub(super) fn halt(&self) -> Option<StopMode> {
        match self {
            Self::Over(ended) if ended.failure.is_some() => Some(StopMode::HookFailed),
            Self::Over(ended) if ended.signal.is_none() => None,
            Self::Stop(_) | Self::Over(_) => Some(StopMode::Stopped),
            Self::Run(_) | Self::Ask(_) => None,
        }
    }
}
