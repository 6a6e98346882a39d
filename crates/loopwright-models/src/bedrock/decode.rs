//! Decodes responses.

use std::sync::Arc;

use loopwright_core::{
    DeltaSink, ModelError, ModelErrorKind,
    messages::{FinishReason, InferenceResponse, Message, ModelOrigin, Part, Role, Usage},
};
use serde_json::value::RawValue;

use super::{
    block::Block,
    wire::{WireDelta, WireUsage},
};
use crate::{
    error::{ErrorContext, with_usage},
    object::Object,
};

/// An answer as far as it has been read.
#[derive(Debug)]
pub(super) struct ConverseReading {
    origin: Arc<ModelOrigin>,
    pub(super) context: ErrorContext,
    /// The blocks in the order in which they began, each with the number it goes by.
    blocks: Vec<(Option<u64>, Block)>,
    calls: u16,
    /// Why the model stopped, once that was said.
    pub(super) stop_reason: Option<String>,
    pub(super) counts: Option<Usage>,
}

impl ConverseReading {
    pub(super) fn new(origin: Arc<ModelOrigin>, context: ErrorContext) -> Self {
        let (blocks, calls, stop_reason, counts) = Default::default();
        Self { origin, context, blocks, calls, stop_reason, counts }
    }

    /// Begins a block that a stream announces.
    pub(super) fn begin(
        &mut self,
        index: Option<u64>,
        start: &Object<'_>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        match Block::begin(start, self.calls, deltas) {
            Some(block) => self.put(index, block),
            // Blocks of words may be announced too, by nothing.
            None => Ok(()),
        }
    }

    /// Takes a block of a whole answer.
    pub(super) fn take(&mut self, raw: &RawValue) -> Result<(), ModelError> {
        match Block::whole(raw, self.calls) {
            Some(block) => self.put(None, block),
            None => Err(self.fail("a block of the response is malformed")),
        }
    }

    fn put(&mut self, index: Option<u64>, block: Block) -> Result<(), ModelError> {
        if block.is_nameless_call() {
            return Err(self.fail("the response calls a tool without a name"));
        }
        self.calls = self.calls.saturating_add(block.is_call().into());
        self.blocks.push((index, block));
        Ok(())
    }

    /// Adds to a block; blocks of words begin without being announced.
    pub(super) fn add(
        &mut self,
        index: Option<u64>,
        delta: &WireDelta<'_>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        if self.block(index).is_none() {
            match Block::unannounced(delta) {
                Some(block) => self.put(index, block)?,
                None if delta.tool_use.is_some() => {
                    return Err(self.fail("the response continues a call that it did not start"));
                }
                None => return Ok(()),
            }
        }
        if let Some(block) = self.block(index) {
            block.add(delta, deltas);
        }
        Ok(())
    }

    /// Returns the latest block of this number.
    fn block(&mut self, index: Option<u64>) -> Option<&mut Block> {
        let mut blocks = self.blocks.iter_mut().rev();
        blocks.find(|(it, _)| *it == index).map(|(_, block)| block)
    }

    pub(super) fn take_usage(&mut self, raw: Option<&RawValue>) {
        self.counts = raw.and_then(WireUsage::read).or(self.counts);
    }

    /// Creates an error for a malformed response.
    pub(super) fn fail(&self, message: &str) -> ModelError {
        with_usage(self.context.error(ModelErrorKind::Protocol, message), self.counts)
    }

    /// Makes an error of text that is not what the wire says.
    pub(super) fn unreadable(&self, error: serde_json::Error) -> ModelError {
        let message = if error.is_eof() {
            "the response was cut off"
        } else {
            "the response is not valid Converse JSON"
        };
        self.fail(message).with_source(error)
    }

    /// Returns the answer, which is known to have ended.
    pub(super) fn into_response(self) -> Result<InferenceResponse, ModelError> {
        let finish = self.finish_reason()?;
        let usage = self.counts.unwrap_or_default();
        let parts: Vec<Part> =
            self.blocks.into_iter().filter_map(|(_, block)| block.into_part()).collect();
        let message = Message::new(Role::Assistant, parts).with_origin(self.origin);
        Ok(InferenceResponse { message, finish_reason: finish, usage, cost: None, id: None })
    }

    fn finish_reason(&self) -> Result<FinishReason, ModelError> {
        Ok(match self.stop_reason.as_deref().unwrap_or_default() {
            "end_turn" | "stop_sequence" | "tool_use" | "" if self.calls > 0 => {
                FinishReason::ToolCalls
            }
            "tool_use" => {
                return Err(self.fail("the response announces tool calls but contains none"));
            }
            "end_turn" | "stop_sequence" => FinishReason::Stop,
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "guardrail_intervened" | "content_filtered" => FinishReason::ContentFilter,
            "refusal" => FinishReason::Refusal,
            "malformed_model_output" | "malformed_tool_use" => {
                let message = "the model wrote output that the provider could not parse";
                let error = self.context.error(ModelErrorKind::Unavailable, message);
                return Err(with_usage(error, self.counts));
            }
            "" => FinishReason::Other("unknown".into()),
            other => FinishReason::Other(other.into()),
        })
    }
}

#[cfg(test)]
mod tests;
