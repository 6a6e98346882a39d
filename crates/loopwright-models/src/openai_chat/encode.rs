//! Encodes requests.

use loopwright_core::messages::{Message, Role, ToolCallFormat, ToolExchange, TurnMeta};

use super::{
    assistant, fields,
    parts::{WirePart, announced_media, media_of, tool_text, wire_part},
};
use crate::{
    call_ids::{Whose, call_ids},
    dialect::react_text,
    json::{List, key, object_with_list, value},
    quirks::RoleOrder,
    wire::{
        EncodeInput, Filler, Fillers, TurnWriter, model_answers_tools, no_fillers, user_speaks,
    },
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
        if let Some(system) = fields::instructions(self.question) {
            list.item(|out| write_text_message(out, "system", &system));
        }
        self.question.write_conversation(list, 0, self, self.fillers());
    }

    fn fillers(&self) -> Fillers {
        match self.question.quirks.role_order {
            RoleOrder::Any => no_fillers,
            // In words, there are no tools that the model would have to answer.
            RoleOrder::ModelAfterTools if self.is_text() => user_speaks,
            RoleOrder::ModelAfterTools => model_answers_tools,
        }
    }

    fn is_text(&self) -> bool {
        self.question.request.prompt.dialect == ToolCallFormat::Text
    }

    fn write_said(&self, out: &mut Vec<u8>, message: &Message) {
        let role = match message.role() {
            Role::Assistant => {
                return assistant::write(out, message, &[], self.question.is_own(message));
            }
            Role::User => "user",
            Role::Developer if self.question.quirks.developer_role => "developer",
            Role::System | Role::Developer => "system",
        };
        match message.parts() {
            [part] if part.as_text().is_some() => {
                write_text_message(out, role, part.as_text().unwrap_or_default());
            }
            parts if message.is_system() || parts.iter().all(|it| wire_part(it).is_none()) => {
                write_text_message(out, role, &message.text());
            }
            parts => {
                let parts: Vec<_> = parts.iter().filter_map(wire_part).collect();
                write_parts_message(out, role, &parts);
            }
        }
    }
}

impl TurnWriter for Writer<'_> {
    fn format(&self) -> ToolCallFormat {
        self.question.request.prompt.dialect
    }

    fn write_exchange(&self, list: &mut List<'_>, exchange: &ToolExchange, meta: &TurnMeta) {
        let is_own = self.question.is_own(exchange.reply());
        let form = self.question.quirks.call_ids.into();
        let ids = call_ids(exchange, meta, form, Whose::of(is_own));
        list.item(|out| {
            assistant::write(out, exchange.reply(), &ids, is_own);
        });
        for (id, result) in ids.iter().zip(exchange.results()) {
            list.item(|out| {
                out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
                value(out, id);
                key(out, "content");
                value(out, &tool_text(result));
                out.push(b'}');
            });
        }
        let parts: Vec<_> = exchange.results().iter().flat_map(announced_media).collect();
        if !parts.is_empty() {
            if self.question.quirks.role_order == RoleOrder::ModelAfterTools {
                list.item(|out| write_text_message(out, "assistant", Filler::Noted.text()));
            }
            list.item(|out| write_parts_message(out, "user", &parts));
        }
    }

    fn write_exchange_as_text(&self, list: &mut List<'_>, exchange: &ToolExchange) {
        let text = react_text(exchange);
        list.item(|out| write_text_message(out, "assistant", &text.reply));
        let media = exchange.results().iter().flat_map(media_of);
        let media: Vec<_> = media.filter_map(|(part, _)| wire_part(part)).collect();
        list.item(|out| {
            if media.is_empty() {
                return write_text_message(out, "user", &text.observations);
            }
            let words = WirePart::text(text.observations.as_str());
            let parts: Vec<_> = [words].into_iter().chain(media).collect();
            write_parts_message(out, "user", &parts);
        });
    }

    fn write_message(&self, list: &mut List<'_>, message: &Message) {
        list.item(|out| self.write_said(out, message));
    }
}

fn write_text_message(out: &mut Vec<u8>, role: &str, text: &str) {
    out.extend_from_slice(b"{\"role\":");
    value(out, role);
    key(out, "content");
    value(out, text);
    out.push(b'}');
}

fn write_parts_message(out: &mut Vec<u8>, role: &str, parts: &[WirePart<'_>]) {
    out.extend_from_slice(b"{\"role\":");
    value(out, role);
    key(out, "content");
    value(out, parts);
    out.push(b'}');
}

#[cfg(test)]
mod tests;
