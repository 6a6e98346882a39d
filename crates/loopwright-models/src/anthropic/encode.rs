//! Encodes requests.

use std::sync::Arc;

use loopwright_core::messages::{
    Content, Message, Role, ToolCallFormat, ToolExchange, Turn, TurnBody, TurnMeta,
};

use super::{
    assistant,
    container::{self, is_container},
    content::WireBlock,
    fields,
};
use crate::{
    call_ids::{IdForm, Whose, call_ids},
    claude,
    dialect::react_text,
    json::{List, key, value},
    wire::{EncodeInput, Side, TurnWriter, user_speaks},
};

/// The ids that the wire accepts of calls that another model made.
const FOREIGN_IDS: IdForm = IdForm::Simple { longest: usize::MAX };

/// Writes the body of a request: everything else first, then the messages, and last the container.
pub(super) fn encode(question: &EncodeInput<'_>) -> Vec<u8> {
    let (instructions, turns) = question.split_instructions();
    let mut body = Vec::with_capacity(4096);
    body.push(b'{');
    fields::write(&mut body, question, &instructions);
    key(&mut body, "messages");
    body.push(b'[');
    Writer { question }.write_messages(&mut body, &turns);
    body.push(b']');
    if let Some(container) = container::field(question) {
        key(&mut body, "container");
        value(&mut body, &container);
    }
    body.push(b'}');
    body
}

struct Writer<'a> {
    question: &'a EncodeInput<'a>,
}

/// A turn that says something, and its messages.
struct Encoded<'t> {
    turn: &'t Turn,
    bytes: Arc<[u8]>,
}

impl Writer<'_> {
    fn write_messages(&self, body: &mut Vec<u8>, turns: &[&Turn]) {
        let prompt = &self.question.request.prompt;
        let cache_key = self.question.cache_key();
        let encode =
            |turn: &Turn| turn.encoded().get_or_encode(cache_key, || self.encode_turn(turn));
        let turns = turns.iter().map(|turn| Encoded { turn, bytes: encode(turn) });
        let turns: Vec<Encoded<'_>> = turns.filter(|it| !it.bytes.is_empty()).collect();
        // Where the last block ends that may be marked: what the model said may not.
        let mut markable = None;
        let (begin, mut before) = (body.len(), None);
        for (index, Encoded { turn, bytes }) in turns.iter().enumerate() {
            let next = turns.get(index + 1).map(|it| it.turn);
            self.fill(body, begin, before, Some(turn.message()));
            if self.takes_system_message(before, turn, next) {
                append(body, begin, &system_message(turn.message()));
            } else {
                append(body, begin, bytes);
            }
            if !matches!(turn.body(), TurnBody::Reply(_)) {
                markable = Some(body.len() - b"}]}".len());
            }
            before = Some(Last::of(turn));
        }
        if prompt.tail.is_empty() {
            self.fill(body, begin, before, None);
            return;
        }
        if let (Some(at), Some(mark)) = (markable, fields::mark(self.question)) {
            let mark = format!(",\"cache_control\":{mark}");
            body.splice(at..at, mark.into_bytes());
        }
        for message in &prompt.tail {
            let bytes = self.message(message);
            if !bytes.is_empty() {
                self.fill(body, begin, before, Some(message));
                append(body, begin, &bytes);
                before = Some(Last { message, side: Side::of(message) });
            }
        }
        self.fill(body, begin, before, None);
    }

    /// Writes a word of the user where the wire's order of roles requires one.
    fn fill(
        &self,
        body: &mut Vec<u8>,
        begin: usize,
        before: Option<Last<'_>>,
        after: Option<&Message>,
    ) {
        let filler = user_speaks(before.map(|it| it.side), after.map(Side::of));
        if before.is_some_and(|last| self.is_continued(last.message)) {
            return;
        }
        if let Some(filler) = filler {
            append(body, begin, &user_message(WireBlock::text(filler.text()).into_iter()));
        }
    }

    /// Returns `true` if the model goes on with this message of its own: with its provider's tools, or, if
    /// it is a model that can, with its words.
    fn is_continued(&self, message: &Message) -> bool {
        if self.question.is_own(message) {
            let mut blocks = message.parts().iter().rev().filter(|part| !is_container(part));
            if blocks.next().is_some_and(|it| matches!(it.content(), Content::Provider { .. })) {
                return true;
            }
        }
        let options = &self.question.request.options;
        let thinks = options.reasoning_effort.is_some() || options.extra.contains_key("thinking");
        // The wire refuses a last message that ends with a blank.
        let ends_well = !message.text().ends_with(char::is_whitespace);
        !thinks && ends_well && claude::takes_prefill(self.question.model())
    }

    /// Returns `true` if a turn is sent as a message of the system: it stands after the user's and before
    /// the model's, and has words only.
    fn takes_system_message(
        &self,
        before: Option<Last<'_>>,
        turn: &Turn,
        next: Option<&Turn>,
    ) -> bool {
        let message = turn.message();
        let is_after_user =
            before.is_some_and(|it| it.side != Side::Model && !it.message.is_system());
        let is_before_model = match next {
            Some(next) => Side::first_of(next) == Side::Model,
            None => self.question.request.prompt.tail.is_empty(),
        };
        message.is_system()
            && message.parts().iter().all(|part| part.as_text().is_some())
            && is_after_user
            && is_before_model
            && claude::takes_system_messages(self.question.model())
    }

    fn exchange(&self, exchange: &ToolExchange, meta: &TurnMeta) -> Vec<u8> {
        let is_own = self.question.is_own(exchange.reply());
        let ids = call_ids(exchange, meta, FOREIGN_IDS, Whose::of(is_own));
        let mut bytes = message("assistant", |list| {
            assistant::write(list, exchange.reply(), &ids, is_own);
        });
        let results = ids.iter().zip(exchange.results());
        let results = results.map(|(id, result)| WireBlock::of_result(id, result));
        let (results, shown): (Vec<_>, Vec<_>) = results.unzip();
        let blocks = results.into_iter().chain(shown.into_iter().flatten());
        append(&mut bytes, 0, &user_message(blocks));
        bytes
    }

    fn message(&self, it: &Message) -> Vec<u8> {
        match it.role() {
            Role::Assistant => {
                let is_own = self.question.is_own(it);
                message("assistant", |list| assistant::write(list, it, &[], is_own))
            }
            Role::User => user_message(it.parts().iter().filter_map(WireBlock::of)),
            Role::System | Role::Developer => instruction(it),
        }
    }
}

