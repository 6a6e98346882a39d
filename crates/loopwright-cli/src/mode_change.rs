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
    let before = permissions.policy().mode();
    permissions.set_mode(mode)?;
    let change = ModeChange { before, now: permissions.policy().mode() };
    if change.before != change.now {
        // The next turn reports an output that cannot be written to.
        let _shown = stage.show(&UiEvent::ModeChanged(change));
    }
    Ok(change.now)
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
