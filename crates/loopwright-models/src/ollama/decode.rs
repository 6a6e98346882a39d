//! Decodes responses.

use std::sync::Arc;

use loopwright_core::{
    Delta, DeltaSink, ModelError, ModelErrorKind,
    messages::{
        Content, FinishReason, InferenceResponse, Message, ModelOrigin, Part, Role, ToolCall, Usage,
    },
};

use super::wire::{Line, Said};
use crate::{
    error::{ErrorContext, with_usage},
    lenient::Call,
};

/// An answer as far as it has been read.
///
/// Parts stand in the order in which they first appeared. All text is one part, and so is all
/// thinking: the wire has one field for each.
#[derive(Debug)]
pub(super) struct OllamaReading {
    origin: Arc<ModelOrigin>,
    pub(super) context: ErrorContext,
    pieces: Vec<Piece>,
    text: String,
    thinking: String,
    calls: u16,
    /// The last line's reason, which may be empty.
    pub(super) done: Option<String>,
    pub(super) usage: Option<Usage>,
}

#[derive(Debug)]
enum Piece {
    /// The text stands here.
    Text,
    /// The thinking stands here.
    Thinking,
    Call(Part),
}

impl OllamaReading {
    pub(super) fn new(origin: Arc<ModelOrigin>, context: ErrorContext) -> Self {
        Self {
            origin,
            context,
            pieces: Vec::new(),
            text: String::new(),
            thinking: String::new(),
            calls: 0,
            done: None,
            usage: None,
        }
    }

    /// Takes a line, or a whole body.
    pub(super) fn take(
        &mut self,
        text: &[u8],
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let line: Line<'_> = serde_json::from_slice(text).map_err(|error| {
            self.fail(if error.is_eof() {
                "the response was cut off"
            } else {
                "the response is not valid Ollama JSON"
            })
            .with_source(error)
        })?;
        if line.prompt_eval_count.0.is_some() || line.eval_count.0.is_some() {
            let [input, output] =
                [line.prompt_eval_count, line.eval_count].map(|it| it.0.unwrap_or(0));
            let usage = Usage::new(input, output);
            self.usage = Some(usage);
            deltas.push(Delta::Usage(usage));
        }
        if line.error.is_some_and(|error| !matches!(error.get(), "\"\"" | "{}" | "false")) {
            return Err(with_usage(self.context.of_body(text), self.usage));
        }
        if let Some(said) = &line.message {
            self.take_said(said, deltas)?;
        }
        if line.done == Some(true) {
            self.done = Some(line.done_reason.to_string());
        }
        Ok(())
    }

    fn take_said(&mut self, said: &Said<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        if !said.thinking.is_empty() {
            if self.thinking.is_empty() {
                self.pieces.push(Piece::Thinking);
            }
            self.thinking.push_str(&said.thinking);
            deltas.push(Delta::Reasoning(&said.thinking));
        }
        if !said.content.is_empty() {
            if self.text.is_empty() {
                self.pieces.push(Piece::Text);
            }
            self.text.push_str(&said.content);
            deltas.push(Delta::Text(&said.content));
        }
        said.tool_calls.iter().try_for_each(|call| self.take_call(call, deltas))
    }

    /// Takes a call, which is always whole.
    fn take_call(&mut self, call: &Call<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        let Some(function) = call.function.as_ref().filter(|it| !it.name.is_empty()) else {
            return Err(self.fail("the response calls a tool without a name"));
        };
        let (name, arguments) = (&*function.name, &*function.arguments.0);
        let id = Some(&*call.id).filter(|id| !id.is_empty());
        let index = self.calls;
        self.calls = self.calls.saturating_add(1);
        deltas.push(Delta::ToolCall { index, id, name });
        if !arguments.is_empty() {
            deltas.push(Delta::ToolArguments { index, fragment: arguments });
        }
        let id = id.map(Into::into);
        let call = ToolCall { id, name: name.into(), arguments: arguments.into() };
        self.pieces.push(Piece::Call(Part::new(Content::ToolCall(call))));
        Ok(())
    }

    /// Creates an error for a malformed response.
    pub(super) fn fail(&self, message: &str) -> ModelError {
        with_usage(self.context.error(ModelErrorKind::Protocol, message), self.usage)
    }

    /// Returns the answer, which is known to have ended.
    pub(super) fn end(self) -> InferenceResponse {
        let finish = match self.done.as_deref().unwrap_or_default() {
            "stop" | "" if self.calls > 0 => FinishReason::ToolCalls,
            "stop" => FinishReason::Stop,
            "length" => FinishReason::Length,
            "" => FinishReason::Other("unknown".into()),
            other => FinishReason::Other(other.into()),
        };
        let Self { origin, pieces, text, thinking, usage, .. } = self;
        let (mut text, mut thinking) = (Some(text), Some(thinking));
        let part = |piece| match piece {
            Piece::Text => text.take().map(Part::text),
            Piece::Thinking => thinking.take().map(Part::reasoning),
            Piece::Call(part) => Some(part),
        };
        let parts: Vec<Part> = pieces.into_iter().filter_map(part).collect();
        let message = Message::new(Role::Assistant, parts).with_origin(origin);
        let usage = usage.unwrap_or_default();
        InferenceResponse { message, finish_reason: finish, usage, cost: None, id: None }
    }
}

#[cfg(test)]
mod tests;
