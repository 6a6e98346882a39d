//! A change of the permission mode during a conversation.

use loopwright_core::BoxError;
use loopwright_permissions::Mode;

use crate::permissions::RunPermissions;
use crate::render::{ModeChange, UiEvent};

/// Changes the mode to a named one, or to the next one for the name `next`, also for the next calls of a run in progress. Emits the
/// change, unless the mode is the same as before, and returns the mode in force.
///
/// # Errors
///
/// Returns an error if the mode is unknown or cannot be selected.
pub(crate) fn change_mode(
    permissions: &RunPermissions,
    name: &str,
    emit: impl FnOnce(UiEvent),
) -> Result<Mode, BoxError> {
    let before = permissions.policy().mode();
    let mode = match name {
        "next" => next_mode(before),
        name => name.parse()?,
    };
    permissions.set_mode(mode)?;
    let now = permissions.policy().mode();
    if before != now {
        emit(UiEvent::ModeChanged(ModeChange { before, now }));
    }
    Ok(now)
}

/// Returns the mode that Shift-Tab leads to. Running without confinement has to be typed.
fn next_mode(mode: Mode) -> Mode {
    match mode {
        Mode::Ask => Mode::AcceptEdits,
        Mode::AcceptEdits => Mode::Auto,
        Mode::Auto => Mode::Plan,
        Mode::Plan | Mode::Deny | Mode::Unconfined => Mode::Ask,
    }
}
