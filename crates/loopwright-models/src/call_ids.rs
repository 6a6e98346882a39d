//! Ids of tool calls.

use std::collections::BTreeSet;

use loopwright_core::messages::{Exchange, ToolCall, TurnMeta};

use crate::quirks::CallIds;

/// Returns an id for each call, none of them twice.
///
/// A missing id is made of the step and the call's position, so that it is the same every time.
pub(crate) fn call_ids(exchange: &Exchange, meta: &TurnMeta) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let step = meta.step.unwrap_or(0);
    let id = |(index, call): (usize, &ToolCall)| {
        let id = match call.id.as_deref() {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("call_{step}_{index}"),
        };
        let mut unique = id.clone();
        let mut number = 2;
        while !taken.insert(unique.clone()) {
            unique = format!("{id}_{number}");
            number += 1;
        }
        unique
    };
    exchange.reply().tool_calls().enumerate().map(id).collect()
}

/// Returns ids in a form that the provider accepts. The same id is given the same form every time.
pub(crate) fn accepted(ids: Vec<String>, form: CallIds) -> Vec<String> {
    match form {
        CallIds::Any => ids,
        CallIds::Nine => ids.into_iter().map(nine).collect(),
    }
}

fn nine(id: String) -> String {
    const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const LENGTH: usize = 9;
    if id.len() == LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id;
    }
    let mut number = fnv1a(id.as_bytes());
    let mut letter = || {
        let count = LETTERS.len() as u64;
        let index = usize::try_from(number % count).unwrap_or_default();
        number /= count;
        char::from(LETTERS[index])
    };
    (0..LENGTH).map(|_| letter()).collect()
}

/// A hash that is the same in every build, because prompts are cached by their bytes.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nine(id: &str) -> String {
        accepted(vec![id.to_owned()], CallIds::Nine).remove(0)
    }

    #[test]
    fn ids_are_sent_as_they_are_where_any_is_accepted() {
        let ids = vec!["call_1".to_owned(), String::new()];
        assert_eq!(accepted(ids.clone(), CallIds::Any), ids);
    }

    #[test]
    fn nine_letters_and_digits_stay() {
        assert_eq!(nine("aB3xK9mP2"), "aB3xK9mP2");
    }

    #[test]
    fn other_ids_become_nine_letters_and_digits_the_same_every_time() {
        for id in ["call_1740241912345", "x", "", "aB3xK9m-2", "é"] {
            let sent = nine(id);
            assert!(sent.len() == 9 && sent.bytes().all(|it| it.is_ascii_alphanumeric()), "{sent}");
            assert_eq!(nine(id), sent);
        }
        assert_eq!(nine("call_1"), "9gD2Dimct");
        assert_ne!(nine("call_1"), nine("call_2"));
    }
}
