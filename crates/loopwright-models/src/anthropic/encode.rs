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

/// Writes the body of a request: everything else first, then the messages.
pub(super) fn encode(question: &Question<'_>) -> Vec<u8> {
    let stable: Vec<&Turn> = question.request.prompt.stable().map(|turn| &**turn).collect();
    let is_instruction = |turn: &&&Turn| turn.message().is_system();
    let leading = stable.iter().take_while(is_instruction).count();
    let (leading, turns) = stable.split_at(leading);
    let instructions: Vec<String> = leading.iter().map(|turn| turn.message().text()).collect();
    let mut body = Vec::with_capacity(4096);
    body.push(b'{');
    fields::write(&mut body, question, &instructions);
    key(&mut body, "messages");
    body.push(b'[');
    Writer { question }.write_messages(&mut body, turns);
    body.extend_from_slice(b"]}");
    body
}

struct Writer<'a> {
    question: &'a Question<'a>,
}

impl Writer<'_> {
    fn write_messages(&self, body: &mut Vec<u8>, turns: &[&Turn]) {
        let prompt = &self.question.request.prompt;
        let cache_key = self.question.cache_key();
        // Where the last block ends that may be marked: what the model said may not.
        let mut markable = None;
        let begin = body.len();
        for turn in turns {
            let bytes = turn.encoded().get_or_encode(cache_key, || self.turn(turn, prompt.dialect));
            append(body, begin, &bytes);
            if !bytes.is_empty() && !matches!(turn.body(), TurnBody::Reply(_)) {
                markable = Some(body.len() - b"}]}".len());
            }
        }
        if prompt.tail.is_empty() {
            return;
        }
        if let (Some(at), Some(mark)) = (markable, fields::mark(self.question)) {
            let mark = format!(",\"cache_control\":{mark}");
            body.splice(at..at, mark.into_bytes());
        }
        for message in &prompt.tail {
            append(body, begin, &self.message(message));
        }
    }

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

/// Returns an id with the characters that the wire allows in it.
fn clean(id: &str) -> String {
    id.replace(|it: char| !it.is_ascii_alphanumeric() && !matches!(it, '_' | '-'), "_")
}

#[cfg(test)]
mod tests;
