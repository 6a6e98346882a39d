//! Decodes responses.

use std::sync::Arc;

use loopwright_core::{
    Delta, DeltaSink, ModelError, ModelErrorKind,
    messages::{FinishReason, InferenceResponse, Message, ModelOrigin, Part, Role, Usage},
};
use serde_json::value::RawValue;

use super::{
    error::{of_error, says},
    item::Voice,
    slot::{Contradiction, Place, Progress, Slot, Told},
    wire::{Event, Item, Named, Response, WireUsage},
};
use crate::error::{ErrorContext, with_usage};

/// An answer as far as it has been read.
#[derive(Debug)]
pub(super) struct ResponsesReading {
    origin: Arc<ModelOrigin>,
    pub(super) context: ErrorContext,
    slots: Vec<Slot>,
    progress: Progress,
    /// How it ended, when it has.
    pub(super) ending: Option<Ending>,
    pub(super) usage: Option<Usage>,
    id: Option<Arc<str>>,
    /// Whether the provider works on the answer in the background.
    is_job: bool,
    /// Whether the stream said `[DONE]`.
    pub(super) is_closed: bool,
}

/// How an answer ended.
#[derive(Debug)]
pub(super) struct Ending {
    status: String,
    reason: String,
}

impl ResponsesReading {
    pub(super) fn new(origin: Arc<ModelOrigin>, context: ErrorContext) -> Self {
        Self {
            origin,
            context,
            slots: Vec::new(),
            progress: Progress::default(),
            ending: None,
            usage: None,
            id: None,
            is_job: false,
            is_closed: false,
        }
    }

    /// Creates an error for a malformed response.
    pub(super) fn fail(&self, message: &str) -> ModelError {
        with_usage(self.context.error(ModelErrorKind::Protocol, message), self.usage)
    }

    pub(super) fn fail_json(&self, error: serde_json::Error) -> ModelError {
        self.fail(if error.is_eof() {
            "the response was cut off"
        } else {
            "the response is not valid Responses API JSON"
        })
        .with_source(error)
    }

    /// Takes the answer's id, of which every event that has an answer tells.
    pub(super) fn take_id(&mut self, response: Option<&RawValue>) {
        if let (None, Some(raw)) = (&self.id, response) {
            let named: Named<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
            self.set_id(&named.id);
            self.is_job = named.background == Some(true);
        }
    }

    /// Takes an answer that the provider has not finished yet; `false` if it is none.
    pub(super) fn take_job(&mut self, response: &Response<'_>) -> bool {
        let is_open = matches!(&*response.status, "queued" | "in_progress");
        self.is_job = is_open && !response.id.is_empty();
        if self.is_job {
            self.set_id(&response.id);
        }
        self.is_job
    }

