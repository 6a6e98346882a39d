//! Rules about tools, agents and skills that do not exist.

use std::sync::Arc;

use super::{Found, LintFinding, LintKind, unknown_tool};
use crate::decision::Decision;
use crate::matcher::{Compiled, Matcher, NamePattern};
use crate::policy::Policy;
use crate::rule::parse;
use crate::source::{SourceKind, Warning};
use crate::tools::is_similar;

impl Policy {
    /// Finds rules about agents and skills that do not exist, or have another name. The program knows the names.
    ///
    /// A rule of the user or of the administrator holds in every project, and the agent or the skill may be one of another
    /// project. It is reported only if its name resembles a known one.
    ///
    /// ```
    /// use loopwright_permissions::{LintKind, Policy, Source, SourceKind};
    ///
    /// let source = Source::new(SourceKind::User, "rules", "/").deny("Agent(Deploy)", 1);
    /// let policy = Policy::builder("/project").source(source).build();
    /// let findings = policy.lint_names(&["deploy"], &[]);
    /// assert_eq!(findings[0].kind, LintKind::UnknownName);
    /// assert_eq!(findings[0].message, "unknown agent `Deploy`; write `Agent(deploy)`");
    /// ```
    pub fn lint_names(&self, agents: &[&str], skills: &[&str]) -> Vec<LintFinding> {
        let inner = self.inner();
        let entries = inner.limits.iter().flat_map(|limit| &limit.entries);
        let mut findings: Vec<LintFinding> = inner
            .rules
            .iter()
            .chain(entries)
            .filter_map(|compiled| {
                let found = match &compiled.matcher {
                    Matcher::Agent(pattern) => unknown(compiled, "Agent", "agent", pattern, agents),
                    Matcher::Skill(pattern) => unknown(compiled, "Skill", "skill", pattern, skills),
                    _ => None,
                };
                Some(found?.of(&compiled.rule))
            })
            .collect();
        findings.sort_by(|a, b| (&a.rule.file, a.rule.line).cmp(&(&b.rule.file, b.rule.line)));
        findings
    }

    /// Returns warnings about deny and ask rules for unknown tools, which may restrict nothing. `known` returns
    /// `true` for further tools of the program. Tools of MCP servers are never reported.
    ///
    /// ```
    /// use loopwright_permissions::{Policy, Source, SourceKind};
    ///
    /// let source = Source::new(SourceKind::User, "rules", "/").deny("Bashh", 1).deny("refund", 2);
    /// let policy = Policy::builder("/project").source(source).build();
    /// let warnings = policy.unknown_tools(|name| name == "refund");
    /// assert_eq!(
    ///     warnings[0].to_string(),
    ///     "rules:1: rule `Bashh`: unknown tool `Bashh`; write `Bash`",
    /// );
    /// assert_eq!(warnings.len(), 1);
    /// ```
    pub fn unknown_tools(&self, known: impl Fn(&str) -> bool) -> Vec<Warning> {
        let inner = self.inner();
        let restricting = inner.rules.iter().filter(|it| it.rule.decision != Decision::Allow);
        let unknown = restricting.filter_map(|compiled| {
            let rule = &compiled.rule;
            let parsed = parse(&rule.text).ok().filter(|it| !known(it.tool))?;
            let Found(_, message) = unknown_tool(inner, parsed)?;
            let message = format!("rule `{}`: {message}", rule.text);
            Some(Warning { file: Arc::clone(&rule.file), line: rule.line, message })
        });
        unknown.collect()
    }
}

fn unknown(
    compiled: &Compiled,
    tool: &str,
    what: &str,
    pattern: &NamePattern,
    known: &[&str],
) -> Option<Found> {
    if known.iter().any(|name| pattern.matches(name)) {
        return None;
    }
    let text = pattern.text();
    let meant = known.iter().find(|name| is_similar(name, text));
    let holds_elsewhere =
        matches!(compiled.rule.source, SourceKind::Managed | SourceKind::Flags | SourceKind::User);
    if meant.is_none() && holds_elsewhere {
        return None;
    }
    let more = if pattern.has_more() { "*" } else { "" };
    let remedy = match meant {
        Some(name) => format!("; write `{tool}({name})`"),
        None => String::new(),
    };
    Some(Found::new(LintKind::UnknownName, format!("unknown {what} `{text}{more}`{remedy}")))
}
