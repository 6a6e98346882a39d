//! The status of an execution, in the terms of user interfaces.

use std::fmt;

use loopwright_core::StopReason;
use serde::{Deserialize, Serialize};

/// The status of an execution: `idle → processing → completed | failed | cancelled | stopped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadcastStatus {
    /// The execution has not started, or waits for a decision.
    #[default]
    Idle,
    /// It takes steps.
    Processing,
    /// It completed naturally.
    Completed,
    /// It failed.
    Failed,
    /// The user cancelled it.
    Cancelled,
    /// It was ended for another reason, such as a limit.
    Stopped,
}

impl BroadcastStatus {
    /// All statuses.
    pub const ALL: [Self; 6] = [
        Self::Idle,
        Self::Processing,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Stopped,
    ];

    /// Returns the name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Stopped => "stopped",
        }
    }

    /// Returns `true` if the execution has ended.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Idle | Self::Processing)
    }

    /// Returns the status of an execution that ended for a reason; `None` is a natural end.
    pub fn of_ending(reason: Option<StopReason>) -> Self {
        match reason {
            None | Some(StopReason::Completed) => Self::Completed,
            Some(StopReason::ErrorForbade) => Self::Failed,
            Some(StopReason::UserRequested) => Self::Cancelled,
            Some(_) => Self::Stopped,
        }
    }
}

impl fmt::Display for BroadcastStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
