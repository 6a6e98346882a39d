//! Where an execution stands, in the words of user interfaces.

use std::fmt;

use loopwright_core::StopReason;
use serde::{Deserialize, Serialize};

/// Where an execution stands: `idle → processing → completed | failed | cancelled | stopped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadcastStatus {
    /// Nothing is worked on: it has not begun, or it waits for somebody's decision.
    #[default]
    Idle,
    /// It takes steps.
    Processing,
    /// It came to its natural end.
    Completed,
    /// It failed.
    Failed,
    /// The user ended it.
    Cancelled,
    /// Something else ended it, such as a limit.
    Stopped,
}

impl BroadcastStatus {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Idle,
        Self::Processing,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Stopped,
    ];

    /// Returns the status as it is written.
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

    /// Returns what an execution comes to that ends for a reason; none is a natural end.
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
