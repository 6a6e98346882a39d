//! Rules with unexpected effects.

mod commands;
mod cover;
mod files;
mod names;

pub(crate) use commands::runs_anything;

use std::{fmt, sync::Arc};

use serde::Serialize;

use crate::decision::Decision;
use crate::domain::DomainPattern;
use crate::matcher::{Compiled, Matcher, Trouble};
use crate::policy::{Inner, Policy};
use crate::rule::{Parsed, Rule, parse};
use crate::tools;

/// A finding about a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LintFinding {
    /// The kind of problem.
    pub kind: LintKind,
    /// The rule.
    pub rule: Arc<Rule>,
    /// The effect, and the remedy.
    pub message: String,
}

/// A kind of problem of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LintKind {
    /// The rule cannot be read.
    Malformed,
    /// The rule can never match.
    Dead,
    /// A stricter rule, or the same one, matches everything that the rule matches.
    Shadowed,
    /// No tool has this name.
    UnknownTool,
    /// No agent or no skill has this name.
    UnknownName,
    /// The rule looks stricter than it is: a call with the same effect is not matched.
    Loose,
    /// The allow rule allows more than it seems to.
    Broad,
}

impl fmt::Display for LintFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.rule.place(), self.rule.text, self.message)
    }
}

impl Policy {
    /// Finds rules with unexpected effects.
    ///
    /// ```
    /// use loopwright_permissions::{LintKind, Policy, Source, SourceKind};
    ///
    /// let source = Source::new(SourceKind::User, "rules", "/").deny("Bash(rm -rf *)", 1);
    /// let findings = Policy::builder("/project").source(source).build().lint();
    /// assert_eq!(findings[0].kind, LintKind::Loose);
    /// ```
    pub fn lint(&self) -> Vec<LintFinding> {
        let inner = self.inner();
        let entries = inner.limits.iter().flat_map(|limit| &limit.entries);
        let mut findings = Vec::new();
        for (index, compiled) in inner.rules.iter().enumerate() {
            let found = of_rule(inner, compiled).or_else(|| shadowed(inner, index, compiled));
            let found = found.or_else(|| misleading(inner, compiled));
            findings.extend(found.map(|found| found.of(&compiled.rule)));
        }
        for compiled in entries {
            findings.extend(of_rule(inner, compiled).map(|found| found.of(&compiled.rule)));
        }
        findings.sort_by(|a, b| (&a.rule.file, a.rule.line).cmp(&(&b.rule.file, b.rule.line)));
        findings
    }
}

/// A finding without its rule.
pub(super) struct Found(LintKind, String);

impl Found {
    pub(super) fn new(kind: LintKind, message: impl Into<String>) -> Self {
        Self(kind, message.into())
    }

    fn of(self, rule: &Arc<Rule>) -> LintFinding {
        LintFinding { kind: self.0, rule: Arc::clone(rule), message: self.1 }
    }
}

/// What is wrong with a rule on its own.
fn of_rule(inner: &Inner, compiled: &Compiled) -> Option<Found> {
    let parsed = parse(&compiled.rule.text).ok();
    if let Some(parsed) = parsed
        && let Some(found) = unknown_tool(inner, parsed)
    {
        return Some(found);
    }
    match &compiled.problem {
        Some(Trouble::Malformed(message)) => Some(Found::new(LintKind::Malformed, message)),
        Some(Trouble::Dead(message)) => Some(Found::new(LintKind::Dead, message)),
        Some(Trouble::Unsupported) => {
            let tool = parsed.map_or("the tool", |parsed| parsed.tool);
            Some(Found::new(
                LintKind::Malformed,
                format!("`{tool}` takes no specifier; write `{tool}`"),
            ))
        }
        None => None,
    }
}

fn unknown_tool(inner: &Inner, parsed: Parsed<'_>) -> Option<Found> {
    let name = parsed.tool;
    if name == "*" || tools::is_known(name) || inner.known_tools.iter().any(|known| known == name) {
        return None;
    }
    let meant = tools::similar(name).map_or(String::new(), |meant| format!("; write `{meant}`"));
    Some(Found::new(LintKind::UnknownTool, format!("unknown tool `{name}`{meant}")))
}

/// Finds a rule that matches all that another one matches.
fn shadowed(inner: &Inner, index: usize, compiled: &Compiled) -> Option<Found> {
    let is_shadow = |(other, by): &(usize, &Compiled)| {
        let is_stricter = by.rule.decision > compiled.rule.decision;
        let is_same = by.rule.decision == compiled.rule.decision && *other != index;
        let covers = || cover::covers(&by.matcher, &compiled.matcher);
        // Of two that cover each other, the first one stays.
        let is_first = || *other < index || !cover::covers(&compiled.matcher, &by.matcher);
        (is_stricter && covers()) || (is_same && covers() && is_first())
    };
    let (_, by) = inner.rules.iter().enumerate().find(is_shadow)?;
    let message =
        format!("the rule has no effect: `{}` ({}) matches first", by.rule.text, by.rule.place());
    Some(Found::new(LintKind::Shadowed, message))
}

/// Finds what a reader would not expect.
fn misleading(inner: &Inner, compiled: &Compiled) -> Option<Found> {
    let is_allowing = compiled.rule.decision == Decision::Allow;
    match &compiled.matcher {
        Matcher::Command(pattern) if is_allowing => {
            commands::allowing(pattern, &compiled.rule.text)
        }
        Matcher::Command(pattern) => commands::restricting(pattern, &compiled.rule.text),
        Matcher::Path { pattern, .. } => files::path(pattern, &compiled.rule, is_allowing),
        Matcher::Domain { pattern, .. } => domain(inner, compiled, pattern, is_allowing),
        Matcher::Every if is_allowing => Some(Found::new(
            LintKind::Broad,
            "the rule allows every call; use the mode `unconfined` instead",
        )),
        Matcher::Mcp { server, .. } if server.contains('*') && is_allowing => {
            Some(Found::new(LintKind::Broad, "the rule allows tools of every server"))
        }
        Matcher::Tool(name) if !is_allowing => files::tool(inner, compiled, name),
        _ => None,
    }
}

fn domain(
    inner: &Inner,
    compiled: &Compiled,
    pattern: &DomainPattern,
    is_allowing: bool,
) -> Option<Found> {
    match pattern {
        DomainPattern::Below(name) if is_allowing && !name.contains('.') => Some(Found::new(
            LintKind::Broad,
            format!("the rule allows every subdomain of `{name}`"),
        )),
        DomainPattern::Host(name)
            if !name.contains('.') && name != "localhost" && !name.starts_with('[') =>
        {
            Some(Found::new(
                LintKind::Dead,
                format!("`{name}` is not a full host name; add the domain"),
            ))
        }
        DomainPattern::Host(name) if !is_allowing && !is_address(name) => {
            let below = DomainPattern::Below(name.clone());
            let is_covered = inner.rules.iter().any(|other| {
                other.rule.decision >= compiled.rule.decision
                    && matches!(&other.matcher, Matcher::Domain { pattern, .. } if pattern.covers(&below))
            });
            (!is_covered).then(|| {
                Found::new(
                    LintKind::Loose,
                    format!("subdomains of `{name}` are not matched; add `domain:*.{name}`"),
                )
            })
        }
        _ => None,
    }
}

fn is_address(name: &str) -> bool {
    name.starts_with('[') || name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}
