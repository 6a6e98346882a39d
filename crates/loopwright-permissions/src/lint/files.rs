//! Rules about files and tools that use them.

use super::{Found, LintKind};
use crate::decision::Decision;
use crate::matcher::{Compiled, Matcher};
use crate::path::PathPattern;
use crate::policy::Inner;
use crate::rule::{Rule, parse};
use crate::tools::ToolKind;

/// Names that the root of a system has.
const ROOTS: &[&str] = &[
    "Applications",
    "Users",
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "mnt",
    "opt",
    "proc",
    "root",
    "sbin",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
];

pub(super) fn path(pattern: &PathPattern, rule: &Rule, is_allowing: bool) -> Option<Found> {
    let text = parse(&rule.text).ok()?.specifier?;
    if text.contains("${")
        || text.contains("$HOME")
        || text.starts_with('$')
        || text.contains('%') && text.contains("%\\")
    {
        return Some(Found::new(
            LintKind::Dead,
            "variables are not expanded in paths; write `~/` or an absolute path",
        ));
    }
    if let Some(rest) = text.strip_prefix('/').filter(|rest| !rest.starts_with('/'))
        && rest.split('/').next().is_some_and(|first| ROOTS.contains(&first))
    {
        let message = format!(
            "`{text}` is relative to the folder of the settings file; write `/{text}` for an \
                absolute path"
        );
        let kind = if is_allowing { LintKind::Dead } else { LintKind::Loose };
        return Some(Found::new(kind, message));
    }
    if text.len() > 1
        && text.as_bytes().get(1) == Some(&b':')
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        return Some(Found::new(
            LintKind::Dead,
            "paths start with `//`, `~/`, `/` or a name, not with a drive letter",
        ));
    }
    let is_rooted = text.starts_with("//") || text.starts_with('~');
    if !is_allowing && !is_rooted && pattern.is_everything_below() {
        let tool = rule.text.split('(').next().unwrap_or_default();
        let message =
            format!("the pattern does not match files outside the folder; write `{tool}`");
        return Some(Found::new(LintKind::Loose, message));
    }
    None
}

/// A rule about one of several tools that do the same.
pub(super) fn tool(inner: &Inner, compiled: &Compiled, name: &str) -> Option<Found> {
    let (all, meant) = match ToolKind::of(name) {
        ToolKind::Write => ("edit_file", "Edit"),
        ToolKind::Command => ("bash", "Bash"),
        _ => return None,
    };
    if name == all {
        return None;
    }
    let is_covered = inner.rules.iter().any(|other| {
        other.rule.decision >= Decision::Ask
            && matches!(&other.matcher, Matcher::Tool(other) if other == all)
    });
    let message = format!("other tools with the same effect are not matched; write `{meant}`");
    (!is_covered && compiled.problem.is_none()).then(|| Found::new(LintKind::Loose, message))
}
