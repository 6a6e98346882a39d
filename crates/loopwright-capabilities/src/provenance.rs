//! The origin of messages with the role of the user.

use loopwright_core::messages::{Role, Turn, TurnBody};

#[cfg(feature = "structured")]
use crate::structured::is_correction;
use crate::{critique::is_feedback, retrospective::is_guidance};

/// Without structured outputs, no answer is corrected.
#[cfg(not(feature = "structured"))]
fn is_correction(_text: &str) -> bool {
    false
}

/// Returns `true` if the user said a turn, and not a critic, the model's earlier self or a caller that reads its
/// answers in the user's place.
pub(crate) fn is_user_input(turn: &Turn) -> bool {
    let TurnBody::Input(message) = turn.body() else { return false };
    if message.role() != Role::User {
        return false;
    }
    let text = message.text();
    !is_feedback(&text) && !is_guidance(&text) && !is_correction(&text)
}
