//! IDs of tool calls.

use std::collections::BTreeSet;

use loopwright_core::messages::{ToolCall, ToolExchange, TurnMeta};

use crate::quirks::CallIds;

/// The ids that a provider accepts of calls that another model made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdForm {
    /// Any.
    Any,
    /// Nine letters and digits.
    Nine,
    /// Letters, digits, `_` and `-`.
    Simple {
        /// The most characters.
        longest: usize,
    },
}

impl From<CallIds> for IdForm {
    fn from(ids: CallIds) -> Self {
        match ids {
            CallIds::Any => Self::Any,
            CallIds::Nine => Self::Nine,
        }
    }
}

/// Who made the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The model that the request is for. It knows its calls by the ids that it gave them.
    Own,
    /// Another model.
    Foreign,
}

impl Whose {
    pub(crate) fn of(is_own: bool) -> Self {
        if is_own { Self::Own } else { Self::Foreign }
    }
}

/// Returns an id for each call, unique within the exchange. The same call gets the same id every time.
///
/// Ids that the model itself gave are kept. Other ids are put into the form that the provider accepts, and
/// a missing id is made of the execution, the step and the position of the call.
pub(crate) fn call_ids(
    exchange: &ToolExchange,
    meta: &TurnMeta,
    form: IdForm,
    whose: Whose,
) -> Vec<String> {
    let given = |call: &ToolCall| call.id.as_deref().filter(|id| !id.is_empty()).map(str::to_owned);
    let mut ids: Vec<Option<String>> = exchange.reply().tool_calls().map(given).collect();
    let mut taken = BTreeSet::new();
    let is_kept = |id: &String| form.keeps(id, whose);
    // Ids that stay as they are come first: no other id may be taken for one of them.
    let kept: Vec<bool> = ids
        .iter()
        .map(|id| id.clone().is_some_and(|id| is_kept(&id) && taken.insert(id)))
        .collect();
    for (index, (id, kept)) in ids.iter_mut().zip(kept).enumerate() {
        if !kept {
            let base = match id.take() {
                Some(id) if is_kept(&id) => id,
                Some(id) => form.accepted(&id),
                None => form.made_up(meta, index),
            };
            *id = Some(form.unique(&base, &mut taken));
        }
    }
    ids.into_iter().flatten().collect()
}

impl IdForm {
    /// Returns `true` if an id is sent as it is.
    fn keeps(self, id: &str, whose: Whose) -> bool {
        match self {
            Self::Any => true,
            Self::Nine => is_nine(id),
            Self::Simple { .. } => whose == Whose::Own,
        }
    }

    /// Returns the accepted form of an id that another provider gave.
    fn accepted(self, id: &str) -> String {
        match self {
            Self::Any => id.to_owned(),
            Self::Nine => nine(id),
            Self::Simple { longest } => {
                let is_fine = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
                joined(&id.replace(|it| !is_fine(it), "_"), "", longest)
            }
        }
    }

    /// Returns an id for a call that has none.
    fn made_up(self, meta: &TurnMeta, index: usize) -> String {
        let step = meta.step.unwrap_or(0);
        let id = match turn_mark(meta) {
            Some(mark) => format!("call_{mark}_{index}"),
            None => format!("call_{step}_{index}"),
        };
        if self == Self::Nine { nine(&id) } else { id }
    }

    /// Returns the id, or one like it if it is taken, and takes it.
    fn unique(self, id: &str, taken: &mut BTreeSet<String>) -> String {
        let numbered = |number: u32| match self {
            Self::Any => format!("{id}_{number}"),
            Self::Nine => nine(&format!("{id}_{number}")),
            Self::Simple { longest } => joined(id, &format!("_{number}"), longest),
        };
        let mut unique = id.to_owned();
        let mut number = 2;
        while !taken.insert(unique.clone()) {
            unique = numbered(number);
            number += 1;
        }
        unique
    }
}

/// Joins two texts, and cuts the beginning of the first if both together are too long: the end of an id
/// distinguishes it from others.
fn joined(id: &str, suffix: &str, longest: usize) -> String {
    let room = longest.saturating_sub(suffix.len());
    // Only ASCII is left in it.
    format!("{}{suffix}", &id[id.len().saturating_sub(room)..])
}

