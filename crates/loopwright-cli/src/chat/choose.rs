//! The choice from a numbered list.

use crate::console;
use crate::input::{Input, InputEvent};
use crate::signals::Signals;

/// What the user chose from a list.
pub(super) enum Chosen {
    /// An entry, counted from zero.
    Entry(usize),
    /// The other answer that is offered.
    Extra,
    /// Enter, Esc or Ctrl-C: no entry.
    Stay,
    /// The user, or a signal, ends the program.
    Left(InputEvent),
}

/// Lets the user choose from a list of entries, or give another answer if one is offered. Asks again after any other line,
/// which stays for the next prompt.
pub(super) async fn chosen(
    input: &mut Input,
    mut signals: Option<&mut Signals>,
    entries: usize,
    extra: Option<&str>,
) -> Chosen {
    loop {
        let answer = match input.choice(signals.as_deref_mut()).await {
            InputEvent::Text(answer) => answer,
            InputEvent::Nothing => return Chosen::Stay,
            other => return Chosen::Left(other),
        };
        let text = answer.trim();
        if text.is_empty() {
            return Chosen::Stay;
        }
        if Some(text) == extra {
            return Chosen::Extra;
        }
        let is_number = text.bytes().all(|it| it.is_ascii_digit());
        let number = text.parse::<usize>().ok().and_then(|it| it.checked_sub(1));
        if let Some(at) = number.filter(|it| is_number && *it < entries) {
            return Chosen::Entry(at);
        }
        if is_number {
            console::tell(&format!("type a number up to {entries}, or press Esc to stay here"));
            continue;
        }
        input.add_draft(&answer);
        console::tell(
            "type a number, or press Esc to stay here; your text is kept for the next prompt",
        );
    }
}
