//! Who says what stands in the user's place.

use loopwright_core::messages::{Role, Turn, TurnBody};

use crate::{critique::is_feedback, retrospective::is_guidance, structured::is_correction};

/// Returns `true` if the user said a turn, and not a critic, the model's earlier self or whoever reads its
/// answers in the user's place.
pub(crate) fn is_user_input(turn: &Turn) -> bool {
    let TurnBody::Input(message) = turn.body() else { return false };
    if message.role() != Role::User {
        return false;
    }
    let text = message.text();
    !is_feedback(&text) && !is_guidance(&text) && !is_correction(&text)
}