    /// Returns the id under which the answer can be asked for.
    pub(super) fn job_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|_| self.is_job && self.ending.is_none())
    }

    fn set_id(&mut self, id: &str) {
        if self.id.is_none() && !id.is_empty() {
            self.id = Some(id.into());
        }
    }

    /// Takes an item that begins.
    pub(super) fn begin(
        &mut self,
        event: &Event<'_>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let (item, raw) = self.item(event)?;
        let at = self.add(Slot::begin(self.place(event), &item, raw.get()));
        let told = &mut Told { progress: &mut self.progress, deltas };
        let named = self.slots[at].name(&item, told);
        self.agreed(named)
    }

    /// Takes an item that is complete.
    pub(super) fn complete(
        &mut self,
        event: &Event<'_>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let (item, raw) = self.item(event)?;
        let at = self.open_slot(event, &item.id).or_else(|| {
            // An item that is completed twice.
            self.slots.iter().rposition(|it| !it.id.is_empty() && it.id == *item.id)
        });
        let at = at.unwrap_or_else(|| self.add(Slot::begin(self.place(event), &item, raw.get())));
        self.put(at, &item, raw.get(), deltas)
    }

    /// Takes more of what an item says.
    pub(super) fn say(
        &mut self,
        voice: Voice,
        event: &Event<'_>,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let at = self.slot(voice, event);
        let told = &mut Told { progress: &mut self.progress, deltas };
        let said = self.slots[at].say(voice, position(event), &event.delta, told);
        self.agreed(said)
    }

    /// Takes the whole of something that an item says.
    pub(super) fn said(
        &mut self,
        voice: Voice,
        event: &Event<'_>,
        whole: &str,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let is_late = self.open_slot(event, &event.item_id).is_none()
            && self.slots.iter().any(|slot| Some(slot.place.index) == event.output_index);
        if whole.is_empty() || is_late {
            return Ok(());
        }
        let at = self.slot(voice, event);
        let told = &mut Told { progress: &mut self.progress, deltas };
        let said = self.slots[at].said(voice, position(event), whole, told);
        self.agreed(said)
    }

    /// Takes the answer as its provider holds it in the end. The last event of a stream says how it
    /// ended; `ending` is its word for that, empty if the answer was not streamed.
    pub(super) fn take_response(
        &mut self,
        response: &Response<'_>,
        ending: &str,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        self.set_id(&response.id);
        if let Some(usage) = response.usage.and_then(read_usage) {
            self.usage = Some(usage);
            deltas.push(Delta::Usage(usage));
        }
        let status = match (&*response.status, ending) {
            (_, "failed" | "incomplete" | "cancelled") | ("", _) | ("in_progress", "completed") => {
                ending
            }
            (status, _) => status,
        };
        if let Some(error) = response.error.filter(|error| says(error)) {
            return Err(with_usage(of_error(error, &self.context), self.usage));
        }
        if matches!(status, "failed" | "cancelled") {
            let message = "the provider abandoned the response";
            let error = self.context.error(ModelErrorKind::Unavailable, message);
            return Err(with_usage(error, self.usage));
        }
        let details = response.incomplete_details.as_ref();
        let reason = details.map(|it| it.reason.to_string()).unwrap_or_default();
        let is_complete = matches!(status, "completed" | "");
        self.ending = Some(Ending { status: status.to_owned(), reason });
        self.adopt(response.output.as_deref().unwrap_or_default(), deltas)?;
        self.close(is_complete, deltas)
    }

    /// Takes from the whole answer the items that the stream did not complete.
    ///
    /// Some providers leave the answer empty there. Others do not complete all items before, or send
    /// none: the rest is taken if both lists agree on what stands where.
    fn adopt(
        &mut self,
        output: &[&RawValue],
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        if self.slots.iter().all(Slot::is_done) && output.len() <= self.slots.len() {
            return Ok(());
        }
        let mut items = Vec::with_capacity(output.len());
        for (index, raw) in (0_u64..).zip(output) {
            let item: Item<'_> =
                serde_json::from_str(raw.get()).map_err(|error| self.fail_json(error))?;
            let at = self.slots.iter().position(|slot| slot.place.index == index);
            items.push((at, index, item, raw.get()));
        }
        let agree = |(at, _, item, _): &(Option<usize>, u64, Item<'_>, &str)| {
            at.is_none_or(|at| self.slots[at].kind == *item.kind)
        };
        let met = items.iter().filter(|it| it.0.is_some()).count();
        if met < self.slots.len() || !items.iter().all(agree) {
            return Ok(());
        }
        for (at, index, item, raw) in items {
            let at = at.unwrap_or_else(|| {
                let place = Place { index, arrival: self.slots.len() };
                self.add(Slot::begin(place, &item, raw))
            });
            self.put(at, &item, raw, deltas)?;
        }
        Ok(())
    }

    /// Ends the items that were never completed.
    fn close(&mut self, is_complete: bool, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        if is_complete && self.slots.iter().any(Slot::is_cut) {
            return Err(self.fail("the response was cut off within a tool call"));
        }
        let status = if is_complete { "completed" } else { "incomplete" };
        let told = &mut Told { progress: &mut self.progress, deltas };
        let mut open = self.slots.iter_mut().filter(|slot| !slot.is_done());
        let closed = open.try_for_each(|slot| slot.close(status, told));
        self.agreed(closed)
    }

    /// Completes an item, unless it is complete already.
    fn put(
        &mut self,
        at: usize,
        item: &Item<'_>,
        raw: &str,
        deltas: &mut dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let slot = &mut self.slots[at];
        if slot.is_done() {
            return Ok(());
        }
        let told = &mut Told { progress: &mut self.progress, deltas };
        let completed = slot.complete(item, raw, told);
        self.agreed(completed)
    }

    fn agreed(&self, result: Result<(), Contradiction>) -> Result<(), ModelError> {
        result.map_err(|Contradiction| self.fail("the response contradicts itself"))
    }

    fn add(&mut self, slot: Slot) -> usize {
        self.slots.push(slot);
        self.slots.len() - 1
    }

    fn item<'a>(&self, event: &Event<'a>) -> Result<(Item<'a>, &'a RawValue), ModelError> {
        let raw = event.item.ok_or_else(|| self.fail("an item event contains no item"))?;
        let item = serde_json::from_str(raw.get()).map_err(|error| self.fail_json(error))?;
        Ok((item, raw))
    }

    /// Returns the place of an item that begins.
    fn place(&self, event: &Event<'_>) -> Place {
        let next = self.slots.iter().map(|slot| slot.place.index.saturating_add(1)).max();
        let index = event.output_index.unwrap_or(next.unwrap_or(0));
        Place { index, arrival: self.slots.len() }
    }

    /// Finds the open item that an event is about: by its position, because there are providers that
    /// give it another id in every event; where there is none, by id; else it is the last one.
    fn open_slot(&self, event: &Event<'_>, id: &str) -> Option<usize> {
        let open = |slot: &Slot| !slot.is_done();
        if let Some(index) = event.output_index {
            return self.slots.iter().rposition(|slot| open(slot) && slot.place.index == index);
        }
        let named = self.slots.iter().rposition(|it| open(it) && !id.is_empty() && it.id == id);
        named.or_else(|| self.slots.iter().rposition(open))
    }

    fn slot(&mut self, voice: Voice, event: &Event<'_>) -> usize {
        self.open_slot(event, &event.item_id).unwrap_or_else(|| {
            self.add(Slot::unannounced(self.place(event), &event.item_id, voice))
        })
    }

    /// Returns the answer, if it has ended.
    pub(super) fn finish(mut self) -> Result<InferenceResponse, ModelError> {
        let Some(ending) = self.ending.take() else {
            return Err(self.fail("the stream closed before the response was complete"));
        };
        let is_lost = self.slots.is_empty() && self.usage.is_some_and(|it| it.output > 0);
        if is_lost && matches!(&*ending.status, "completed" | "") {
            return Err(self.fail("the response was generated but did not arrive"));
        }
        let mut slots = std::mem::take(&mut self.slots);
        slots.sort_by_key(|slot| slot.place);
        let mut parts: Vec<Part> = Vec::with_capacity(slots.len());
        for slot in slots {
            parts.extend(slot.into_parts().map_err(|error| self.fail_json(error))?);
        }
        let message = Message::new(Role::Assistant, parts).with_origin(Arc::clone(&self.origin));
        if message.tool_calls().any(|call| call.name.is_empty()) {
            return Err(self.fail("the response calls a tool without a name"));
        }
        let finish = self.finish_reason(&ending, &message)?;
        let usage = self.usage.unwrap_or_default();
        Ok(InferenceResponse { message, finish_reason: finish, usage, cost: None, id: self.id })
    }

    fn finish_reason(
        &self,
        ending: &Ending,
        message: &Message,
    ) -> Result<FinishReason, ModelError> {
        Ok(match (&*ending.status, &*ending.reason) {
            ("completed" | "", _) if message.tool_calls().next().is_some() => {
                FinishReason::ToolCalls
            }
            ("completed" | "", _) if message.refusal().is_some() && message.text().is_empty() => {
                FinishReason::Refusal
            }
            ("completed" | "", _) => FinishReason::Stop,
            ("incomplete", "max_output_tokens") => FinishReason::Length,
            ("incomplete", "content_filter") => FinishReason::ContentFilter,
            ("incomplete", "") => FinishReason::Other("incomplete".into()),
            ("incomplete", reason) => FinishReason::Other(reason.into()),
            ("in_progress" | "queued", _) => {
                return Err(self.fail("the provider is still generating the response"));
            }
            (status, _) => FinishReason::Other(status.into()),
        })
    }
}

/// Returns where in its item something is said.
fn position(event: &Event<'_>) -> u64 {
    event.content_index.or(event.summary_index).unwrap_or(0)
}

/// Reads usage. Returns `None` if it is no object.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    let wire: WireUsage = serde_json::from_str::<Option<WireUsage>>(raw.get()).ok().flatten()?;
    let input = wire.input_tokens_details.unwrap_or_default();
    let output = wire.output_tokens_details.unwrap_or_default();
    Some(Usage {
        input: wire.input_tokens.0.unwrap_or(0),
        output: wire.output_tokens.0.unwrap_or(0),
        cache_read: input.cached_tokens.0.unwrap_or(0),
        cache_write: input.cache_write_tokens.0.unwrap_or(0),
        reasoning: output.reasoning_tokens.0.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests;
