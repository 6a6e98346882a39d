//! The allowed and denied tools in a file: native tool names, and permission rules for arguments.

use loopwright_agent::{CallRules, NameList};
use loopwright_permissions::{Mode, Policy, Source, SourceKind, ToolRule};

use crate::problem::DiagnosticKind;
use crate::reading::fields::{At, Fields};

/// Tools of another program that have no counterpart here.
const FOREIGN: [&str; 11] = [
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",
    "LSP",
    "ListMcpResourcesTool",
    "NotebookEdit",
    "NotebookRead",
    "ReadMcpResourceTool",
    "SlashCommand",
    "TaskOutput",
];

/// Tools that rules know and no capability brings.
const MISSING: [&str; 2] = ["multi_edit", "notebook_edit"];

/// What an agent may call.
#[derive(Debug, Default)]
pub(super) struct Restrictions {
    /// Absent for everything, empty for nothing.
    pub(super) tools: Option<NameList>,
    /// What it may not call, whatever else says so.
    pub(super) tools_deny: NameList,
    pub(super) call_rules: CallRules,
}

/// Takes what may be called.
pub(super) fn restrictions(fields: &mut Fields<'_>) -> Restrictions {
    let (tools, only) = allowed(fields).unzip();
    let (tools_deny, deny) = denied(fields);
    let call_rules =
        CallRules { only: only.flatten(), deny, mode: mode(fields), ..CallRules::default() };
    Restrictions { tools, tools_deny, call_rules }
}

/// Takes the tools that may be called, and the rules if some of them may be called with some arguments only. Tools that
/// do not exist here are left out.
fn allowed(fields: &mut Fields<'_>) -> Option<(NameList, Option<NameList>)> {
    fields.not_null(&["tools"]);
    let (at, words) = fields.words(&["tools"])?;
    if words.iter().any(|it| it.trim() == "*") {
        return None;
    }
    let (mut names, mut rules) = (Vec::new(), Vec::new());
    let mut is_conditional = false;
    for rule in rules_of(&words) {
        if FOREIGN.contains(&rule.name()) {
            fields.warn(at.clone(), DiagnosticKind::ForeignTool(rule.name().to_owned()));
            continue;
        }
        is_conditional |= check(fields, &at, &rule);
        let ours = counterparts(&rule);
        names.push(ours.first().map_or_else(|| rule.name().to_owned(), ToString::to_string));
        rules.push(rule.to_string());
    }
    let rules = is_conditional.then(|| rules.into_iter().collect());
    Some((names.into_iter().collect(), rules))
}

/// Takes the tools that may not be called, and the rules about some arguments only.
fn denied(fields: &mut Fields<'_>) -> (NameList, NameList) {
    let keys = ["toolsDeny", "tools_deny", "disallowedTools"];
    fields.not_null(&keys);
    let Some((at, words)) = fields.words(&keys) else { return Default::default() };
    let (mut names, mut rules) = (Vec::new(), Vec::new());
    for rule in rules_of(&words) {
        // A tool that does not exist here is denied as a whole, which is stricter.
        if !FOREIGN.contains(&rule.name()) && check(fields, &at, &rule) {
            rules.push(rule.to_string());
            continue;
        }
        match counterparts(&rule).as_slice() {
            [] => names.push(rule.name().to_owned()),
            ours => names.extend(ours.iter().map(ToString::to_string)),
        }
    }
    (names.into_iter().collect(), rules.into_iter().collect())
}

/// Reads rules. `Agent(one, two)` of other programs stands for one rule for each agent.
fn rules_of(words: &[String]) -> impl Iterator<Item = ToolRule> {
    let rules = words.iter().flat_map(|word| match of_agents(word) {
        Some(rules) => rules,
        None => vec![ToolRule::new(word)],
    });
    rules.filter(|rule| !rule.as_str().is_empty())
}

fn of_agents(word: &str) -> Option<Vec<ToolRule>> {
    let (name, rest) = word.trim().split_once('(')?;
    let agents = rest.strip_suffix(')')?;
    let is_list = matches!(name.trim(), "Agent" | "Task") && agents.contains(',');
    let rule = |agent: &str| ToolRule::new(&format!("{}({})", name.trim(), agent.trim()));
    is_list.then(|| agents.split(',').filter(|it| !it.trim().is_empty()).map(rule).collect())
}

/// Takes the permission mode.
fn mode(fields: &mut Fields<'_>) -> Option<String> {
    let (at, mode) = fields.text(&["permissionMode"])?;
    match mode.trim().parse::<Mode>() {
        Ok(mode) => Some(mode.name().to_owned()),
        Err(error) => {
            fields.error(at, DiagnosticKind::InvalidValue(error.to_string()));
            None
        }
    }
}

/// Returns `true` if a rule is about some arguments only. One that never matches, or is no rule, is an error.
fn check(fields: &mut Fields<'_>, at: &At, rule: &ToolRule) -> bool {
    let source = Source::new(SourceKind::Definition, "", "/").with_tools(rule.as_str(), 0);
    let policy = Policy::builder("/").source(source).build();
    if let Some(warning) = policy.warnings().first() {
        fields.error(at.clone(), DiagnosticKind::InvalidValue(warning.message.clone()));
    }
    rule.is_conditional()
}

/// Returns our tools that are meant by a name of another program, which begins with a capital.
fn counterparts(rule: &ToolRule) -> Vec<&'static str> {
    match rule.name() {
        // There is one tool for edits of files as text.
        "MultiEdit" => vec!["edit_file"],
        name if FOREIGN.contains(&name) => Vec::new(),
        name if name.starts_with(|it: char| it.is_ascii_uppercase()) => {
            let is_here = |name: &&str| !MISSING.contains(name);
            rule.native_names().into_iter().filter(is_here).collect()
        }
        _ => Vec::new(),
    }
}