impl TurnWriter for Writer<'_> {
    fn format(&self) -> ToolCallFormat {
        self.question.request.prompt.dialect
    }

    fn write_message(&self, list: &mut List<'_>, message: &Message) {
        list.raw(&self.message(message));
    }

    fn write_exchange(&self, list: &mut List<'_>, exchange: &ToolExchange, meta: &TurnMeta) {
        list.raw(&self.exchange(exchange, meta));
    }

    fn write_exchange_as_text(&self, list: &mut List<'_>, exchange: &ToolExchange) {
        list.raw(&exchange_as_text(exchange));
    }
}

/// The last message before a place in the conversation.
#[derive(Clone, Copy)]
struct Last<'m> {
    message: &'m Message,
    side: Side,
}

impl<'m> Last<'m> {
    fn of(turn: &'m Turn) -> Self {
        Self { message: turn.message(), side: Side::last_of(turn) }
    }
}

/// Writes an instruction in the middle of a conversation for models that accept one there.
fn system_message(it: &Message) -> Vec<u8> {
    message("system", |list| {
        for block in it.parts().iter().filter_map(WireBlock::of) {
            list.item(|out| value(out, &block));
        }
    })
}

/// Writes an instruction in the middle of a conversation where the wire knows users and models only.
fn instruction(it: &Message) -> Vec<u8> {
    let words = it.text();
    let words = (!words.trim().is_empty()).then(|| format!("<system>\n{words}\n</system>"));
    let shown = it.parts().iter().filter(|part| !matches!(part.content(), Content::Text(_)));
    let words = words.and_then(WireBlock::text).into_iter();
    user_message(words.chain(shown.filter_map(WireBlock::of)))
}

fn exchange_as_text(exchange: &ToolExchange) -> Vec<u8> {
    let text = react_text(exchange);
    let mut bytes = message("assistant", |list| {
        list.item(|out| value(out, &WireBlock::Text { text: text.reply.into() }));
    });
    let shown = exchange.results().iter().flat_map(|result| result.content.iter());
    let shown = shown.filter(|part| !matches!(part.content(), Content::Text(_)));
    let words = WireBlock::text(text.observations).into_iter();
    append(&mut bytes, 0, &user_message(words.chain(shown.filter_map(WireBlock::of))));
    bytes
}

fn user_message<'a>(blocks: impl Iterator<Item = WireBlock<'a>>) -> Vec<u8> {
    message("user", |list| {
        for block in blocks {
            list.item(|out| value(out, &block));
        }
    })
}

/// Returns a message; nothing if it has no blocks, because the wire refuses empty ones.
fn message(role: &str, write_blocks: impl FnOnce(&mut List<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(b"{\"role\":");
    value(&mut out, role);
    key(&mut out, "content");
    out.push(b'[');
    let begin = out.len();
    write_blocks(&mut List::new(&mut out));
    if out.len() == begin {
        return Vec::new();
    }
    out.extend_from_slice(b"]}");
    out
}

/// Adds messages to those that begin there, a comma between them.
fn append(out: &mut Vec<u8>, begin: usize, messages: &[u8]) {
    if out.len() > begin && !messages.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(messages);
}

#[cfg(test)]
mod tests;
