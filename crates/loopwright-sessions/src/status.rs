//! The status of a session, which decides what it allows.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The status of a session, which decides what it allows. It is independent of the status of its
/// last execution: an active session can have a failed execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// The session accepts messages.
    #[default]
    Active,
    /// The session accepts no messages until it is resumed.
    Suspended,
    /// The session is completed, until it is resumed.
    Completed,
    /// The session was abandoned, until it is resumed.
    Failed,
    /// The session is permanently deleted.
    Deleted,
}

/// A change of status that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("session status cannot change from {from} to {to}")]
pub struct InvalidTransition {
    /// The current status.
    pub from: SessionStatus,
    /// The requested status.
    pub to: SessionStatus,
}

impl SessionStatus {
    /// All statuses.
    pub const ALL: [Self; 5] =
        [Self::Active, Self::Suspended, Self::Completed, Self::Failed, Self::Deleted];

    /// Returns the name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Deleted => "deleted",
        }
    }

    /// Parses the name of a status.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Changes to another status, or keeps the same one.
    ///
    /// | from | to |
    /// |---|---|
    /// | active | suspended, completed, failed, deleted |
    /// | suspended | active, deleted |
    /// | completed, failed | active, deleted |
    /// | deleted | nothing |
    ///
    /// # Errors
    ///
    /// Returns an error if the table does not allow the change.
    pub fn transition_to(self, to: Self) -> Result<Self, InvalidTransition> {
        use SessionStatus::{Active, Completed, Deleted, Failed, Suspended};
        match (self, to) {
            (Deleted, _) => Err(InvalidTransition { from: self, to }),
            (Active, _) | (Suspended | Completed | Failed, Active | Deleted) => Ok(to),
            (from, to) if from == to => Ok(to),
            (from, to) => Err(InvalidTransition { from, to }),
        }
    }
}

impl fmt::Display for SessionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_transitions_is_this_one() {
        use SessionStatus::{Active, Completed, Deleted, Failed, Suspended};
        let allowed = [
            (Active, vec![Active, Suspended, Completed, Failed, Deleted]),
            (Suspended, vec![Active, Suspended, Deleted]),
            (Completed, vec![Active, Completed, Deleted]),
            (Failed, vec![Active, Failed, Deleted]),
            (Deleted, vec![]),
        ];
        for (from, expect) in allowed {
            let to = SessionStatus::ALL.into_iter().filter(|to| from.transition_to(*to).is_ok());
            assert_eq!(to.collect::<Vec<_>>(), expect, "from {from}");
        }
    }

    #[test]
    fn a_refusal_names_both_states() {
        let refused = SessionStatus::Deleted.transition_to(SessionStatus::Active).unwrap_err();
        assert_eq!(refused.to_string(), "session status cannot change from deleted to active");
    }

    #[test]
    fn words_are_found_again() {
        for status in SessionStatus::ALL {
            assert_eq!(SessionStatus::named(status.as_str()), Some(status));
        }
        assert_eq!(SessionStatus::named("x"), None);
    }
}
