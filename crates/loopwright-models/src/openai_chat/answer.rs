//! A response in progress.

use std::{fmt::Write as _, sync::Arc};

use loopwright_core::{
    Delta, DeltaSink,
    messages::{Content, Part, ProviderPayload, ToolCall},
};
use serde_json::{Map, Value, value::RawValue};

use super::wire::{Call, Content as WireContent, ContentPart, Detail, Said};
use crate::{json::quoted as json, lenient::Function};

/// Builds a response from the pieces that the model sends.
///
/// The parts are in the order of their first appearance. All text is one part, and so is all reasoning of the
/// reasoning fields, because the API has one field for each. If a provider lists thinking and text as parts of the
/// content, they stay separate.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pieces: Vec<Piece>,
    /// The index of the part to which text is appended.
    text: Option<usize>,
    reasoning: Option<Reasoning>,
    refusal: String,
    calls: Vec<OpenCall>,
    /// Fields of the message that only the provider understands.
    own: Map<String, Value>,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    /// The text of the reasoning fields.
    Reasoning,
    /// The refusal.
    Refusal,
    /// The next call.
    Call,
}

#[derive(Debug)]
struct Reasoning {
    /// The field that it was received in, and in which it is sent back.
    field: &'static str,
    text: String,
    details: Vec<OpenDetail>,
    /// The text of the details, used if there is no other reasoning.
    detail_text: String,
}

/// A reasoning detail, possibly in fragments.
#[derive(Debug)]
struct OpenDetail {
    index: Option<i64>,
    /// The provider's own form, while there is only one fragment.
    whole: Option<String>,
    kind: String,
    id: String,
    format: String,
    text: String,
    summary: String,
    data: String,
    signature: String,
}

#[derive(Debug, Default)]
struct OpenCall {
    position: u16,
    key: Option<i64>,
    id: String,
    name: String,
    arguments: String,
    extra: Option<String>,
    is_custom: bool,
}

/// How the entries of a list of calls relate to the earlier calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entries {
    /// Each entry is a complete call.
    Whole,
    /// Each entry starts a call or continues one.
    Fragments,
}

impl Answer {
    /// Adds what the model sent and emits its deltas.
    ///
    /// # Errors
    ///
    /// Returns an error if a piece of reasoning is malformed.
    pub(crate) fn take(
        &mut self,
        said: &Said<'_>,
        entries: Entries,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), serde_json::Error> {
        let (field, text) = match &*said.reasoning_content {
            "" => ("reasoning", &*said.reasoning),
            text => ("reasoning_content", text),
        };
        if !text.is_empty() {
            self.reasoning(field).text.push_str(text);
            deltas.push(Delta::Reasoning(text));
        }
        for raw in said.reasoning_details.iter() {
            self.take_detail(raw, text.is_empty(), deltas)?;
        }
        match &said.content {
            WireContent::Text(text) => self.take_text(text, deltas),
            WireContent::Parts(parts) => {
                for part in parts {
                    self.take_part(part, deltas);
                }
            }
        }
        self.take_refusal(&said.refusal);
        for call in said.tool_calls.iter() {
            self.take_call(call, entries, deltas);
        }
        if let Some(function) = &said.function_call {
            self.take_function(function, deltas);
        }
        if let Some(raw) = said.extra_content {
            self.take_own("extra_content", serde_json::from_str(raw.get())?);
        }
        if !said.thought_signature.is_empty() {
            self.take_own("thought_signature", (*said.thought_signature).into());
        }
        Ok(())
    }

    /// Adds a field that only the provider understands. A stream sends it once, or in pieces.
    fn take_own(&mut self, name: &str, value: Value) {
        if !matches!(&value, Value::Object(fields) if fields.is_empty()) && !value.is_null() {
            merge(self.own.entry(name).or_insert(Value::Null), value);
        }
    }

