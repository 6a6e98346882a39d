//! Decodes responses.

use std::sync::Arc;

use loopwright_core::{
    DeltaSink, ModelError, ModelErrorKind,
    messages::{FinishReason, InferenceResponse, Message, ModelOrigin, Part, Role, Usage},
};
use serde_json::value::RawValue;

use super::{
    block::Block,
    container,
    wire::{WireDelta, WireMessage, WireUsage},
};
use crate::error::{ErrorContext, with_usage};

/// An answer as far as it has been read.
#[derive(Debug)]
pub(super) struct MessageReading {
    origin: Arc<ModelOrigin>,
    pub(super) context: ErrorContext,
    /// The blocks in the order in which they began, each with the number it goes by.
    blocks: Vec<(Option<u64>, Block)>,
    calls: u16,
    /// Whether the answer has begun.
    pub(super) is_begun: bool,
    /// Whether it has ended.
    pub(super) is_done: bool,
    stop_reason: String,
    /// Where the provider runs code, as JSON.
    container: Option<String>,
    counts: Option<WireUsage>,
    id: Option<Arc<str>>,
}

impl MessageReading {
    pub(super) fn new(origin: Arc<ModelOrigin>, context: ErrorContext) -> Self {
        Self {
            origin,
            context,
            blocks: Vec::new(),
            calls: 0,
            is_begun: false,
            is_done: false,
            stop_reason: String::new(),
            container: None,
            counts: None,
            id: None,
        }
    }

    /// Takes the message: all of it, or what a stream begins with.
    pub(super) fn begin(
        &mut self,
        message: &WireMessage<'_>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        if !self.blocks.is_empty() {
            return Err(self.fail("the response started twice"));
        }
        self.is_begun = true;
        self.take_usage(message.usage);
        if !message.id.is_empty() {
            self.id = Some((&*message.id).into());
        }
        self.take_stop_reason(&message.stop_reason);
        self.take_container(message.container);
        for (index, raw) in message.content.iter().flatten().enumerate() {
            let index = u64::try_from(index).ok();
            self.begin_block(index, raw, deltas)?;
            self.close_block(index, deltas);
        }
        Ok(())
    }

    pub(super) fn begin_block(
        &mut self,
        index: Option<u64>,
        raw: &RawValue,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let block = Block::begin(raw, self.calls, deltas).map_err(|error| {
            self.fail("a block of the response is malformed").with_source(error)
        })?;
        if block.is_nameless_call() {
            return Err(self.fail("the response calls a tool without a name"));
        }
        self.is_begun = true;
        self.calls = self.calls.saturating_add(block.is_call().into());
        self.blocks.push((index, block));
        Ok(())
    }

    /// Adds to a block. `data` is the whole event.
    pub(super) fn add(
        &mut self,
        index: Option<u64>,
        delta: &WireDelta<'_>,
        data: &[u8],
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        if self.block(index).is_none() {
            let Some(block) = Block::unannounced(delta) else {
                return Err(self.fail("the response continues a block that it did not start"));
            };
            self.is_begun = true;
            self.blocks.push((index, block));
        }
        if let Some(block) = self.block(index) {
            block.add(delta, data, deltas);
        }
        Ok(())
    }

    pub(super) fn close_block(&mut self, index: Option<u64>, deltas: &mut dyn DeltaSink) {
        if let Some(block) = self.block(index) {
            block.close(deltas);
        }
    }

    /// Ends the answer, and blocks whose end was not told.
    pub(super) fn close(&mut self, deltas: &mut dyn DeltaSink) {
        for (_, block) in &mut self.blocks {
            block.close(deltas);
        }
        self.is_done = true;
    }

    /// Returns the latest block of this number; the latest of all if there is no number.
    fn block(&mut self, index: Option<u64>) -> Option<&mut Block> {
        let mut blocks = self.blocks.iter_mut().rev();
        blocks.find(|(it, _)| index.is_none() || *it == index).map(|(_, block)| block)
    }

    pub(super) fn take_stop_reason(&mut self, reason: &str) {
        if !reason.is_empty() {
            reason.clone_into(&mut self.stop_reason);
        }
    }

    pub(super) fn take_container(&mut self, raw: Option<&RawValue>) {
        if let Some(raw) = raw.filter(|raw| raw.get().starts_with('{')) {
            self.container = Some(raw.get().to_owned());
        }
    }

    /// Updates the counts. Returns `true` if there were any.
    pub(super) fn take_usage(&mut self, raw: Option<&RawValue>) -> Option<Usage> {
        self.counts.get_or_insert_default().correct(WireUsage::read(raw?)?);
        self.usage_so_far()
    }

    pub(super) fn usage_so_far(&self) -> Option<Usage> {
        self.counts.map(WireUsage::to_usage)
    }

    /// Creates an error for a malformed response.
    pub(super) fn fail(&self, message: &str) -> ModelError {
        with_usage(self.context.error(ModelErrorKind::Protocol, message), self.usage_so_far())
    }

    /// Makes an error of text that is not what the wire says.
    pub(super) fn unreadable(&self, error: serde_json::Error) -> ModelError {
        let message = if error.is_eof() {
            "the response was cut off"
        } else {
            "the response is not valid Messages API JSON"
        };
        self.fail(message).with_source(error)
    }

    /// Returns the answer, which is known to have ended.
    pub(super) fn into_response(self) -> Result<InferenceResponse, ModelError> {
        let finish = self.finish_reason()?;
        let usage = self.usage_so_far().unwrap_or_default();
        let is_cut = finish == FinishReason::Length;
        let part = |(_, block): (_, Block)| block.into_part(is_cut);
        let blocks = self.blocks.into_iter().filter_map(part);
        let parts: Vec<Part> = blocks.chain(self.container.map(container::part)).collect();
        let message = Message::new(Role::Assistant, parts).with_origin(self.origin);
        Ok(InferenceResponse { message, finish_reason: finish, usage, cost: None, id: self.id })
    }

    fn finish_reason(&self) -> Result<FinishReason, ModelError> {
        Ok(match self.stop_reason.as_str() {
            "end_turn" | "stop_sequence" | "tool_use" | "" if self.calls > 0 => {
                FinishReason::ToolCalls
            }
            "tool_use" => {
                return Err(self.fail("the response announces tool calls but contains none"));
            }
            "end_turn" | "stop_sequence" => FinishReason::Stop,
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "refusal" => FinishReason::Refusal,
            "" => FinishReason::Other("unknown".into()),
            other => FinishReason::Other(other.into()),
        })
    }
}

#[cfg(test)]
mod tests;
