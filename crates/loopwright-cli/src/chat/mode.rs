//! The permission mode, which `/mode` and Shift-Tab change.

use loopwright_core::BoxError;
use loopwright_permissions::Mode;

use super::ChatSession;
use crate::console;
use crate::exit::ExitCode;
use crate::mode_change::change_mode;
use crate::render::sanitize_terminal;

impl ChatSession<'_> {
    /// Changes the permission mode to the next one or to a named one.
    pub(super) fn mode(&self, name: &str) {
        match self.change_mode(name) {
            Ok(mode) => console::tell(&format!("mode {mode}")),
            Err(error) => drop(console::fail(&*error, ExitCode::Usage)),
        }
    }

    /// Selects the next mode, and returns what to show about it at the prompt.
    pub(super) fn next_mode(&self) -> String {
        match self.change_mode("next") {
            Ok(mode) => format!("mode {mode}"),
            Err(error) => {
                let mode = self.conversation.setup.permissions.policy().mode();
                sanitize_terminal(&format!("mode {mode}: {error}"))
            }
        }
    }

    fn change_mode(&self, name: &str) -> Result<Mode, BoxError> {
        let permissions = &self.conversation.setup.permissions;
        change_mode(permissions, name, |event| self.stage.show(&event))
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