    /// Returns `true` if nothing was received.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn has_text(&self) -> bool {
        self.text.is_some() || self.pieces.iter().any(|it| matches!(it, Piece::Text(_)))
    }

    pub(crate) fn has_refusal(&self) -> bool {
        !self.refusal.is_empty()
    }

    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Returns `true` if a call has no name. Such a fragment is not a call.
    pub(crate) fn has_nameless_call(&self) -> bool {
        self.calls.iter().any(|call| call.name.is_empty())
    }

    /// Returns `true` if the arguments of all calls are complete JSON.
    pub(crate) fn has_whole_arguments(&self) -> bool {
        self.calls.iter().all(|call| call.is_custom || is_whole_json(&call.arguments))
    }

    /// Returns the parts of the message.
    pub(crate) fn into_parts(self) -> Vec<Part> {
        let Self { pieces, mut reasoning, refusal, calls, own, .. } = self;
        let (refusal, mut calls): (Arc<str>, _) = (refusal.into(), calls.into_iter());
        let part = |piece| match piece {
            Piece::Text(text) => Some(Part::text(text)),
            Piece::Thinking { text, signature } => Some(thinking_part(text, &signature)),
            Piece::Reasoning => reasoning.take().map(Reasoning::into_part),
            Piece::Refusal => Some(Part::new(Content::Refusal(Arc::clone(&refusal)))),
            Piece::Call => calls.next().map(OpenCall::into_part),
        };
        let mut parts: Vec<Part> = pieces.into_iter().filter_map(part).collect();
        if !own.is_empty() {
            let opaque = ProviderPayload::new(Value::Object(own).to_string());
            // The field is attached to the text, if there is any.
            if let Some(text) = parts.iter_mut().rfind(|part| part.as_text().is_some()) {
                *text = text.clone().with_provider_payload(opaque);
            } else {
                let content = Content::Provider { kind: "extra_content".into() };
                parts.push(Part::new(content).with_provider_payload(opaque));
            }
        }
        parts
    }

    fn take_text(&mut self, text: &str, deltas: &mut dyn DeltaSink) {
        if text.is_empty() {
            return;
        }
        deltas.push(Delta::Text(text));
        if let Some(Piece::Text(so_far)) = self.text.and_then(|at| self.pieces.get_mut(at)) {
            so_far.push_str(text);
        } else {
            self.text = Some(self.pieces.len());
            self.pieces.push(Piece::Text(text.to_owned()));
        }
    }

    fn take_refusal(&mut self, text: &str) {
        if self.refusal.is_empty() && !text.is_empty() {
            self.pieces.push(Piece::Refusal);
        }
        self.refusal.push_str(text);
    }

    fn take_part(&mut self, part: &ContentPart<'_>, deltas: &mut dyn DeltaSink) {
        match &*part.kind {
            "thinking" => self.take_thinking(part, deltas),
            "refusal" => self.take_refusal(&part.refusal),
            _ => self.take_text(&part.text, deltas),
        }
    }

    fn take_thinking(&mut self, part: &ContentPart<'_>, deltas: &mut dyn DeltaSink) {
        if !matches!(self.pieces.last(), Some(Piece::Thinking { .. })) {
            self.pieces.push(Piece::Thinking { text: String::new(), signature: String::new() });
            self.text = None;
        }
        let Some(Piece::Thinking { text, signature }) = self.pieces.last_mut() else { return };
        signature.push_str(&part.signature);
        let mut take = |more: &str| {
            if !more.is_empty() {
                text.push_str(more);
                deltas.push(Delta::Reasoning(more));
            }
        };
        match &part.thinking {
            WireContent::Text(more) => take(more),
            WireContent::Parts(parts) => parts.iter().for_each(|part| take(&part.text)),
        }
    }

    fn reasoning(&mut self, field: &'static str) -> &mut Reasoning {
        self.reasoning.get_or_insert_with(|| {
            self.pieces.push(Piece::Reasoning);
            Reasoning::new(field)
        })
    }

    fn take_detail(
        &mut self,
        raw: &RawValue,
        is_alone: bool,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), serde_json::Error> {
        let detail: Detail<'_> = serde_json::from_str(raw.get())?;
        let more = if detail.text.is_empty() { &detail.summary } else { &detail.text };
        let reasoning = self.reasoning("reasoning");
        if is_alone && !more.is_empty() {
            reasoning.detail_text.push_str(more);
            if reasoning.text.is_empty() {
                deltas.push(Delta::Reasoning(more));
            }
        }
        match reasoning.details.last_mut() {
            Some(open) if open.continues_with(&detail) => open.take(&detail),
            _ => reasoning.details.push(OpenDetail::begin(&detail, raw.get())),
        }
        Ok(())
    }

    fn take_call(&mut self, call: &Call<'_>, entries: Entries, deltas: &mut dyn DeltaSink) {
        let function = call.function.as_ref();
        let custom = call.custom.as_ref().filter(|it| !it.name.is_empty() || function.is_none());
        let (name, arguments) = match (custom, function) {
            (Some(custom), _) => (&*custom.name, &*custom.input),
            (None, Some(function)) => (&*function.name, &*function.arguments.0),
            (None, None) => ("", ""),
        };
        let at = match entries {
            Entries::Whole => None,
            Entries::Fragments => self.call_of(call.index, &call.id, name, arguments),
        };
        if at.is_none() && call.id.is_empty() && name.is_empty() && arguments.is_empty() {
            return;
        }
        let extra = call.extra_content.map(RawValue::get);
        let open = self.open_call(at, call.index);
        open.is_custom |= custom.is_some();
        if open.extra.is_none() {
            open.extra = extra.map(str::to_owned);
        }
        open.take(&call.id, name, arguments, deltas);
    }

    /// Adds a call in the older form, which has no list of calls.
    fn take_function(&mut self, function: &Function<'_>, deltas: &mut dyn DeltaSink) {
        const KEY: Option<i64> = Some(-1);
        let at = self.position_of(|call| call.key == KEY);
        if at.is_none() && function.name.is_empty() {
            return;
        }
        self.open_call(at, KEY).take("", &function.name, &function.arguments.0, deltas);
    }

    /// Finds the call that a fragment continues.
    ///
    /// Calls are identified by their index. If the index is missing or used twice, they are identified by ID. If
    /// IDs are missing as well, a name and arguments after complete arguments start another call.
    fn call_of(&self, index: Option<i64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        let at = match index {
            Some(_) => self.position_of(|call| call.key == index)?,
            None if id.is_empty() => self.position_of(|_| true)?,
            None => return self.position_of(|call| call.id == id),
        };
        let open = &self.calls[at];
        if name.is_empty() {
            return Some(at);
        }
        if !id.is_empty() && !open.id.is_empty() && open.id != id {
            return self.position_of(|call| call.key == index && call.id == id);
        }
        let is_whole = !arguments.is_empty()
            && (id.is_empty() || open.id.is_empty())
            && open.arguments.ends_with(['}', ' ', '\n'])
            && is_whole_json(&open.arguments);
        (!is_whole).then_some(at)
    }

    fn position_of(&self, is_it: impl Fn(&OpenCall) -> bool) -> Option<usize> {
        self.calls.iter().rposition(is_it)
    }

    fn open_call(&mut self, at: Option<usize>, key: Option<i64>) -> &mut OpenCall {
        let at = at.unwrap_or_else(|| {
            let position = u16::try_from(self.calls.len()).unwrap_or(u16::MAX);
            self.calls.push(OpenCall { position, key, ..OpenCall::default() });
            self.pieces.push(Piece::Call);
            self.calls.len() - 1
        });
        &mut self.calls[at]
    }
}

