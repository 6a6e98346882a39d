//! Permission modes, as editors select them: as modes and as a configuration option.

use loopwright_permissions::Mode;
use serde_json::{Value, json};

use crate::permissions::RunPermissions;

/// The ID of the configuration option.
pub(super) const OPTION: &str = "mode";

/// Returns the modes that can be selected. Running without confinement has to be chosen on the command line.
fn available(permissions: &RunPermissions) -> Vec<Mode> {
    let policy = permissions.policy();
    let current = policy.mode();
    let offered = |mode: &Mode| {
        *mode == current || *mode != Mode::Unconfined && policy.clone().with_mode(*mode).is_some()
    };
    Mode::ALL.into_iter().filter(offered).collect()
}

/// Returns the mode of this name if it can be selected.
pub(super) fn find(permissions: &RunPermissions, name: &str) -> Option<Mode> {
    available(permissions).into_iter().find(|it| it.name() == name)
}

/// Returns the modes that there are, and the current one.
pub(super) fn state(permissions: &RunPermissions) -> Value {
    let modes = listed(permissions, "id");
    json!({"currentModeId": permissions.policy().mode().name(), "availableModes": modes})
}

/// Returns the same as a configuration option.
pub(super) fn option(permissions: &RunPermissions) -> Value {
    let modes = listed(permissions, "value");
    json!({
        "id": OPTION, "name": "Permission mode", "category": "mode", "type": "select",
        "description": "Which tool calls run without approval",
        "currentValue": permissions.policy().mode().name(), "options": modes,
    })
}

/// Returns the modes that can be selected, each with its name under this key.
fn listed(permissions: &RunPermissions, key: &str) -> Vec<Value> {
    let mode =
        |it: Mode| json!({key: it.name(), "name": title(it), "description": description(it)});
    available(permissions).into_iter().map(mode).collect()
}

fn title(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "Plan",
        Mode::Ask => "Ask",
        Mode::AcceptEdits => "Accept edits",
        Mode::Auto => "Auto",
        Mode::Deny => "Deny",
        Mode::Unconfined => "Unconfined",
    }
}

fn description(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "Reads files, but does not change them",
        Mode::Ask => "Asks before file changes and commands",
        Mode::AcceptEdits => "Changes files in the folder; asks before commands",
        Mode::Auto => "Changes files in the folder and runs sandboxed commands",
        Mode::Deny => "Denies every call that no rule allows",
        Mode::Unconfined => "Runs every call that no rule denies",
    }
}
