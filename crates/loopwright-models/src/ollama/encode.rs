//! Encodes requests.

use loopwright_core::messages::{Message, Role, ToolCall, ToolCallFormat, ToolExchange, TurnMeta};

use super::{
    fields,
    parts::{Words, is_media, shows_media},
};
use crate::{
    call_ids::{IdForm, Whose, call_ids},
    dialect::react_text,
    json::{List, key, object_with_list, value},
    result_text::result_text,
    tool_input::write_object,
    wire::{EncodeInput, TurnWriter, no_fillers},
};

/// Writes the body of a request: everything else first, then the messages.
pub(super) fn encode(question: &EncodeInput<'_>) -> Vec<u8> {
    let messages = |list: &mut List<'_>| write_messages(list, question);
    object_with_list(|out| fields::write(out, question), "messages", messages)
}

fn write_messages(list: &mut List<'_>, question: &EncodeInput<'_>) {
    let request = question.request;
    if let Some(system) = request.system.as_deref().filter(|it| !it.is_empty()) {
        list.item(|out| write_text(out, "system", system));
    }
    question.write_conversation(list, 0, &Writer { dialect: request.prompt.dialect }, no_fillers);
}

struct Writer {
    dialect: ToolCallFormat,
}

impl TurnWriter for Writer {
    fn format(&self) -> ToolCallFormat {
        self.dialect
    }

    /// Writes what the model said and what the tools said, which goes by its order and the tool's name: the
    /// reference knows no ids, but calls keep those that newer servers give them. What tools showed are words
    /// of the user: that is where models look at pictures.
    fn write_exchange(&self, list: &mut List<'_>, exchange: &ToolExchange, meta: &TurnMeta) {
        let mut calls = exchange.reply().tool_calls();
        let have_ids = calls.all(|call| call.id.as_deref().is_some_and(|id| !id.is_empty()));
        let ids =
            if have_ids { call_ids(exchange, meta, IdForm::Any, Whose::Own) } else { Vec::new() };
        list.item(|out| write_reply(out, exchange.reply(), &ids));
        for (call, result) in exchange.pairs() {
            list.item(|out| {
                out.extend_from_slice(b"{\"role\":\"tool\",\"tool_name\":");
                value(out, &*call.name);
                key(out, "content");
                value(out, &*result_text(result));
                out.push(b'}');
            });
        }
        for (call, result) in exchange.pairs().filter(|(_, result)| shows_media(result)) {
            let shown = Words::of(result.content.iter().filter(|part| is_media(part)));
            let text = format!("Shown by {}: {}", call.name, shown.text);
            list.item(|out| {
                write_words(out, "user", &Words { text: text.trim_end().into(), ..shown });
            });
        }
    }

    fn write_exchange_as_text(&self, list: &mut List<'_>, exchange: &ToolExchange) {
        let text = react_text(exchange);
        list.item(|out| write_text(out, "assistant", &text.reply));
        let shown = exchange.results().iter().flat_map(|result| result.content.iter());
        let shown = Words::of(shown.filter(|part| is_media(part)));
        let observations = text.observations + &shown.text;
        list.item(|out| write_words(out, "user", &Words { text: observations.into(), ..shown }));
    }

    fn write_message(&self, list: &mut List<'_>, message: &Message) {
        list.item(|out| write_message(out, message));
    }
}

fn write_message(out: &mut Vec<u8>, message: &Message) {
    let role = match message.role() {
        Role::Assistant => return write_reply(out, message, &[]),
        Role::User => "user",
        Role::System | Role::Developer => "system",
    };
    write_words(out, role, &Words::of(message.parts()));
}

/// Writes what a model said. Thinking is plain text here, so that of other models is shown as well.
fn write_reply(out: &mut Vec<u8>, message: &Message, ids: &[String]) {
    begin(out, "assistant", &Words::of(message.parts()));
    let thinking = message.reasoning();
    if !thinking.is_empty() {
        key(out, "thinking");
        value(out, &thinking);
    }
    if message.tool_calls().next().is_some() {
        key(out, "tool_calls");
        out.push(b'[');
        let mut list = List::new(out);
        for (index, call) in message.tool_calls().enumerate() {
            list.item(|out| write_call(out, call, ids.get(index)));
        }
        out.push(b']');
    }
    out.push(b'}');
}

/// Writes a call.
fn write_call(out: &mut Vec<u8>, call: &ToolCall, id: Option<&String>) {
    out.extend_from_slice(b"{\"type\":\"function\",\"function\":{\"name\":");
    value(out, &*call.name);
    key(out, "arguments");
    write_object(out, call);
    out.push(b'}');
    if let Some(id) = id {
        key(out, "id");
        value(out, id);
    }
    out.push(b'}');
}

fn write_text(out: &mut Vec<u8>, role: &str, text: &str) {
    write_words(out, role, &Words { text: text.into(), images: Vec::new() });
}

fn write_words(out: &mut Vec<u8>, role: &str, words: &Words<'_>) {
    begin(out, role, words);
    out.push(b'}');
}

/// Writes a message but for its end.
fn begin(out: &mut Vec<u8>, role: &str, words: &Words<'_>) {
    out.extend_from_slice(b"{\"role\":");
    value(out, role);
    key(out, "content");
    value(out, &*words.text);
    if !words.images.is_empty() {
        key(out, "images");
        value(out, &words.images);
    }
}

#[cfg(test)]
mod tests;
