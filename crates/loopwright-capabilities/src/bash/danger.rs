//! Commands that look dangerous.

use serde::{Deserialize, Serialize};

/// The action for a command that looks dangerous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDangerousCommand {
    /// The command runs, and the result contains a note.
    #[default]
    Warn,
    /// The command does not run. This is no protection: the same effect can be written in other
    /// ways.
    Block,
}

/// Returns the first pattern that a command contains; neither case nor the amount of white space
/// counts.
pub(super) fn find<'a>(command: &str, patterns: &'a [String]) -> Option<&'a str> {
    let plain = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ").to_lowercase()
    };
    let command = plain(command);
    let is_there = |pattern: &&String| {
        let pattern = plain(pattern);
        !pattern.is_empty()
            && command.match_indices(&pattern).any(|(at, _)| {
                // `rm -rf /` is dangerous, `rm -rf /tmp/x` is not; `rebooted` is no command.
                let next = command[at + pattern.len()..].chars().next();
                !next.is_some_and(|it| it.is_alphanumeric() || matches!(it, '_' | '-' | '.'))
            })
    };
    patterns.iter().find(is_there).map(String::as_str)
}

#[cfg(test)]
mod tests;