/// Returns `true` if a text is complete JSON. An empty text counts as an empty object.
fn is_whole_json(text: &str) -> bool {
    text.trim().is_empty() || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

impl OpenCall {
    fn take(&mut self, id: &str, name: &str, arguments: &str, deltas: &mut dyn DeltaSink) {
        let index = self.position;
        if self.id.is_empty() {
            id.clone_into(&mut self.id);
        }
        let is_named = !self.name.is_empty();
        if !is_named && !name.is_empty() {
            name.clone_into(&mut self.name);
            deltas.push(Delta::ToolCall { index, id: some(&self.id), name });
            // Arguments that came before the name were held back.
            if !self.arguments.is_empty() {
                deltas.push(Delta::ToolArguments { index, fragment: &self.arguments });
            }
        }
        if !arguments.is_empty() {
            self.arguments.push_str(arguments);
            if !self.name.is_empty() {
                deltas.push(Delta::ToolArguments { index, fragment: arguments });
            }
        }
    }

    fn into_part(self) -> Part {
        let id = some(&self.id).map(Into::into);
        let (name, arguments) = (self.name.into(), self.arguments.into());
        let part = Part::new(Content::ToolCall(ToolCall { id, name, arguments }));
        match (self.is_custom, self.extra) {
            (true, _) => part.with_provider_payload(ProviderPayload::new(r#"{"type":"custom"}"#)),
            (false, Some(extra)) => part.with_provider_payload(ProviderPayload::new(format!(
                r#"{{"extra_content":{extra}}}"#
            ))),
            (false, None) => part,
        }
    }
}

impl Reasoning {
    fn new(field: &'static str) -> Self {
        Self { field, text: String::new(), details: Vec::new(), detail_text: String::new() }
    }

    fn into_part(self) -> Part {
        let opaque = if self.details.is_empty() {
            format!("{{\"{}\":{}}}", self.field, json(&self.text))
        } else {
            let details: Vec<String> =
                self.details.into_iter().map(OpenDetail::into_json).collect();
            format!("{{\"reasoning_details\":[{}]}}", details.join(","))
        };
        let text = if self.text.is_empty() { self.detail_text } else { self.text };
        Part::reasoning(text).with_provider_payload(ProviderPayload::new(opaque))
    }
}

impl OpenDetail {
    fn begin(detail: &Detail<'_>, whole: &str) -> Self {
        Self {
            index: detail.index,
            whole: Some(whole.to_owned()),
            kind: detail.kind.to_string(),
            id: detail.id.to_string(),
            format: detail.format.to_string(),
            text: detail.text.to_string(),
            summary: detail.summary.to_string(),
            data: detail.data.to_string(),
            signature: detail.signature.to_string(),
        }
    }

    fn continues_with(&self, more: &Detail<'_>) -> bool {
        self.index.is_some()
            && self.index == more.index
            && self.kind == *more.kind
            && (more.id.is_empty() || self.id.is_empty() || self.id == *more.id)
    }

    fn take(&mut self, more: &Detail<'_>) {
        self.whole = None;
        self.text.push_str(&more.text);
        self.summary.push_str(&more.summary);
        self.data.push_str(&more.data);
        for (field, more) in [
            (&mut self.signature, &more.signature),
            (&mut self.id, &more.id),
            (&mut self.format, &more.format),
        ] {
            if !more.is_empty() {
                (**more).clone_into(field);
            }
        }
    }

    fn into_json(self) -> String {
        if let Some(whole) = self.whole {
            return whole;
        }
        let mut object = format!("{{\"type\":{}", json(&self.kind));
        for (name, value) in [
            ("text", &self.text),
            ("summary", &self.summary),
            ("data", &self.data),
            ("signature", &self.signature),
            ("id", &self.id),
            ("format", &self.format),
        ] {
            if !value.is_empty() {
                let _ = write!(object, ",\"{name}\":{}", json(value));
            }
        }
        if let Some(index) = self.index {
            let _ = write!(object, ",\"index\":{index}");
        }
        object + "}"
    }
}

fn thinking_part(text: String, signature: &str) -> Part {
    let signature = match signature {
        "" => String::new(),
        signature => format!(",\"signature\":{}", json(signature)),
    };
    let opaque = format!(
        r#"{{"type":"thinking","thinking":[{{"type":"text","text":{}}}]{signature}}}"#,
        json(&text)
    );
    Part::reasoning(text).with_provider_payload(ProviderPayload::new(opaque))
}

/// Merges a value into another one: adds the fields of objects, and replaces anything else.
fn merge(into: &mut Value, value: Value) {
    match (into, value) {
        (Value::Object(fields), Value::Object(more)) => {
            for (name, value) in more {
                merge(fields.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value,
    }
}

fn some(text: &str) -> Option<&str> {
    Some(text).filter(|it| !it.is_empty())
}
