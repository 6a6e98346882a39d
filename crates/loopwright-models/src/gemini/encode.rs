//! Encodes requests.

use loopwright_core::messages::{
    Content, Message, Part, ProviderPayload, Role, ToolCall, ToolCallFormat, ToolExchange,
    ToolResult, Turn, TurnBody, TurnMeta,
};
use serde_json::json;

use super::{
    fields,
    model::Gemini,
    parts::{WirePart, fits_within, media_of, wire_part},
};
use crate::{
    dialect::react_text,
    json::{List, key, object_with_list, value},
    result_text::result_text,
    tool_input::write_object,
    wire::{EncodeInput, TurnWriter, user_speaks},
};

/// Writes the body of a request: everything else first, then the contents.
pub(super) fn encode(question: &EncodeInput<'_>) -> Vec<u8> {
    let head = &question.request.prompt.head;
    let instructions: Vec<&Message> = head.iter().map_while(|turn| instruction(turn)).collect();
    let writer = Writer { question, gemini: Gemini::named(question.model()) };
    let contents = |list: &mut List<'_>| writer.write_contents(list, instructions.len());
    object_with_list(|out| fields::write(out, question, &instructions), "contents", contents)
}

/// Returns what a turn instructs, if that is what it does.
fn instruction(turn: &Turn) -> Option<&Message> {
    match turn.body() {
        TurnBody::Input(message) if message.is_system() => Some(message),
        _ => None,
    }
}

struct Writer<'a> {
    question: &'a EncodeInput<'a>,
    gemini: Option<Gemini>,
}

impl Writer<'_> {
    /// Writes the conversation, without the turns at its beginning that are instructions.
    fn write_contents(&self, list: &mut List<'_>, instructions: usize) {
        self.question.write_conversation(list, instructions, self, user_speaks);
    }

    /// Writes what the model said.
    fn write_model_parts(&self, list: &mut List<'_>, message: &Message) {
        let is_own = self.question.is_own(message);
        let mut dummy_signature = self.dummy_signature();
        for part in message.parts() {
            let own = part.opaque().filter(|_| is_own).map(ProviderPayload::as_str);
            match (part.content(), own) {
                // What is said about the answer is no part of it.
                (Content::Provider { kind }, Some(_)) if kind.ends_with("Metadata") => {}
                (Content::Provider { .. }, None) => {}
                (Content::ToolCall(call), own) => {
                    let signature = dummy_signature.take();
                    match own {
                        Some(raw) => list.raw(raw.as_bytes()),
                        None => list.item(|out| write_call(out, call, signature)),
                    }
                }
                (_, Some(raw)) => {
                    // Several pieces of a text, each with a signature of its own, are a list.
                    let pieces = raw.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
                    list.raw(pieces.unwrap_or(raw).as_bytes());
                }
                (Content::Reasoning(text), None) if is_own => list.item(|out| {
                    out.extend_from_slice(b"{\"text\":");
                    value(out, &**text);
                    out.extend_from_slice(b",\"thought\":true}");
                }),
                (Content::Text(text) | Content::Refusal(text), None) if text.is_empty() => {}
                (_, None) => write_parts(list, [part]),
            }
        }
    }

    /// Returns what stands for the signature of a call that has none, for models that want one: the
    /// values that the guides of the Gemini API and of Vertex AI give for calls of other models.
    fn dummy_signature(&self) -> Option<&'static str> {
        self.gemini.filter(|it| it.is_third())?;
        let origin = self.question.origin;
        let is_vertex = origin.provider.contains("vertex") || origin.model.contains("publishers/");
        Some(if is_vertex {
            "skip_thought_signature_validator"
        } else {
            // `context_engineering_is_the_way_to_go` in base64, as signatures are.
            "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv"
        })
    }

    /// Writes what the tools said, and after it what they showed and could not hold themselves.
    fn write_results(&self, list: &mut List<'_>, exchange: &ToolExchange) {
        let is_third = self.gemini.is_some_and(Gemini::is_third);
        let within = |part: &Part| is_third && fits_within(part);
        write_content(list, "user", |parts| {
            for (call, result) in exchange.pairs() {
                parts.item(|out| write_response(out, call, result, within));
            }
            for (call, result) in exchange.pairs() {
                for part in media_of(result).filter(|part| !within(part)) {
                    parts.item(|out| {
                        value(out, &WirePart::text(format!("Shown by {}:", call.name)));
                    });
                    write_parts(parts, [part]);
                }
            }
        });
    }
}

