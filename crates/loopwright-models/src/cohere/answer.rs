//! A response in progress.

use loopwright_core::{
    Delta, DeltaSink,
    messages::{Content, Part, ProviderPayload, ToolCall},
};
use serde_json::value::RawValue;

use super::wire::{Block, Said, each};
use crate::{json::quoted, lenient::Call};

/// The kind of the part that holds the model's plan for using tools.
pub(super) const TOOL_PLAN: &str = "tool_plan";
/// The kind of the part that holds citations of a message without text.
pub(super) const CITATIONS: &str = "citations";

/// Builds a response from its pieces, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pieces: Vec<Piece>,
    /// Whether the next text starts a new block.
    is_new: bool,
    citations: Vec<String>,
    calls: u16,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Thinking(String),
    /// The model's plan for using tools, which is neither reasoning nor text.
    Plan(String),
    Call(OpenCall),
}

#[derive(Debug)]
struct OpenCall {
    position: u16,
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Answer {
    /// Starts another block of content.
    pub(super) fn begin_block(&mut self) {
        self.is_new = true;
    }

    /// Adds what the model sent, except tool calls.
    ///
    /// # Errors
    ///
    /// Returns an error if a field is malformed.
    pub(super) fn take(
        &mut self,
        said: &Said<'_>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), serde_json::Error> {
        if !said.tool_plan.is_empty() {
            match self.pieces.last_mut() {
                Some(Piece::Plan(plan)) => plan.push_str(&said.tool_plan),
                _ => self.pieces.push(Piece::Plan(said.tool_plan.to_string())),
            }
        }
        let is_text = said.content.is_some_and(|raw| raw.get().starts_with('"'));
        if is_text {
            let texts: Vec<String> = each(said.content)?;
            for text in &texts {
                self.take_text(text, deltas);
            }
        } else {
            for block in each::<Block<'_>>(said.content)? {
                self.take_thinking(&block.thinking, deltas);
                self.take_text(&block.text, deltas);
            }
        }
        let citations = each::<&RawValue>(said.citations)?;
        self.citations.extend(citations.iter().map(|it| it.get().to_owned()));
        Ok(())
    }

    fn take_text(&mut self, text: &str, deltas: &mut dyn DeltaSink) {
        if text.is_empty() {
            return;
        }
        deltas.push(Delta::Text(text));
        match self.pieces.last_mut() {
            Some(Piece::Text(so_far)) if !self.is_new => so_far.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
        self.is_new = false;
    }

    fn take_thinking(&mut self, text: &str, deltas: &mut dyn DeltaSink) {
        if text.is_empty() {
            return;
        }
        deltas.push(Delta::Reasoning(text));
        match self.pieces.last_mut() {
            Some(Piece::Thinking(so_far)) if !self.is_new => so_far.push_str(text),
            _ => self.pieces.push(Piece::Thinking(text.to_owned())),
        }
        self.is_new = false;
    }

    /// Starts the tool calls of an event.
    ///
    /// # Errors
    ///
    /// Returns an error if a call is malformed.
    pub(super) fn begin_calls(
        &mut self,
        calls: Option<&RawValue>,
        index: Option<u64>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), serde_json::Error> {
        for call in each::<Call<'_>>(calls)? {
            let function = call.function.unwrap_or_default();
            let mut open = OpenCall {
                position: self.calls,
                index,
                id: call.id.to_string(),
                name: function.name.to_string(),
                arguments: String::new(),
            };
            self.calls = self.calls.saturating_add(1);
            let id = Some(&*open.id).filter(|id| !id.is_empty());
            deltas.push(Delta::ToolCall { index: open.position, id, name: &open.name });
            open.take(&function.arguments.0, deltas);
            self.pieces.push(Piece::Call(open));
        }
        Ok(())
    }

    /// Adds arguments to a call. Returns `false` if the call does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if a call is malformed.
    pub(super) fn continue_call(
        &mut self,
        calls: Option<&RawValue>,
        index: Option<u64>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<bool, serde_json::Error> {
        for more in each::<Call<'_>>(calls)? {
            let mut open = self.pieces.iter_mut().rev().filter_map(Piece::as_call);
            let Some(open) = open.find(|it| index.is_none() || it.index == index) else {
                return Ok(false);
            };
            open.take(&more.function.unwrap_or_default().arguments.0, deltas);
        }
        Ok(true)
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Returns `true` if a call has no name. Such a fragment is not a call.
    pub(super) fn has_nameless_call(&self) -> bool {
        self.calls().any(|call| call.name.is_empty())
    }

    /// Returns `true` if the arguments of all calls are complete JSON. Empty arguments count as complete.
    pub(super) fn has_whole_arguments(&self) -> bool {
        let is_whole = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        self.calls().all(|call| call.arguments.trim().is_empty() || is_whole(&call.arguments))
    }

    fn calls(&self) -> impl Iterator<Item = &OpenCall> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the parts of the message. The citations are attached to the last text.
    pub(super) fn into_parts(self) -> Vec<Part> {
        let Self { pieces, citations, .. } = self;
        let citations = (!citations.is_empty()).then(|| {
            ProviderPayload::new(format!("{{\"{CITATIONS}\":[{}]}}", citations.join(",")))
        });
        let last = pieces.iter().rposition(|it| matches!(it, Piece::Text(_)));
        let mut parts: Vec<Part> = pieces.into_iter().map(Piece::into_part).collect();
        match (citations, last) {
            (Some(opaque), Some(last)) => {
                parts[last] = parts[last].clone().with_provider_payload(opaque);
            }
            (Some(opaque), None) => {
                let content = Content::Provider { kind: CITATIONS.into() };
                parts.push(Part::new(content).with_provider_payload(opaque));
            }
            (None, _) => {}
        }
        parts
    }
}

impl Piece {
    fn as_call(&mut self) -> Option<&mut OpenCall> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }

    fn into_part(self) -> Part {
        match self {
            Self::Text(text) => Part::text(text),
            Self::Thinking(text) => {
                let opaque = format!("{{\"type\":\"thinking\",\"thinking\":{}}}", quoted(&text));
                Part::reasoning(text).with_provider_payload(ProviderPayload::new(opaque))
            }
            Self::Plan(plan) => {
                let opaque = format!("{{\"{TOOL_PLAN}\":{}}}", quoted(&plan));
                let content = Content::Provider { kind: TOOL_PLAN.into() };
                Part::new(content).with_provider_payload(ProviderPayload::new(opaque))
            }
            Self::Call(OpenCall { id, name, arguments, .. }) => {
                let id = Some(id).filter(|id| !id.is_empty()).map(Into::into);
                let (name, arguments) = (name.into(), arguments.into());
                Part::new(Content::ToolCall(ToolCall { id, name, arguments }))
            }
        }
    }
}

impl OpenCall {
    fn take(&mut self, arguments: &str, deltas: &mut dyn DeltaSink) {
        if !arguments.is_empty() {
            self.arguments.push_str(arguments);
            deltas.push(Delta::ToolArguments { index: self.position, fragment: arguments });
        }
    }
}
