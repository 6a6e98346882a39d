//! Messages that are never summarized.

use std::sync::Arc;

use loopwright_core::messages::{Transcript, Turn, TurnBody};

use crate::provenance::is_user_input;

/// Tells of each of these turns whether it stays as it was said: what the system or the developer said,
/// and what the user said last, unless the user has said something `after` them.
pub(crate) fn stays<'a>(
    turns: impl DoubleEndedIterator<Item = &'a Arc<Turn>>,
    after: impl DoubleEndedIterator<Item = &'a Arc<Turn>>,
) -> Vec<bool> {
    let mut user_spoke = after.rev().any(|turn| is_user_input(turn));
    let stays = |turn: &Arc<Turn>| {
        if is_user_input(turn) {
            return !std::mem::replace(&mut user_spoke, true);
        }
        matches!(turn.body(), TurnBody::Input(message) if message.is_system())
    };
    let mut stays: Vec<bool> = turns.rev().map(stays).collect();
    stays.reverse();
    stays
}

/// Returns the position of what the model said last.
pub(crate) fn last_model_turn(turns: &Transcript) -> Option<usize> {
    turns.iter().rposition(|turn| !matches!(turn.body(), TurnBody::Input(_)))
}
