//! A change of the permission mode during a conversation.

use loopwright_core::BoxError;
use loopwright_permissions::Mode;

use crate::display::RunDisplay;
use crate::permissions::RunPermissions;
use crate::render::{ModeChange, UiEvent};

/// Changes the mode of a conversation, tells programs that read its output, and returns the mode in force.
pub(crate) fn change_mode(
    permissions: &RunPermissions,
    stage: RunDisplay,
    mode: Mode,
) -> Result<Mode, BoxError> {
    let change = set_mode(permissions, mode)?;
    if change.before != change.now {
        // The next turn reports an output that cannot be written to.
        let _shown = stage.show(&UiEvent::ModeChanged(change));
    }
    Ok(change.now)
}

/// Changes the mode, also for the next calls of a run that goes on.
pub(crate) fn set_mode(permissions: &RunPermissions, mode: Mode) -> Result<ModeChange, BoxError> {
    let before = permissions.policy().mode();
    permissions.set_mode(mode)?;
    Ok(ModeChange { before, now: permissions.policy().mode() })
}

/// Changes the mode while the agent works: to the next one for the name `next`, or to a named one.
pub(crate) fn set_named_mode(
    permissions: &RunPermissions,
    name: &str,
) -> Result<ModeChange, BoxError> {
    let mode = match name {
        "next" => next_mode(permissions.policy().mode()),
        name => name.parse()?,
    };
    set_mode(permissions, mode)
}

/// Returns the mode that Shift-Tab leads to. Running without confinement has to be typed.
pub(crate) fn next_mode(mode: Mode) -> Mode {
    match mode {
        Mode::Ask => Mode::AcceptEdits,
        Mode::AcceptEdits => Mode::Auto,
        Mode::Auto => Mode::Plan,
        Mode::Plan | Mode::Deny | Mode::Unconfined => Mode::Ask,
    }
}
