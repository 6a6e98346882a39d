//! What a file allows and denies, in the names of our tools.

use loopwright_agent::NameList;
use loopwright_capabilities::skills::ToolRule;

use crate::problem::DiagnosticKind;
use crate::reading::fields::Fields;

/// Tools of another program that have no counterpart here.
const FOREIGN: [&str; 14] = [
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",
    "LSP",
    "ListMcpResourcesTool",
    "NotebookEdit",
    "NotebookRead",
    "ReadMcpResourceTool",
    "Skill",
    "SlashCommand",
    "TaskOutput",
    "WebFetch",
    "WebSearch",
];

/// Takes what may be called: absent for everything, empty for nothing. Tools that do not exist here are
/// left out; a rule about arguments is an error.
pub(super) fn allowed(fields: &mut Fields<'_>) -> Option<NameList> {
    fields.not_null(&["tools"]);
    let (at, words) = fields.words(&["tools"])?;
    if words.iter().any(|it| it.trim() == "*") {
        return None;
    }
    let mut names = Vec::new();
    for rule in words.iter().map(|it| ToolRule::new(it)) {
        if FOREIGN.contains(&rule.name()) {
            fields.warn(at.clone(), DiagnosticKind::ForeignTool(rule.name().to_owned()));
        } else if is_conditional(&rule) {
            let name = rule.name();
            let remedy = format!("write `{name}` to allow it with all arguments, or remove it");
            fields.error(at.clone(), unsupported(&rule, remedy));
        } else {
            let ours = counterparts(&rule).and_then(|it| it.first());
            names.push(ours.map_or_else(|| rule.name().to_owned(), ToString::to_string));
        }
    }
    Some(names.into_iter().collect())
}

/// Takes what may not be called, whatever else says so. A rule about arguments is an error.
pub(super) fn denied(fields: &mut Fields<'_>) -> NameList {
    let keys = ["toolsDeny", "tools_deny", "disallowedTools"];
    fields.not_null(&keys);
    let Some((at, words)) = fields.words(&keys) else { return NameList::default() };
    let mut names = Vec::new();
    for rule in words.iter().map(|it| ToolRule::new(it)) {
        // A tool that does not exist here is denied as a whole, which is stricter.
        if is_conditional(&rule) && !FOREIGN.contains(&rule.name()) {
            let name = rule.name();
            let remedy = format!("write `{name}` to deny it with all arguments, or remove it");
            fields.error(at.clone(), unsupported(&rule, remedy));
        }
        match counterparts(&rule) {
            Some(ours) => names.extend(ours.iter().map(ToString::to_string)),
            None => names.push(rule.name().to_owned()),
        }
    }
    names.into_iter().collect()
}

/// Returns `true` if a rule is about some arguments only. `Bash(*)` is about all of them.
fn is_conditional(rule: &ToolRule) -> bool {
    rule.is_conditional() && !rule.to_string().ends_with("(*)")
}

fn unsupported(rule: &ToolRule, remedy: String) -> DiagnosticKind {
    DiagnosticKind::UnsupportedRestriction { restriction: format!("the rule `{rule}`"), remedy }
}

/// Returns our tools that are meant by a name of another program, which begins with a capital.
fn counterparts(rule: &ToolRule) -> Option<&'static [&'static str]> {
    rule.native_names().filter(|_| rule.name().starts_with(|it: char| it.is_ascii_uppercase()))
}
