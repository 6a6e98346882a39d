//! Encodes requests.

use loopwright_core::messages::{
    Content, Message, Part, Role, ToolCallFormat, ToolExchange, TurnMeta,
};

use super::{
    assistant::{self, Sent},
    content::WireBlock,
    fields,
};
use crate::{
    call_ids::{IdForm, Whose, call_ids},
    dialect::react_text,
    json::{List, key, value},
    wire::{EncodeInput, Side, TurnWriter, user_speaks},
};

/// What ends each message.
const END: &[u8] = b"]}";

/// The ids that the wire accepts of calls that another model made.
const FOREIGN_IDS: IdForm = IdForm::Simple { longest: 64 };

/// Writes the body of a request: everything else first, then the messages.
pub(super) fn encode(question: &EncodeInput<'_>) -> Vec<u8> {
    let prompt = &question.request.prompt;
    let (instructions, turns) = question.split_instructions();
    let mut body = Vec::with_capacity(4096);
    body.push(b'{');
    fields::write(&mut body, question, &instructions, &turns);
    if body.last() != Some(&b'{') {
        body.push(b',');
    }
    body.extend_from_slice(b"\"messages\":[");
    let mut conversation = Conversation { out: &mut body, last: None };
    let (writer, cache_key) = (Writer { question }, question.cache_key());
    for turn in turns {
        let encode = || writer.encode_turn(turn);
        let messages = turn.encoded().get_or_encode(cache_key, encode);
        let is_paused = writer.is_paused(turn.message());
        conversation.add(&messages, Side::first_of(turn), Side::last_of(turn), is_paused);
    }
    for message in &prompt.tail {
        let side = Side::of(message);
        conversation.add(&writer.message(message), side, side, false);
    }
    conversation.end();
    body.extend_from_slice(b"]}");
    body
}

/// Returns who speaks on the wire.
fn role(side: Side) -> &'static str {
    match side {
        Side::User | Side::Tools => "user",
        Side::Model => "assistant",
    }
}

/// Messages that take turns.
struct Conversation<'a> {
    out: &'a mut Vec<u8>,
    last: Option<Last>,
}

/// The last message of a conversation.
#[derive(Clone, Copy)]
struct Last {
    side: Side,
    /// Whether the model goes on with it, because its provider's tools are at work.
    is_paused: bool,
}

impl Conversation<'_> {
    /// Adds messages. The first goes on with the last one before it if both are of one side.
    fn add(&mut self, messages: &[u8], first: Side, last: Side, is_paused: bool) {
        if messages.is_empty() {
            return;
        }
        self.fill(Some(first));
        self.append(messages, first);
        self.last = Some(Last { side: last, is_paused });
    }

    /// Lets the user speak where the model must not speak last.
    fn end(&mut self) {
        self.fill(None);
    }

    fn fill(&mut self, after: Option<Side>) {
        if self.last.is_some_and(|last| last.is_paused) {
            return;
        }
        if let Some(filler) = user_speaks(self.last.map(|it| it.side), after) {
            self.append(&user_message(WireBlock::text(filler.text()).into_iter()), Side::User);
            self.last = Some(Last { side: Side::User, is_paused: false });
        }
    }

    fn append(&mut self, messages: &[u8], first: Side) {
        let mut messages = messages;
        if self.last.is_some_and(|last| role(last.side) == role(first)) {
            self.out.truncate(self.out.len() - END.len());
            messages = &messages[head(first).len()..];
        }
        if self.last.is_some() {
            self.out.push(b',');
        }
        self.out.extend_from_slice(messages);
    }
}

struct Writer<'a> {
    question: &'a EncodeInput<'a>,
}

impl Writer<'_> {
    /// Returns `true` if a message ends while its provider's tools are at work.
    fn is_paused(&self, message: &Message) -> bool {
        let last = message.parts().last().map(Part::content);
        self.question.is_own(message) && matches!(last, Some(Content::Provider { .. }))
    }

    /// Writes what the model said, its calls under these ids.
    fn assistant(&self, it: &Message, ids: &[String]) -> Vec<u8> {
        let sent = Sent::of(self.question, it);
        message(Side::Model, |list| assistant::write(list, it, ids, sent))
    }

    fn exchange(&self, exchange: &ToolExchange, meta: &TurnMeta) -> Vec<u8> {
        let is_own = self.question.is_own(exchange.reply());
        let ids = call_ids(exchange, meta, FOREIGN_IDS, Whose::of(is_own));
        let mut bytes = self.assistant(exchange.reply(), &ids);
        let results = ids.iter().zip(exchange.results());
        let results = results.map(|(id, result)| WireBlock::of_result(id, result));
        bytes.push(b',');
        bytes.extend(user_message(results));
        bytes
    }

    fn message(&self, it: &Message) -> Vec<u8> {
        match it.role() {
            Role::Assistant => self.assistant(it, &[]),
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

/// Writes an instruction in the middle of a conversation, where the wire knows users and models only.
fn instruction(it: &Message) -> Vec<u8> {
    let words = it.text();
    let words = (!words.trim().is_empty()).then(|| format!("<system>\n{words}\n</system>"));
    let shown = it.parts().iter().filter(|part| !matches!(part.content(), Content::Text(_)));
    let words = words.and_then(WireBlock::text).into_iter();
    user_message(words.chain(shown.filter_map(WireBlock::of)))
}

fn exchange_as_text(exchange: &ToolExchange) -> Vec<u8> {
    let text = react_text(exchange);
    let mut bytes = message(Side::Model, |list| {
        list.item(|out| value(out, &WireBlock::Text(text.reply.into())));
    });
    let shown = exchange.results().iter().flat_map(|result| result.content.iter());
    let shown = shown.filter(|part| !matches!(part.content(), Content::Text(_)));
    let words = WireBlock::text(text.observations).into_iter();
    bytes.push(b',');
    bytes.extend(user_message(words.chain(shown.filter_map(WireBlock::of))));
    bytes
}

/// Writes what a user says. Beside a document, the wire wants words.
fn user_message<'a>(blocks: impl Iterator<Item = WireBlock<'a>>) -> Vec<u8> {
    let mut blocks: Vec<_> = blocks.collect();
    let is_mute = !blocks.iter().any(|it| matches!(it, WireBlock::Text(_)));
    if is_mute && blocks.iter().any(|it| matches!(it, WireBlock::Document { .. })) {
        blocks.insert(0, WireBlock::Text("See the document.".into()));
    }
    message(Side::User, |list| {
        for block in &blocks {
            list.item(|out| value(out, block));
        }
    })
}

/// Returns a message; nothing if it has no blocks, because the wire refuses empty ones.
fn message(side: Side, write_blocks: impl FnOnce(&mut List<'_>)) -> Vec<u8> {
    let mut out = head(side);
    let begin = out.len();
    write_blocks(&mut List::new(&mut out));
    if out.len() == begin {
        return Vec::new();
    }
    out.extend_from_slice(END);
    out
}

/// Returns what each message of this side begins with.
fn head(side: Side) -> Vec<u8> {
    let mut out = b"{\"role\":".to_vec();
    value(&mut out, role(side));
    key(&mut out, "content");
    out.push(b'[');
    out
}

#[cfg(test)]
mod tests;
