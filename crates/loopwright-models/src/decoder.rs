//! The decoder of responses, for all wires.

use std::sync::Arc;

use loopwright_core::{
    Delta, DeltaSink, ModelError, ModelErrorKind,
    messages::{Content, InferenceResponse, ModelOrigin, Part, Usage},
};

#[cfg(feature = "bedrock")]
use crate::event_stream;
use crate::{
    error::ErrorContext,
    lines,
    reader::{Framing, MAX_CALLS, ResponseReader, TOO_MANY_CALLS},
    sse::{self, Event},
    wire::{WireApi, WireProtocol},
};

/// The most bytes of an answer that is not streamed, and of one event of an answer that is.
const MAX: usize = 64 << 20;

/// The maximum size of a streamed response in bytes, so that an endless stream is detected.
const MAX_STREAMED: usize = 256 << 20;

/// Passes fragments on, and counts the calls that they begin.
struct Counted<'a> {
    deltas: &'a mut dyn DeltaSink,
    calls: usize,
}

impl DeltaSink for Counted<'_> {
    fn push(&mut self, delta: Delta<'_>) {
        if let Delta::ToolCall { index, .. } = delta {
            self.calls = self.calls.max(usize::from(index) + 1);
        }
        self.deltas.push(delta);
    }
}

/// What an answer turned out to be.
#[derive(Debug)]
pub(crate) enum Concluded {
    /// It is there.
    Response(Box<InferenceResponse>),
    /// The provider works on it in the background, under this id.
    Job(String),
}

/// Decodes a successful response: one JSON text or a stream of events.
///
/// If the wire allows it, the first character decides which it is, because servers do not always
/// respond as requested and their content types are unreliable.
#[derive(Debug)]
pub struct ResponseDecoder {
    context: ErrorContext,
    framing: Framing,
    is_streamed: bool,
    /// How many bytes there were so far.
    taken: usize,
    /// How many calls there were so far.
    calls: usize,
    form: Form,
    reading: Box<dyn ResponseReader>,
}

#[derive(Debug)]
enum Form {
    /// Nothing but blanks so far.
    Unknown,
    Json(Vec<u8>),
    Events(sse::Decoder),
    Lines(lines::Decoder),
    #[cfg(feature = "bedrock")]
    Messages(event_stream::Decoder),
}

impl ResponseDecoder {
    /// Creates a decoder for the response of a model, streamed or not.
    pub fn new(
        wire: WireApi,
        origin: Arc<ModelOrigin>,
        context: ErrorContext,
        is_streamed: bool,
    ) -> Self {
        Self::from_protocol(wire.protocol(), origin, context, is_streamed)
    }

    /// Creates a decoder for the response of a model on a custom wire, streamed or not.
    pub fn from_protocol(
        protocol: &dyn WireProtocol,
        origin: Arc<ModelOrigin>,
        context: ErrorContext,
        is_streamed: bool,
    ) -> Self {
        let (framing, reading) = (protocol.framing(), protocol.read(origin, context.clone()));
        Self { context, framing, is_streamed, taken: 0, calls: 0, form: Form::Unknown, reading }
    }

    /// Decodes the next bytes; fragments of a stream are passed on at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the response is an error or malformed.
    pub fn push(&mut self, mut bytes: &[u8], deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        self.taken = self.taken.saturating_add(bytes.len());
        if self.taken > MAX_STREAMED {
            return Err(self.fail("the response is too long"));
        }
        if let Form::Unknown = self.form {
            let is_blank = |byte: &u8| byte.is_ascii_whitespace() || b"\xEF\xBB\xBF".contains(byte);
            let Some(begin) = bytes.iter().position(|byte| !is_blank(byte)) else { return Ok(()) };
            self.form = self.form_of(bytes[begin]);
            // What came before was let go, and half a byte order mark must not be left over.
            bytes = &bytes[begin..];
        }
        let (reading, context) = (&mut *self.reading, &self.context);
        let mut counted = Counted { deltas, calls: self.calls };
        let mut take = |event: Event<'_>| take(reading, event, &mut counted, context);
        let held = match &mut self.form {
            Form::Unknown => 0,
            Form::Json(body) => {
                if body.len() + bytes.len() <= MAX {
                    body.extend_from_slice(bytes);
                    return Ok(());
                }
                body.len() + bytes.len()
            }
            Form::Events(events) => {
                events.push(bytes, &mut take)?;
                events.buffered()
            }
            Form::Lines(lines) => {
                lines.push(bytes, &mut take)?;
                lines.buffered()
            }
            #[cfg(feature = "bedrock")]
            Form::Messages(messages) => match messages.push(bytes, &mut take) {
                Ok(()) => messages.buffered(),
                Err(fault) => return Err(self.fault(fault)),
            },
        };
        self.calls = counted.calls;
        if held > MAX {
            return Err(self.fail("the response, or one of its events, is too long"));
        }
        Ok(())
    }

    /// Chooses the form of an answer that begins with this character.
    fn form_of(&self, first: u8) -> Form {
        match (self.framing, first) {
            (Framing::Lines, _) if self.is_streamed => Form::Lines(lines::Decoder::default()),
            (Framing::Lines, _) | (_, b'{' | b'[' | b'"' | b'<') => Form::Json(Vec::new()),
            (Framing::Sse, _) => Form::Events(sse::Decoder::new()),
            #[cfg(feature = "bedrock")]
            (Framing::EventStream, _) => Form::Messages(event_stream::Decoder::default()),
        }
    }

