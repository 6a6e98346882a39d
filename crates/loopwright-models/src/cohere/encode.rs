//! Encodes requests.

use loopwright_core::messages::{Message, Role, ToolCallFormat, ToolExchange, TurnMeta};

use super::{
    assistant, fields,
    parts::{WirePart, tool_text},
};
use crate::{
    call_ids::{IdForm, Whose, call_ids},
    dialect::react_text,
    json::{List, key, object_with_list, value},
    wire::{EncodeInput, TurnWriter, user_speaks},
};

/// Writes the body of a request: everything else first, then the messages.
pub(super) fn encode(question: &EncodeInput<'_>) -> Vec<u8> {
    let items = |list: &mut List<'_>| Writer { question }.write_messages(list);
    object_with_list(|out| fields::write(out, question), "messages", items)
}

struct Writer<'a> {
    question: &'a EncodeInput<'a>,
}

impl Writer<'_> {
    fn write_messages(&self, list: &mut List<'_>) {
        let request = self.question.request;
        if let Some(system) = request.system.as_deref().filter(|it| !it.is_empty()) {
            write_text(list, "system", system);
        }
        self.question.write_conversation(list, 0, self, user_speaks);
    }
}

impl TurnWriter for Writer<'_> {
    fn format(&self) -> ToolCallFormat {
        self.question.request.prompt.dialect
    }

    fn write_exchange(&self, list: &mut List<'_>, exchange: &ToolExchange, meta: &TurnMeta) {
        let reply = exchange.reply();
        let is_own = self.question.is_own(reply);
        let ids = call_ids(exchange, meta, IdForm::Any, Whose::of(is_own));
        assistant::write(list, reply, &ids, is_own);
        for (id, result) in ids.iter().zip(exchange.results()) {
            list.item(|out| {
                out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
                value(out, id);
                key(out, "content");
                value(out, &tool_text(result));
                out.push(b'}');
            });
        }
        let images = images(exchange);
        if !images.is_empty() {
            write_parts(list, "user", &images);
        }
    }

    fn write_exchange_as_text(&self, list: &mut List<'_>, exchange: &ToolExchange) {
        let text = react_text(exchange);
        write_text(list, "assistant", &text.reply);
        let content = exchange.results().iter().flat_map(|result| result.content.iter());
        let media = content.filter(|part| part.as_text().is_none()).filter_map(WirePart::of);
        let words = WirePart::text(text.observations.as_str());
        let parts: Vec<_> = [words].into_iter().chain(media).collect();
        match parts.len() {
            1 => write_text(list, "user", &text.observations),
            _ => write_parts(list, "user", &parts),
        }
    }

    fn write_message(&self, list: &mut List<'_>, message: &Message) {
        let role = match message.role() {
            Role::Assistant => {
                return assistant::write(list, message, &[], self.question.is_own(message));
            }
            Role::User => "user",
            Role::System | Role::Developer => "system",
        };
        let parts = message.parts();
        if message.is_system() || parts.iter().all(|part| part.as_text().is_some()) {
            return write_text(list, role, &message.text());
        }
        let parts: Vec<_> = parts.iter().filter_map(WirePart::of).collect();
        write_parts(list, role, &parts);
    }
}

/// Returns the pictures that tools showed.
fn images(exchange: &ToolExchange) -> Vec<WirePart<'_>> {
    let content = exchange.results().iter().flat_map(|result| result.content.iter());
    content.filter_map(WirePart::image).collect()
}

fn write_text(list: &mut List<'_>, role: &str, text: &str) {
    write_content(list, role, |out| value(out, text));
}

fn write_parts(list: &mut List<'_>, role: &str, parts: &[WirePart<'_>]) {
    write_content(list, role, |out| value(out, parts));
}

fn write_content(list: &mut List<'_>, role: &str, write: impl FnOnce(&mut Vec<u8>)) {
    list.item(|out| {
        out.extend_from_slice(b"{\"role\":");
        value(out, role);
        key(out, "content");
        write(out);
        out.push(b'}');
    });
}

#[cfg(test)]
mod tests;
