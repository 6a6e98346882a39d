//! A response in progress.

use loopwright_core::{
    Delta, DeltaSink,
    messages::{Content, Media, MediaSource, Part, ProviderPayload, ToolCall},
};
use serde_json::{Map, Value, value::RawValue};

use super::{
    partial,
    wire::{FunctionCall, InlineData, WirePart},
};
use crate::{json::quoted, lenient::Few};

/// The provider's name for code that it runs itself.
const CODE: &str = "executableCode";

/// Builds a response from its parts, in their order.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pieces: Vec<Piece>,
    /// The provider's metadata about the response, which is never sent back.
    about: Vec<Part>,
    calls: u16,
    /// The index of the call whose arguments are incomplete.
    open: Option<usize>,
    /// Whether a call was incomplete when the model stopped.
    is_cut: bool,
    /// Whether the response contains code whose result has not arrived.
    awaits_result: bool,
}

#[derive(Debug)]
enum Piece {
    Run(Run),
    Call(OpenCall),
    Part(Part),
}

/// Consecutive fragments of text.
#[derive(Debug)]
struct Run {
    is_thought: bool,
    text: String,
    /// The pieces to send back, up to the last piece with a signature. Such a piece must not be joined with others.
    signed: Vec<String>,
    /// The length of the text in `signed`.
    signed_length: usize,
}

#[derive(Debug)]
struct OpenCall {
    index: u16,
    id: String,
    name: String,
    arguments: Map<String, Value>,
    signature: String,
}

/// Whether all arguments of a call have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arguments {
    Complete,
    Cut,
}

/// How the parts of a response relate to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// Each part is complete.
    Whole,
    /// A text part can continue the previous text.
    Fragments,
}

