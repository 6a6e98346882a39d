//! Writes requests.

use loopwright_core::messages::{
    Content, Dialect, Exchange, Message, Role, Turn, TurnBody, TurnMeta,
};

use super::{assistant, content::WireBlock, fields};
use crate::{
    call_ids::call_ids,
    dialect::exchange_text,
    json::{List, key, value},
    wire::Question,
};

/// What ends each message.
const END: &[u8] = b"]}";

/// Writes the body of a request: everything else first, then the messages.
pub(super) fn encode(question: &Question<'_>) -> Vec<u8> {
    let prompt = &question.request.prompt;
    let stable: Vec<&Turn> = prompt.stable().map(|turn| &**turn).collect();
    let is_instruction = |turn: &&&Turn| turn.message().is_system();
    let leading = stable.iter().take_while(is_instruction).count();
    let (leading, turns) = stable.split_at(leading);
    let instructions: Vec<String> = leading.iter().map(|turn| turn.message().text()).collect();
    let mut body = Vec::with_capacity(4096);
    body.push(b'{');
    fields::write(&mut body, question, &instructions, turns);
    if body.last() != Some(&b'{') {
        body.push(b',');
    }
    body.extend_from_slice(b"\"messages\":[");
    let mut conversation = Conversation { out: &mut body, last: None };
    let (writer, cache_key) = (Writer { question }, question.cache_key());
    for turn in turns {
        let encode = || writer.turn(turn, prompt.dialect);
        let messages = turn.encoded().get_or_encode(cache_key, encode);
        let (first, last) = match turn.body() {
            TurnBody::Input(_) => (Side::User, Side::User),
            TurnBody::Reply(_) => (Side::Model, Side::Model),
            TurnBody::Exchange(_) => (Side::Model, Side::User),
        };
        conversation.add(&messages, first, last);
    }
    for message in &prompt.tail {
        let side = if message.role() == Role::Assistant { Side::Model } else { Side::User };
        conversation.add(&writer.message(message), side, side);
    }
    body.extend_from_slice(b"]}");
    body
}

/// Who speaks on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    User,
    Model,
}

impl Side {
    fn role(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Model => "assistant",
        }
    }
}

/// Messages that take turns.
struct Conversation<'a> {
    out: &'a mut Vec<u8>,
    /// Who spoke last.
    last: Option<Side>,
}

impl Conversation<'_> {
    /// Adds messages. The first goes on with the last one before it if both are of one side.
    fn add(&mut self, messages: &[u8], first: Side, last: Side) {
        if messages.is_empty() {
            return;
        }
        let mut messages = messages;
        if self.last == Some(first) {
            self.out.truncate(self.out.len() - END.len());
            messages = &messages[head(first).len()..];
        }
        if self.last.is_some() {
            self.out.push(b',');
        }
        self.out.extend_from_slice(messages);
        self.last = Some(last);
    }
}

struct Writer<'a> {
    question: &'a Question<'a>,
}

impl Writer<'_> {
    /// Returns the messages of a turn, with commas between them; nothing if it says nothing.
    fn turn(&self, turn: &Turn, dialect: Dialect) -> Vec<u8> {
        match turn.body() {
            TurnBody::Input(message) | TurnBody::Reply(message) => self.message(message),
            TurnBody::Exchange(exchange) if dialect == Dialect::Text => exchange_as_text(exchange),
            TurnBody::Exchange(exchange) => self.exchange(exchange, turn.meta()),
        }
    }

    fn exchange(&self, exchange: &Exchange, meta: &TurnMeta) -> Vec<u8> {
        let ids: Vec<String> = call_ids(exchange, meta).iter().map(|id| clean(id)).collect();
        let is_own = self.question.is_own(exchange.reply());
        let mut bytes = message(Side::Model, |list| {
            assistant::write(list, exchange.reply(), &ids, is_own);
        });
        let results = ids.iter().zip(exchange.results());
        let results = results.map(|(id, result)| WireBlock::of_result(id, result));
        bytes.push(b',');
        bytes.extend(user_message(results));
        bytes
    }

    fn message(&self, it: &Message) -> Vec<u8> {
        match it.role() {
            Role::Assistant => {
                let is_own = self.question.is_own(it);
                message(Side::Model, |list| assistant::write(list, it, &[], is_own))
            }
            Role::User => user_message(it.parts().iter().filter_map(WireBlock::of)),
            Role::System | Role::Developer => instruction(it),
        }
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

fn exchange_as_text(exchange: &Exchange) -> Vec<u8> {
    let text = exchange_text(exchange);
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
    value(&mut out, side.role());
    key(&mut out, "content");
    out.push(b'[');
    out
}

/// Returns an id with the characters and of the length that the wire allows.
fn clean(id: &str) -> String {
    const LONGEST: usize = 64;
    let is_fine = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
    let id = id.replace(|it| !is_fine(it), "_");
    // The end of an id tells it from others.
    id[id.len().saturating_sub(LONGEST)..].to_owned()
}

#[cfg(test)]
mod tests;
