//! `/help`.

use std::fmt::Write as _;

use crate::chat_commands::COMMANDS;
use crate::render::{WIDTH, wrap};

const LAST: &str = "Alt-Enter, Ctrl-J, or a backslash before Enter starts a new line. While the agent works, \
    Enter sends a line to it, and Esc or Ctrl-C stops it. Commands that only show information run immediately; others run after the turn.";

/// Returns the output of `/help`.
pub(super) fn help() -> String {
    let typed = COMMANDS.iter().map(|(typed, _)| typed.len());
    let room = typed.max().unwrap_or_default() + 2;
    let mut text = String::new();
    for (typed, about) in COMMANDS {
        let lines = wrap(about, WIDTH - room, usize::MAX);
        let mut lines = lines.into_iter();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(text, "{typed:room$}{first}");
        for line in lines {
            let _ = writeln!(text, "{:room$}{line}", "");
        }
    }
    text + &wrap(LAST, WIDTH, usize::MAX).join("\n")
}