impl Answer {
    /// Adds a part and emits its deltas.
    ///
    /// # Errors
    ///
    /// Returns a description of the part if it is malformed.
    pub(super) fn take(
        &mut self,
        part: &WirePart<'_>,
        parts: Parts,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), &'static str> {
        let fields = &part.fields;
        if let Some(call) = &fields.function_call {
            return self.take_call(call, part, deltas);
        }
        if let Some(text) = &fields.text {
            self.take_text(text, part, parts, deltas);
            return Ok(());
        }
        match (&fields.inline_data, other_field(part.raw)) {
            (Some(data), _) if fields.thought != Some(true) => {
                self.pieces.push(Piece::Part(media(data, part)));
            }
            (_, Some(kind)) => self.take_other(&kind, part.raw),
            (_, None) => self.take_text("", part, parts, deltas),
        }
        Ok(())
    }

    /// Adds the provider's metadata about the response, such as its sources.
    pub(super) fn take_about(&mut self, kind: &str, raw: Option<&RawValue>) {
        let Some(raw) = raw.map(RawValue::get).filter(|raw| !matches!(*raw, "{}" | "[]")) else {
            return;
        };
        let part = provider_part(kind, raw);
        if !self.about.contains(&part) {
            self.about.push(part);
        }
    }

    /// Records that the model stopped.
    pub(super) fn stop(&mut self, deltas: &mut dyn DeltaSink) {
        self.is_cut |= self.open.is_some();
        self.close(Arguments::Cut, deltas);
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Returns `true` if the model stopped before a call or the result of its code was complete.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut || self.awaits_result
    }

    /// Returns the parts of the message.
    pub(super) fn into_parts(self) -> Vec<Part> {
        let part = |piece| match piece {
            Piece::Run(run) => Some(run.into_part()),
            Piece::Part(part) => Some(part),
            Piece::Call(_) => None,
        };
        self.pieces.into_iter().filter_map(part).chain(self.about).collect()
    }

    fn take_text(
        &mut self,
        text: &str,
        part: &WirePart<'_>,
        parts: Parts,
        deltas: &mut dyn DeltaSink,
    ) {
        let is_thought = part.fields.thought == Some(true);
        let is_signed = !part.fields.thought_signature.is_empty();
        if text.is_empty() && !is_signed {
            return;
        }
        if !text.is_empty() {
            self.awaits_result = false;
            deltas.push(if is_thought { Delta::Reasoning(text) } else { Delta::Text(text) });
        }
        let last = self.pieces.last_mut();
        let run = match last {
            Some(Piece::Run(run)) if parts == Parts::Fragments && run.is_thought == is_thought => {
                run
            }
            _ => {
                self.pieces.push(Piece::Run(Run::new(is_thought)));
                match self.pieces.last_mut() {
                    Some(Piece::Run(run)) => run,
                    _ => return,
                }
            }
        };
        if is_signed {
            run.sign_rest();
            run.signed.push(part.raw.to_owned());
        }
        run.text.push_str(text);
        if is_signed {
            run.signed_length = run.text.len();
        }
    }

    /// Adds a part that only the provider understands.
    fn take_other(&mut self, kind: &str, raw: &str) {
        self.awaits_result = kind == CODE;
        self.pieces.push(Piece::Part(provider_part(kind, raw)));
    }

    fn take_call(
        &mut self,
        call: &FunctionCall<'_>,
        part: &WirePart<'_>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), &'static str> {
        self.awaits_result = false;
        if !call.name.is_empty() {
            self.close(Arguments::Complete, deltas);
            let continues = call.will_continue == Some(true);
            if !continues && call.partial_args.is_none() {
                self.take_whole_call(call, part, deltas);
                return Ok(());
            }
            self.begin(call, part, deltas);
        } else if self.open.is_none() {
            return Err("the response calls a tool without a name");
        }
        self.go_on(call, part)?;
        if call.will_continue != Some(true) {
            self.close(Arguments::Complete, deltas);
        }
        Ok(())
    }

    fn take_whole_call(
        &mut self,
        call: &FunctionCall<'_>,
        part: &WirePart<'_>,
        deltas: &mut dyn DeltaSink,
    ) {
        let arguments = call.args.map_or("", RawValue::get);
        let index = self.pass_on_call(call, deltas);
        if !arguments.is_empty() {
            deltas.push(Delta::ToolArguments { index, fragment: arguments });
        }
        let call = tool_call(&call.id, &call.name, arguments);
        let is_signed = !part.fields.thought_signature.is_empty();
        self.pieces.push(Piece::Part(sealed(call, is_signed.then_some(part.raw))));
    }

    /// Emits the start of a call, and returns its number.
    fn pass_on_call(&mut self, call: &FunctionCall<'_>, deltas: &mut dyn DeltaSink) -> u16 {
        let index = self.calls;
        self.calls = self.calls.saturating_add(1);
        let id = Some(&*call.id).filter(|id| !id.is_empty());
        deltas.push(Delta::ToolCall { index, id, name: &call.name });
        index
    }

    fn begin(&mut self, call: &FunctionCall<'_>, part: &WirePart<'_>, deltas: &mut dyn DeltaSink) {
        let open = OpenCall {
            index: self.pass_on_call(call, deltas),
            id: call.id.to_string(),
            name: call.name.to_string(),
            arguments: Map::new(),
            signature: part.fields.thought_signature.to_string(),
        };
        self.open = Some(self.pieces.len());
        self.pieces.push(Piece::Call(open));
    }

    /// Adds arguments to the open call.
    fn go_on(&mut self, call: &FunctionCall<'_>, part: &WirePart<'_>) -> Result<(), &'static str> {
        const NONSENSE: &str = "the arguments of a tool call are malformed";
        let Some(Piece::Call(open)) = self.open.and_then(|at| self.pieces.get_mut(at)) else {
            return Ok(());
        };
        if open.signature.is_empty() {
            open.signature.push_str(&part.fields.thought_signature);
        }
        if let Some(args) = call.args {
            let args: Map<String, Value> =
                serde_json::from_str(args.get()).map_err(|_| NONSENSE)?;
            open.arguments.extend(args);
        }
        for arg in call.partial_args.iter().flat_map(Few::iter) {
            partial::put(&mut open.arguments, arg).ok_or(NONSENSE)?;
        }
        Ok(())
    }

    /// Completes the open call, if there is one.
    fn close(&mut self, completeness: Arguments, deltas: &mut dyn DeltaSink) {
        let Some(piece) = self.open.take().and_then(|at| self.pieces.get_mut(at)) else { return };
        let Piece::Call(OpenCall { index, id, name, arguments, signature }) = piece else { return };
        let mut arguments = Value::Object(std::mem::take(arguments)).to_string();
        if completeness == Arguments::Cut {
            // Incomplete arguments must not look complete, so make them invalid JSON.
            arguments.pop();
        }
        deltas.push(Delta::ToolArguments { index: *index, fragment: &arguments });
        let call = tool_call(id, name, &arguments);
        let is_signed = completeness == Arguments::Complete && !signature.is_empty();
        let raw = is_signed.then(|| {
            let id = if id.is_empty() { String::new() } else { format!("\"id\":{},", quoted(id)) };
            format!(
                "{{\"functionCall\":{{{id}\"name\":{},\"args\":{arguments}}},\
                 \"thoughtSignature\":{}}}",
                quoted(name),
                quoted(signature)
            )
        });
        *piece = Piece::Part(sealed(call, raw.as_deref()));
    }
}

