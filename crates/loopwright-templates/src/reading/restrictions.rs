//! Keys of other programs that restrict an agent in ways that are not supported yet.
//!
//! The author of such a key relies on it, so it is an error and not a warning.

use loopwright_agent::AgentIsolation;
use serde_json::{Map, Value};

use crate::problem::DiagnosticKind;
use crate::reading::Host;
use crate::reading::fields::{At, Fields};

/// Events whose hooks cannot keep an agent from an action.
const OBSERVED: [&str; 21] = [
    "CwdChanged",
    "FileChanged",
    "InstructionsLoaded",
    "Notification",
    "PermissionDenied",
    "PostCompact",
    "PostToolBatch",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "SessionEnd",
    "SessionStart",
    "Setup",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "WorktreeRemove",
];

const DENYING: &str = "remove the entry to run the agent without this restriction, or deny whole tools \
    with `toolsDeny`";
const WORKING: &str = "remove the entry to let the agent work in the working directory itself, or run the agent with `-C` in a \
    worktree that you create";

/// Takes the hooks of the events that the program supports. Other events are an error if their hooks can refuse an action,
/// and a warning otherwise.
pub(super) fn hooks(fields: &mut Fields<'_>, supported: &[&'static str]) -> Map<String, Value> {
    let Some((at, hooks)) = fields.take(&["hooks"]) else { return Map::new() };
    let harmless: Vec<&str> = OBSERVED.iter().chain(supported).copied().collect();
    if let Some(guards) = guards(&hooks, &harmless) {
        refused(fields, at, format!("hooks at {guards}"), DENYING);
        return Map::new();
    }
    if supported.is_empty() {
        fields.warn(at, DiagnosticKind::Unsupported);
        return Map::new();
    }
    let Value::Object(mut events) = hooks else { return Map::new() };
    events.retain(|event, hooks| {
        let is_supported = supported.contains(&&**event);
        if !is_supported && !is_empty(hooks) {
            let at = At { key: format!("{}.{event}", at.key), line: at.line };
            fields.warn(at, DiagnosticKind::Unsupported);
        }
        is_supported && !is_empty(hooks)
    });
    events
}

/// Takes the other keys, and refuses what would not be kept.
pub(super) fn refuse(fields: &mut Fields<'_>) {
    if let Some((at, rules)) = fields.take(&["permissions"]) {
        match guards(&rules, &["allow"]) {
            Some(guards) => refused(fields, at, format!("rules in {guards}"), DENYING),
            None => fields.warn(at, DiagnosticKind::Unsupported),
        }
    }
}

/// Takes what a sub-agent has of its own, and refuses what it would not have.
pub(super) fn isolation(fields: &mut Fields<'_>, host: &Host) -> Option<AgentIsolation> {
    let (at, place) = fields.take(&["isolation"])?;
    let place = place.as_str().map_or_else(|| place.to_string(), ToOwned::to_owned);
    match place.trim() {
        "worktree" if host.has_worktrees => return Some(AgentIsolation::Worktree),
        "none" | "false" => {}
        place => refused(fields, at, format!("`{place}`"), WORKING),
    }
    None
}

fn refused(fields: &mut Fields<'_>, at: At, restriction: String, remedy: &str) {
    let remedy = remedy.to_owned();
    fields.error(at, DiagnosticKind::UnsupportedRestriction { restriction, remedy });
}

/// Lists the entries of a map that hold something, besides those that restrict nothing. A value that is
/// no map could mean anything.
fn guards(value: &Value, harmless: &[&str]) -> Option<String> {
    let Value::Object(entries) = value else { return Some("an unknown form".to_owned()) };
    let guards = entries.iter().filter(|(name, it)| !is_empty(it) && !harmless.contains(&&***name));
    let guards: Vec<String> = guards.map(|(name, _)| format!("`{name}`")).collect();
    (!guards.is_empty()).then(|| guards.join(", "))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
