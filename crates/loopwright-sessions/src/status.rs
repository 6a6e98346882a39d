//! What may be done with a session.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What may be done with a session. It is not the status of its last execution: an active session may
/// well hold a failed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// It takes messages.
    #[default]
    Active,
    /// It takes none until it is resumed.
    Suspended,
    /// It is done, until it is resumed.
    Completed,
    /// It was given up, until it is resumed.
    Failed,
    /// It is gone for good.
    Deleted,
}

/// A change of status that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("session status cannot change from {from} to {to}")]
pub struct InvalidTransition {
    /// What it is.
    pub from: SessionStatus,
    /// What it was to become.
    pub to: SessionStatus,
}

impl SessionStatus {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Active, Self::Suspended, Self::Completed, Self::Failed, Self::Deleted];

    /// Returns the status as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Deleted => "deleted",
        }
    }

    /// Finds a status by its word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Becomes another status, or stays what it is.
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
    /// If the table does not allow it.
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
