//! The prompts of `/init` and `/review`.

use crate::typed_text::typed_command;

/// The task of `/init`.
const INIT: &str = "\
Write the file AGENTS.md at the root of this project, for agents and people who will work on it.
First read the build files, the README, the configuration of checks, and the main sources.
Describe what the project is in one or two sentences; the commands that build, test, lint and \
run it, exactly as the build files define them; where to find each part; and the conventions \
that a newcomer would break. Omit what all projects have in common and anything you have not \
seen. Stay under 60 lines.
If AGENTS.md exists, keep what is correct in it, and correct and complete the rest.";

/// Returns the message of `/init`.
pub(super) fn init() -> String {
    format!("{}\n\n{INIT}", typed_command("/init"))
}

/// Returns the message of `/review`.
pub(super) fn review(what: &str) -> String {
    let command = typed_command(format!("/review {what}").trim_end());
    let what = if what.is_empty() {
        "the uncommitted changes in this directory (`git status`, `git diff HEAD`, and new files)"
    } else {
        what
    };
    format!(
        "{command}\n\nReview {what}. Read the code around each change, not only the change.\nReport problems, \
            the most serious first: defects, code elsewhere that can break, missing tests, and \
            code that could be simpler. For each, name the file and line, the reason, and a fix. \
            Say so if you find no problems. Change nothing."
    )
}