impl Run {
    fn new(is_thought: bool) -> Self {
        Self { is_thought, text: String::new(), signed: Vec::new(), signed_length: 0 }
    }

    /// Stores the text since the last signature as one piece to send back.
    fn sign_rest(&mut self) {
        let rest = &self.text[self.signed_length..];
        if !rest.is_empty() {
            let thought = if self.is_thought { ",\"thought\":true" } else { "" };
            self.signed.push(format!("{{\"text\":{}{thought}}}", quoted(rest)));
            self.signed_length = self.text.len();
        }
    }

    fn into_part(mut self) -> Part {
        if !self.signed.is_empty() {
            self.sign_rest();
        }
        let part = if self.is_thought { Part::reasoning(self.text) } else { Part::text(self.text) };
        match self.signed.as_slice() {
            [] => part,
            [one] => part.with_provider_payload(ProviderPayload::new(one.as_str())),
            several => {
                part.with_provider_payload(ProviderPayload::new(format!("[{}]", several.join(","))))
            }
        }
    }
}

/// Returns the field that names the kind of a part, if the kind is unknown.
fn other_field(raw: &str) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_str(raw).ok()?;
    fields.into_iter().map(|it| it.0).find(|name| !name.starts_with("thought") && name != "text")
}

fn provider_part(kind: &str, raw: &str) -> Part {
    Part::new(Content::Provider { kind: kind.into() })
        .with_provider_payload(ProviderPayload::new(raw))
}

fn media(data: &InlineData<'_>, part: &WirePart<'_>) -> Part {
    let source = MediaSource::Base64((&*data.data).into());
    let media = Media { mime: (&*data.mime_type).into(), source, name: None };
    let is_signed = !part.fields.thought_signature.is_empty();
    let content = if media.mime.starts_with("image/") {
        Content::Image(media)
    } else {
        Content::Document(media)
    };
    sealed(Part::new(content), is_signed.then_some(part.raw))
}

fn tool_call(id: &str, name: &str, arguments: &str) -> Part {
    let id = Some(id).filter(|id| !id.is_empty()).map(Into::into);
    let call = ToolCall { id, name: name.into(), arguments: arguments.into() };
    Part::new(Content::ToolCall(call))
}

fn sealed(part: Part, raw: Option<&str>) -> Part {
    match raw {
        Some(raw) => part.with_provider_payload(ProviderPayload::new(raw)),
        None => part,
    }
}
