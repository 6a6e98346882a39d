//! Messages about changes that were not applied, for models and people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::Applied;
use super::scan::{Changes, Conflict};
use crate::policy::SandboxPolicy;

/// How many paths are named in one note.
const MAX_NAMED: usize = 8;

/// Says in a sentence that changes were not collected, and why.
pub fn made_at_once(reason: &str) -> String {
    format!(
        "changes were applied immediately and cannot be undone, because they cannot be staged here: {reason}"
    )
}

/// Returns a message about the effect on a command if its changes cannot be staged: they are applied
/// immediately, or the folder is read-only if the policy discards them.
pub fn not_staged(policy: &SandboxPolicy, reason: &str) -> String {
    if policy.discards_changes() {
        format!(
            "the folder was read-only, because changes to it are discarded and cannot be staged here: {reason}"
        )
    } else {
        made_at_once(reason)
    }
}

impl Changes {
    /// Returns a message about the changes if all of them are discarded. `None` means that there
    /// are none.
    pub fn discarded_note(&self) -> Option<String> {
        let made = self.made().iter().map(|it| it.path.as_path());
        let refused = self.refused().iter().map(|it| it.path.as_path());
        let conflicts = self.conflicts().iter().map(|it| it.path.as_path());
        let mut paths: Vec<&Path> = made.chain(refused).chain(conflicts).collect();
        paths.sort_unstable();
        let named = named(&paths);
        (!paths.is_empty()).then(|| {
            format!(
                "the command ran on a copy of the folder, and its changes were discarded: {named}"
            )
        })
    }

    /// Returns messages about the changes that will not be applied, with the reasons.
    pub fn notes(&self) -> Vec<String> {
        let mut reasons: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
        for refused in self.refused() {
            reasons.entry(refused.reason).or_default().push(&refused.path);
        }
        let refusals = reasons.into_iter().map(|(reason, paths)| refusal(reason, &paths));
        let why = " because another process changed the files while the command ran";
        refusals.chain(conflict(self.conflicts(), why)).collect()
    }
}

impl Applied {
    /// Returns a message about the changes that could not be applied because of conflicts.
    pub fn notes(&self) -> Vec<String> {
        let why = ": another process changed the files meanwhile, or they are in a folder of another user or on another file system";
        conflict(&self.conflicts, why).into_iter().collect()
    }
}

fn refusal(reason: &str, paths: &[&Path]) -> String {
    let named = named(paths);
    match paths {
        [_] => {
            format!(
                "the change to {named} was not applied: it {reason}; only the user can allow it"
            )
        }
        _ => format!(
            "changes to {named} were not applied: each of these paths {reason}; only the user can allow them"
        ),
    }
}

/// Names the paths of conflicts, with the reason as it follows in the sentence.
fn conflict(conflicts: &[Conflict], why: &str) -> Option<String> {
    let paths: Vec<&Path> = conflicts.iter().map(|it| it.path.as_path()).collect();
    (!paths.is_empty()).then(|| {
        let named = named(&paths);
        format!("changes to {named} were not applied{why}; read them again before you retry")
    })
}

fn named(paths: &[&Path]) -> String {
    let shown = paths.iter().take(MAX_NAMED).map(|path| format!("`{}`", path.display()));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(more) = paths.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        // Writing to a string does not fail.
        write!(text, " and {more} more").ok();
    }
    text
}
