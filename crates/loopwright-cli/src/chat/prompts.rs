//! What the agent is told to do by `/init` and `/review`.

/// The task of `/init`.
pub(super) const INIT: &str = "\
Write the file AGENTS.md at the root of this project, for agents and people who will work on it.
Read first: the build files, the README, the configuration of checks, and the main sources.
Say what the project is in one or two sentences; the commands that build, test, lint and run it, exactly as the build
files define them; where what is; and the conventions that a newcomer would break. Leave out what every project has in
common, and whatever you have not seen. Stay under 60 lines.
If AGENTS.md exists, keep what is right in it, and correct and complete the rest.";

/// Returns the task of `/review`.
pub(super) fn review(what: &str) -> String {
    let what = if what.is_empty() {
        "the uncommitted changes of this directory (`git status`, `git diff HEAD`, and new files)"
    } else {
        what
    };
    format!(
        "Review {what}. Read the code around each change, not the change alone.\n\
         Report what is wrong, the worst first: defects, what can break elsewhere, missing tests, and what could be \
         simpler. Name file and line, say why, and how to mend it. Say so if nothing is wrong. Change nothing."
    )
}