impl TurnWriter for Writer<'_> {
    fn format(&self) -> ToolCallFormat {
        self.question.request.prompt.dialect
    }

    fn write_exchange(&self, list: &mut List<'_>, exchange: &ToolExchange, _meta: &TurnMeta) {
        self.write_message(list, exchange.reply());
        self.write_results(list, exchange);
    }

    fn write_exchange_as_text(&self, list: &mut List<'_>, exchange: &ToolExchange) {
        let text = react_text(exchange);
        write_content(list, "model", |parts| {
            parts.item(|out| value(out, &WirePart::text(text.reply)));
        });
        write_content(list, "user", |parts| {
            parts.item(|out| value(out, &WirePart::text(text.observations)));
            write_parts(parts, exchange.results().iter().flat_map(media_of));
        });
    }

    /// Writes nothing if nothing is left of the message.
    fn write_message(&self, list: &mut List<'_>, message: &Message) {
        if message.role() == Role::Assistant {
            write_content(list, "model", |parts| self.write_model_parts(parts, message));
        } else {
            write_content(list, "user", |parts| write_parts(parts, message.parts()));
        }
    }
}

/// Writes a content of parts; nothing if there are none.
fn write_content(list: &mut List<'_>, role: &str, write: impl FnOnce(&mut List<'_>)) {
    let mut parts = Vec::new();
    write(&mut List::new(&mut parts));
    if parts.is_empty() {
        return;
    }
    list.item(|out| {
        out.extend_from_slice(b"{\"role\":");
        value(out, role);
        out.extend_from_slice(b",\"parts\":[");
        out.extend_from_slice(&parts);
        out.extend_from_slice(b"]}");
    });
}

/// Writes parts as users say them.
fn write_parts<'p>(list: &mut List<'_>, parts: impl IntoIterator<Item = &'p Part>) {
    for part in parts.into_iter().filter_map(wire_part) {
        list.item(|out| value(out, &part));
    }
}

/// Writes a call.
fn write_call(out: &mut Vec<u8>, call: &ToolCall, signature: Option<&str>) {
    out.extend_from_slice(b"{\"functionCall\":{");
    write_name(out, call);
    key(out, "args");
    write_object(out, call);
    out.push(b'}');
    if let Some(signature) = signature {
        key(out, "thoughtSignature");
        value(out, signature);
    }
    out.push(b'}');
}

fn write_response(
    out: &mut Vec<u8>,
    call: &ToolCall,
    result: &ToolResult,
    within: impl Fn(&Part) -> bool,
) {
    out.extend_from_slice(b"{\"functionResponse\":{");
    write_name(out, call);
    key(out, "response");
    let said = if result.is_error { "error" } else { "output" };
    value(out, &json!({ said: result_text(result) }));
    let shown: Vec<_> = media_of(result).filter(|it| within(it)).filter_map(wire_part).collect();
    if !shown.is_empty() {
        key(out, "parts");
        value(out, &shown);
    }
    out.extend_from_slice(b"}}");
}

/// Writes the id of a call, if it has one, and its name.
fn write_name(out: &mut Vec<u8>, call: &ToolCall) {
    if let Some(id) = call.id.as_deref().filter(|id| !id.is_empty()) {
        out.extend_from_slice(b"\"id\":");
        value(out, id);
        out.push(b',');
    }
    out.extend_from_slice(b"\"name\":");
    value(out, &*call.name);
}

#[cfg(test)]
mod tests;
