//! Settings of a chat at a terminal.

use super::Setting;

/// How a chat looks at a terminal. Only the user's own file has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatSettings {
    /// The command whose first line is the status line; `off` shows none.
    pub status_line: Option<Setting<String>>,
    /// Whether the terminal is told when a run waits for the user, or is done after a while.
    pub notifications: Option<Setting<bool>>,
    /// Whether the output is plain, for screen readers.
    pub plain: Option<Setting<bool>>,
}

impl ChatSettings {
    pub(super) fn or(self, weaker: Self) -> Self {
        Self {
            status_line: self.status_line.or(weaker.status_line),
            notifications: self.notifications.or(weaker.notifications),
            plain: self.plain.or(weaker.plain),
        }
    }

    /// Returns `true` if the terminal is told when a run waits for the user, or is done after a while.
    pub fn notifies(&self) -> bool {
        self.notifications.as_ref().is_none_or(|it| it.value)
    }

    /// Returns `true` if the output is plain.
    pub fn is_plain(&self) -> bool {
        self.plain.as_ref().is_some_and(|it| it.value)
    }
}