    /// Returns `true` if the response is complete, even if more bytes follow.
    pub fn is_done(&self) -> bool {
        self.reading.is_done()
    }

    /// Returns the usage so far, if the provider reported it.
    pub fn usage(&self) -> Option<Usage> {
        self.reading.usage()
    }

    /// Returns the id of the job if the provider still works on the answer in the background.
    pub(crate) fn job(&self) -> Option<String> {
        self.reading.job().map(str::to_owned)
    }

    /// Returns the response, after its last byte. Passes on one [`Delta::End`].
    ///
    /// # Errors
    ///
    /// Returns an error if the response is an error, malformed or incomplete, or if the provider is
    /// still generating it.
    pub fn finish(self, deltas: &mut dyn DeltaSink) -> Result<InferenceResponse, ModelError> {
        let context = self.context.clone();
        match self.conclude(deltas)? {
            Concluded::Response(response) => Ok(*response),
            Concluded::Job(_) => {
                let message = "the provider is still generating the response";
                Err(context.error(ModelErrorKind::Protocol, message))
            }
        }
    }

    /// Returns what has come after the last byte.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish), but for an answer that the provider still works on.
    pub(crate) fn conclude(mut self, deltas: &mut dyn DeltaSink) -> Result<Concluded, ModelError> {
        let context = self.context.clone();
        let reading = &mut *self.reading;
        let mut counted = Counted { deltas, calls: self.calls };
        let mut take = |event: Event<'_>| take(reading, event, &mut counted, &context);
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => return Err(self.fail("the response is empty")),
            Form::Json(body) => {
                self.reading.whole(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&body))?;
                if let Some(job) = self.job() {
                    return Ok(Concluded::Job(job));
                }
                let response = few_calls(self.reading.end()?, &context)?;
                pass_on(&response, counted.deltas);
                return Ok(Concluded::Response(response.into()));
            }
            Form::Events(events) => events.finish(&mut take)?,
            Form::Lines(lines) => lines.finish(&mut take)?,
            #[cfg(feature = "bedrock")]
            Form::Messages(messages) => messages.finish().map_err(|fault| self.fault(fault))?,
        }
        let response = few_calls(self.reading.end()?, &context)?;
        counted.deltas.push(Delta::End);
        Ok(Concluded::Response(response.into()))
    }

    #[cfg(feature = "bedrock")]
    fn fault(&self, fault: event_stream::Fault<ModelError>) -> ModelError {
        match fault {
            event_stream::Fault::Broken(message) => self.fail(message),
            event_stream::Fault::Taken(error) => error,
        }
    }

    fn fail(&self, message: &str) -> ModelError {
        let error = self.context.error(ModelErrorKind::Protocol, message);
        ModelError { usage: self.usage().unwrap_or_default(), ..error }
    }
}

/// Hands an event over, unless the stream said that it is done: what some gateways say after the end
/// is about the answer, not of it.
fn take(
    reading: &mut dyn ResponseReader,
    event: Event<'_>,
    deltas: &mut Counted<'_>,
    context: &ErrorContext,
) -> Result<(), ModelError> {
    let event = Event { data: event.data.trim_ascii(), ..event };
    if reading.is_done() || event.data.is_empty() {
        return Ok(());
    }
    reading.event(event, deltas)?;
    if deltas.calls > MAX_CALLS {
        let error = context.error(ModelErrorKind::Protocol, TOO_MANY_CALLS);
        return Err(ModelError { usage: reading.usage().unwrap_or_default(), ..error });
    }
    Ok(())
}

/// Refuses an answer with more calls than anybody makes.
fn few_calls(
    response: InferenceResponse,
    context: &ErrorContext,
) -> Result<InferenceResponse, ModelError> {
    let is_call = |part: &&Part| matches!(part.content(), Content::ToolCall(_));
    if response.message.parts().iter().filter(is_call).count() <= MAX_CALLS {
        return Ok(response);
    }
    let error = context.error(ModelErrorKind::Protocol, TOO_MANY_CALLS);
    Err(ModelError { usage: response.usage, ..error })
}

/// Passes on a whole answer as the fragments that it would have come in.
fn pass_on(response: &InferenceResponse, deltas: &mut dyn DeltaSink) {
    let mut index = 0;
    for part in response.message.parts() {
        match part.content() {
            Content::Text(text) if !text.is_empty() => deltas.push(Delta::Text(text)),
            Content::Reasoning(text) if !text.is_empty() => deltas.push(Delta::Reasoning(text)),
            Content::ToolCall(call) => {
                deltas.push(Delta::ToolCall { index, id: call.id.as_deref(), name: &call.name });
                if !call.arguments.is_empty() {
                    deltas.push(Delta::ToolArguments { index, fragment: &call.arguments });
                }
                index = index.saturating_add(1);
            }
            _ => {}
        }
    }
    deltas.push(Delta::Usage(response.usage));
    deltas.push(Delta::End);
}
