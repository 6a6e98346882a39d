//! Writes requests.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use loopwright_core::messages::{
    Dialect, Exchange, InferenceRequest, Message, Origin, Role, ToolCall, Turn, TurnBody, TurnMeta,
};
use serde::Serialize;

use super::{
    WIRE, assistant, fields,
    parts::{WirePart, announced_media, media_of, tool_text, wire_part},
};
use crate::{dialect::exchange_text, preset::Quirks};

/// Writes requests of one model.
///
/// The messages come last in the body, and each turn is encoded once and kept beside it: the bytes
/// of a request up to the end of its last turn are the beginning of the next request.
#[derive(Clone, Debug)]
pub struct Encoder {
    origin: Arc<Origin>,
    quirks: Quirks,
}

impl Encoder {
    /// Writes requests for the model that the origin names.
    pub fn new(origin: Arc<Origin>, quirks: Quirks) -> Self {
        Self { origin, quirks }
    }

    /// Returns the body of a request.
    pub fn encode(&self, request: &InferenceRequest) -> Vec<u8> {
        let mut body = Vec::with_capacity(4096);
        body.push(b'{');
        fields::write(&mut body, &self.origin.model, self.quirks, request);
        key(&mut body, "messages");
        body.push(b'[');
        self.write_messages(request, &mut body);
        body.extend_from_slice(b"]}");
        body
    }

    fn write_messages(&self, request: &InferenceRequest, body: &mut Vec<u8>) {
        let dialect = request.prompt.dialect;
        let mut list = List::new(body);
        if let Some(system) = request.system.as_deref().filter(|it| !it.is_empty()) {
            list.item(|out| write_text_message(out, "system", system));
        }
        let cache_key = self.cache_key(dialect);
        for turn in request.prompt.stable() {
            let bytes = turn.encoded().get_or_encode(cache_key, || self.turn(turn, dialect));
            list.raw(&bytes);
        }
        for message in &request.prompt.tail {
            list.item(|out| self.write_message(out, message));
        }
    }

    /// Names the form that this encoder gives a turn.
    fn cache_key(&self, dialect: Dialect) -> u64 {
        let mut hasher = DefaultHasher::new();
        (WIRE, &self.origin.provider, &self.origin.model).hash(&mut hasher);
        (dialect, self.quirks).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the messages of a turn, with commas between them.
    fn turn(&self, turn: &Turn, dialect: Dialect) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut list = List::new(&mut bytes);
        match turn.body() {
            TurnBody::Input(message) | TurnBody::Reply(message) => {
                list.item(|out| self.write_message(out, message));
            }
            TurnBody::Exchange(exchange) if dialect == Dialect::Text => {
                Self::write_exchange_as_text(&mut list, exchange);
            }
            TurnBody::Exchange(exchange) => self.write_exchange(&mut list, exchange, turn.meta()),
        }
        bytes
    }

    fn write_exchange(&self, list: &mut List<'_>, exchange: &Exchange, meta: &TurnMeta) {
        let ids = call_ids(exchange, meta);
        list.item(|out| {
            let is_own = self.is_own(exchange.reply());
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
            list.item(|out| write_parts_message(out, "user", &parts));
        }
    }

    fn write_exchange_as_text(list: &mut List<'_>, exchange: &Exchange) {
        let text = exchange_text(exchange);
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

    fn write_message(&self, out: &mut Vec<u8>, message: &Message) {
        let role = match message.role() {
            Role::Assistant => {
                return assistant::write(out, message, &[], self.is_own(message));
            }
            Role::User => "user",
            Role::Developer if self.quirks.developer_role => "developer",
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

    /// Tells whether a message came from the very model that is asked now.
    fn is_own(&self, message: &Message) -> bool {
        message.origin().is_some_and(|origin| *origin == self.origin)
    }
}

/// Returns an id for each call, none of them twice.
///
/// A missing id is made of the step and the call's position, so that it is the same every time.
fn call_ids(exchange: &Exchange, meta: &TurnMeta) -> Vec<String> {
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

/// Items with commas between them.
struct List<'a> {
    out: &'a mut Vec<u8>,
    is_begun: bool,
}

impl<'a> List<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_begun: false }
    }

    fn item(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_begun {
            self.out.push(b',');
        }
        self.is_begun = true;
        write(self.out);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.item(|out| out.extend_from_slice(bytes));
    }
}

/// Writes a field's name, after another field.
pub(super) fn key(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    value(out, name);
    out.push(b':');
}

#[expect(clippy::expect_used, reason = "only broken writers and odd map keys make it fail")]
pub(super) fn value(out: &mut Vec<u8>, content: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, content).expect("texts, numbers and JSON values are JSON");
}

#[cfg(test)]
mod tests;
