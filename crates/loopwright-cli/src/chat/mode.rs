//! The permission mode, which `/mode` and Shift-Tab change.

use loopwright_core::BoxError;
use loopwright_permissions::Mode;

use super::ChatSession;
use crate::console;
use crate::exit::ExitCode;
use crate::mode_change::{change_mode, next_mode};
use crate::render::sanitize_terminal;

impl ChatSession<'_> {
    /// Changes the permission mode to the next one or to a named one.
    pub(super) fn mode(&self, name: &str) {
        let mode = self.conversation.setup.permissions.policy().mode();
        let changed = match name {
            "next" => self.set_mode(next_mode(mode)),
            name => name.parse::<Mode>().map_err(BoxError::from).and_then(|it| self.set_mode(it)),
        };
        match changed {
            Ok(mode) => console::tell(&format!("mode {mode}")),
            Err(error) => drop(console::fail(&*error, ExitCode::Usage)),
        }
    }

    /// Selects the next mode, and returns what to show about it at the prompt.
    pub(super) fn next_mode(&self) -> String {
        let mode = self.conversation.setup.permissions.policy().mode();
        match self.set_mode(next_mode(mode)) {
            Ok(mode) => format!("mode {mode}"),
            Err(error) => sanitize_terminal(&format!("mode {mode}: {error}")),
        }
    }

    fn set_mode(&self, mode: Mode) -> Result<Mode, BoxError> {
        change_mode(&self.conversation.setup.permissions, self.stage, mode)
    }
}

/// Adds to the status line what a key changed, or why it had no effect, unless the line says so itself.
pub(super) fn with_change(status: String, changed: Option<String>) -> String {
    match changed {
        Some(changed) if status.is_empty() => changed,
        Some(changed) if !status.contains(&changed) => format!("{changed} · {status}"),
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_mode_is_seen_with_any_status_line() {
        let with = |status: &str, changed: Option<&str>| {
            with_change(status.to_owned(), changed.map(str::to_owned))
        };
        assert_eq!(with("", Some("mode plan")), "mode plan");
        assert_eq!(with("mine", Some("mode plan")), "mode plan · mine");
        assert_eq!(with("a · mode plan · b", Some("mode plan")), "a · mode plan · b");
        assert_eq!(with("mine", None), "mine");
    }
}