/// Names a turn among all turns of a conversation. Turns that no execution recorded have no name.
fn turn_mark(meta: &TurnMeta) -> Option<String> {
    const LENGTH: usize = 6;
    let execution = meta.execution.as_ref()?;
    let step = meta.step.unwrap_or(0);
    Some(letters(&format!("{execution} {step}"), LENGTH))
}

const NINE: usize = 9;

fn is_nine(id: &str) -> bool {
    id.len() == NINE && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn nine(id: &str) -> String {
    if is_nine(id) { id.to_owned() } else { letters(id, NINE) }
}

/// Makes letters and digits of a text, the same every time.
fn letters(text: &str, length: usize) -> String {
    const LETTERS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut number = fnv1a(text.as_bytes());
    let mut letter = || {
        let count = LETTERS.len() as u64;
        let index = usize::try_from(number % count).unwrap_or_default();
        number /= count;
        char::from(LETTERS[index])
    };
    (0..length).map(|_| letter()).collect()
}

/// A hash that is the same in every build, because prompts are cached by their bytes.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use loopwright_core::messages::{Content, ExecutionId, Message, Part, Role, ToolResult};

    use super::*;

    const SIMPLE: IdForm = IdForm::Simple { longest: 64 };

    fn exchange(ids: &[&str]) -> ToolExchange {
        let call = |id: &&str| Part::new(Content::ToolCall(ToolCall::new(*id, "f", "{}")));
        let reply = Message::new(Role::Assistant, ids.iter().map(call));
        ToolExchange::new(reply, ids.iter().map(|_| ToolResult::text("r"))).unwrap()
    }

    fn ids(ids: &[&str], form: IdForm, whose: Whose) -> Vec<String> {
        call_ids(&exchange(ids), &TurnMeta::default(), form, whose)
    }

    fn nine(id: &str) -> String {
        ids(&[id], IdForm::Nine, Whose::Foreign).remove(0)
    }

    fn in_step(execution: &str, step: u32) -> TurnMeta {
        let execution = Some(ExecutionId::from(execution));
        TurnMeta { execution, step: Some(step), is_trace: true }
    }

    #[test]
    fn ids_are_sent_as_they_are_where_any_is_accepted() {
        assert_eq!(ids(&["call.1", "f:0"], IdForm::Any, Whose::Foreign), ["call.1", "f:0"]);
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

    #[test]
    fn ids_that_the_provider_gave_itself_stay_as_they_are() {
        let given = ["functions.f:0", "functions_f_0"];
        assert_eq!(ids(&given, SIMPLE, Whose::Own), given);
    }

    #[test]
    fn two_ids_that_differ_in_forbidden_characters_do_not_become_one() {
        let sent =
            ids(&["functions.f:0", "functions_f_0", "functions-f.0"], SIMPLE, Whose::Foreign);
        assert_eq!(sent, ["functions_f_0", "functions_f_0_2", "functions-f_0"]);
        let long = "x".repeat(70);
        let sent = ids(&[&format!("a{long}"), &format!("b{long}")], SIMPLE, Whose::Foreign);
        assert!(sent[0] != sent[1] && sent.iter().all(|id| id.len() <= 64), "{sent:?}");
    }

    #[test]
    fn a_made_up_id_is_none_that_the_provider_gave() {
        let sent = ids(&["", "call_0_0", "call_0_0"], SIMPLE, Whose::Own);
        assert_eq!(sent, ["call_0_0_2", "call_0_0", "call_0_0_3"]);
    }

    #[test]
    fn made_up_ids_differ_from_step_to_step_and_from_execution_to_execution() {
        let sent =
            |meta: &TurnMeta| call_ids(&exchange(&[""]), meta, SIMPLE, Whose::Foreign).remove(0);
        let metas = [in_step("a", 1), in_step("a", 2), in_step("b", 1)];
        let all: BTreeSet<String> = metas.iter().map(sent).collect();
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(sent(&metas[0]), sent(&metas[0]));
    }
}
