//! The envelopes of one execution.

use std::{fmt, sync::Arc, time::Duration};

use loopwright_core::{
    AgentEvent, CustomEventData, EventEnvelope, StopReason, StreamFragment, Timestamp, ToolOutcome,
    events::{
        ContinuationEvaluated, StepCompleted, StepStarted, StreamDelta, ToolCallCompleted,
        ToolCallStarted,
    },
    messages::{AgentId, ExecutionId, FinishReason},
};
use serde_json::Value;

use crate::{
    arguments,
    config::BroadcastConfig,
    frame::{EncodedEnvelope, Origin},
    payload::{Payload, Voice},
    redact::Redactor,
    status::BroadcastStatus,
};

/// Creates envelopes from the events of one execution; keeps its status and the numbers of its
/// fragments.
///
/// A [`Broadcasting`](crate::Broadcasting) has one for each execution, so that concurrent agents do
/// not mix. It is a plain value without a clock or a listener; it converts events to envelopes.
pub struct Broadcaster {
    config: BroadcastConfig,
    redaction: Redactor,
    origin: Arc<Origin>,
    status: BroadcastStatus,
    /// Why the execution ends, if that is what was decided last.
    ending: Option<StopReason>,
    /// The number of the next fragment.
    chunk: u64,
    /// Whether an answer is being told whose end has not been told.
    is_streaming: bool,
}

impl Broadcaster {
    /// Creates a value for an execution without earlier envelopes.
    pub fn new(
        config: BroadcastConfig,
        session_id: impl Into<Arc<str>>,
        execution_id: ExecutionId,
    ) -> Self {
        Self::of(config, Redactor::default(), Origin::new(session_id.into(), execution_id, None))
    }

    pub(crate) fn for_agent(
        config: BroadcastConfig,
        redaction: Redactor,
        session: Arc<str>,
        execution: ExecutionId,
        parent: Option<AgentId>,
    ) -> Self {
        Self::of(config, redaction, Origin::new(session, execution, parent))
    }

    fn of(config: BroadcastConfig, redaction: Redactor, origin: Origin) -> Self {
        Self {
            config,
            redaction,
            origin: Arc::new(origin),
            status: BroadcastStatus::Idle,
            ending: None,
            chunk: 0,
            is_streaming: false,
        }
    }

    /// Redacts secrets with this redactor.
    #[must_use]
    pub fn with_redaction(self, redaction: Redactor) -> Self {
        Self { redaction, ..self }
    }

    /// Returns the last published status of the execution.
    pub fn status(&self) -> BroadcastStatus {
        self.status
    }

    /// Resets the value for another run.
    pub fn reset(&mut self) {
        self.status = BroadcastStatus::Idle;
        (self.ending, self.chunk, self.is_streaming) = (None, 0, false);
    }

    /// Publishes a status that no event reported, even if it equals the last one.
    pub fn publish_status(&mut self, status: BroadcastStatus, at: Timestamp) -> EncodedEnvelope {
        self.end(status, None, at)
    }

    /// Returns the envelopes for an event, usually none or one.
    pub fn on_event(&mut self, envelope: &EventEnvelope) -> Vec<EncodedEnvelope> {
        if self.origin.permission_mode != envelope.permission_mode {
            let permission_mode = envelope.permission_mode.clone();
            self.origin = Arc::new(Origin { permission_mode, ..Origin::clone(&self.origin) });
        }
        let at = envelope.at;
        let mut frames = Vec::new();
        match &envelope.event {
            AgentEvent::ExecutionStarted(it) if it.resumed => self.processing(at, &mut frames),
            AgentEvent::StepStarted(it) => self.step_started(it, at, &mut frames),
            AgentEvent::StreamDelta(it) => self.delta(it, at, &mut frames),
            AgentEvent::InferenceRequestStarted(_) => self.close_stream(at, &mut frames),
            AgentEvent::ToolCallStarted(it) => frames.push(self.tool_started(it, at)),
            AgentEvent::ToolCallCompleted(it) => frames.push(self.tool_completed(it, at)),
            AgentEvent::StepCompleted(it) => {
                self.close_stream(at, &mut frames);
                frames.push(self.step_completed(it, at));
            }
            AgentEvent::ContinuationEvaluated(it) => self.continuation(it, at, &mut frames),
            AgentEvent::ExecutionPaused(_) if self.config.auto_status_tracking => {
                self.change(BroadcastStatus::Idle, at, &mut frames);
            }
            AgentEvent::ExecutionFailed(it) => {
                let error = it.failure.to_string();
                self.over(BroadcastStatus::Failed, Some(&error), at, &mut frames);
            }
            AgentEvent::ExecutionStopped(it) => {
                let status = BroadcastStatus::of_ending(Some(it.signal.reason));
                let message = Some(it.signal.to_string());
                self.over(status, message.as_deref(), at, &mut frames);
            }
            AgentEvent::ExecutionCompleted(_) if !self.status.is_terminal() => {
                self.close_stream(at, &mut frames);
                if self.config.auto_status_tracking {
                    let status = BroadcastStatus::of_ending(self.ending);
                    self.change(status, at, &mut frames);
                }
                self.chunk = 0;
            }
            AgentEvent::Custom(it) => frames.push(self.custom(it, at)),
            _ => (),
        }
        frames
    }

    fn frame(&self, at: Timestamp, payload: &Payload<'_>) -> EncodedEnvelope {
        EncodedEnvelope::encode(&self.origin, at, payload)
    }

    fn processing(&mut self, at: Timestamp, frames: &mut Vec<EncodedEnvelope>) {
        self.ending = None;
        if self.config.auto_status_tracking {
            self.change(BroadcastStatus::Processing, at, frames);
        }
    }

    fn change(
        &mut self,
        status: BroadcastStatus,
        at: Timestamp,
        frames: &mut Vec<EncodedEnvelope>,
    ) {
        let previous_status = std::mem::replace(&mut self.status, status);
        if status != previous_status {
            frames.push(self.frame(at, &Payload::Status { status, previous_status }));
        }
    }

    /// Tells that the execution did not come to its natural end, once.
    fn over(
        &mut self,
        status: BroadcastStatus,
        error: Option<&str>,
        at: Timestamp,
        frames: &mut Vec<EncodedEnvelope>,
    ) {
        self.close_stream(at, frames);
        self.chunk = 0;
        if self.status != status {
            let error = error.map(|it| self.bounded(it));
            frames.push(self.end(status, error.as_deref(), at));
        }
    }

    fn end(
        &mut self,
        status: BroadcastStatus,
        error: Option<&str>,
        at: Timestamp,
    ) -> EncodedEnvelope {
        let previous_status = std::mem::replace(&mut self.status, status);
        let (error_message, last_response) = (error, None);
        self.frame(at, &Payload::Ended { status, previous_status, error_message, last_response })
    }

    fn step_started(&mut self, it: &StepStarted, at: Timestamp, frames: &mut Vec<EncodedEnvelope>) {
        self.processing(at, frames);
        frames.push(self.frame(
            at,
            &Payload::StepStarted {
                step_number: it.step,
                message_count: it.messages,
                available_tools: &it.tools,
            },
        ));
    }

    fn step_completed(&self, it: &StepCompleted, at: Timestamp) -> EncodedEnvelope {
        let payload = Payload::StepCompleted {
            step_number: it.step,
            has_tool_calls: it.has_tool_calls,
            errors: it.errors.len(),
            finish_reason: it.finish.as_ref().map(FinishReason::as_str),
            usage: it.usage.into(),
            duration_ms: millis(it.duration),
        };
        self.frame(at, &payload)
    }

    fn delta(&mut self, it: &StreamDelta, at: Timestamp, frames: &mut Vec<EncodedEnvelope>) {
        if it.aside || !self.config.include_stream_chunks {
            return;
        }
        match &it.delta {
            StreamFragment::Text(text) if !text.is_empty() => {
                self.is_streaming = true;
                frames.push(self.next_chunk(text, false, at));
            }
            StreamFragment::End => self.close_stream(at, frames),
            _ => (),
        }
    }

    /// Publishes the end of a response, complete or truncated, if any part of it was published.
    fn close_stream(&mut self, at: Timestamp, frames: &mut Vec<EncodedEnvelope>) {
        if std::mem::take(&mut self.is_streaming) {
            frames.push(self.next_chunk("", true, at));
        }
    }

    fn next_chunk(&mut self, content: &str, is_complete: bool, at: Timestamp) -> EncodedEnvelope {
        let chunk_index = self.chunk;
        self.chunk += 1;
        self.frame(at, &Payload::Chunk { content, is_complete, chunk_index })
    }

    fn tool_started(&self, it: &ToolCallStarted, at: Timestamp) -> EncodedEnvelope {
        let arguments = if self.config.include_tool_args {
            arguments::whole(&it.arguments, self.config.max_arg_length, &self.redaction)
        } else {
            arguments::summary(&it.arguments, &self.redaction)
        };
        let tool_call_id = &*call_id(it.id.as_ref(), it.step, it.call);
        self.frame(at, &Payload::ToolStarted { tool_name: &it.tool, tool_call_id, arguments })
    }

    fn tool_completed(&self, it: &ToolCallCompleted, at: Timestamp) -> EncodedEnvelope {
        let result_summary = match &*it.outcome {
            ToolOutcome::Returned(output) => Some(self.bounded(&output.to_text())),
            _ => None,
        };
        let error = it.outcome.is_error().then(|| self.bounded(&it.outcome.error_message()));
        let payload = Payload::ToolCompleted {
            tool_name: &it.tool,
            tool_call_id: &call_id(it.id.as_ref(), it.step, it.call),
            success: it.success,
            error,
            duration_ms: millis(it.duration),
            result_summary,
        };
        self.frame(at, &payload)
    }

    fn continuation(
        &mut self,
        it: &ContinuationEvaluated,
        at: Timestamp,
        frames: &mut Vec<EncodedEnvelope>,
    ) {
        let outcome = &it.outcome;
        self.ending = outcome.stop_reason.filter(|_| !outcome.should_continue);
        if !self.config.include_continuation_trace {
            return;
        }
        let evaluations = outcome.evaluations.iter().map(|voice| Voice {
            criterion: &voice.criterion,
            decision: voice.decision,
            reason: self.bounded(&voice.reason),
            stop_reason: voice.stop_reason,
        });
        let payload = Payload::Continuation {
            step_number: it.step,
            should_continue: outcome.should_continue,
            should_stop: !outcome.should_continue,
            stop_reason: outcome.stop_reason,
            resolved_by: &outcome.resolved_by,
            evaluations: evaluations.collect(),
        };
        frames.push(self.frame(at, &payload));
    }

    fn custom(&self, it: &CustomEventData, at: Timestamp) -> EncodedEnvelope {
        let most = self.config.max_arg_length;
        let cut = |name: &str, value: &Value| {
            self.redaction.shortened_value(name, value.clone(), most, most)
        };
        let data = match it.value() {
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), cut(name, value))).collect()
            }
            value => cut("", value),
        };
        self.frame(at, &Payload::Custom { name: it.name(), data })
    }

    /// Returns a text without secrets, truncated to the published length.
    fn bounded(&self, text: &str) -> String {
        let most = self.config.max_arg_length;
        self.redaction.shortened(text, most, most)
    }
}

/// Returns the provider's id of a call, or else its place in the execution.
fn call_id(id: Option<&Arc<str>>, step: u32, call: u16) -> Arc<str> {
    id.filter(|it| !it.is_empty())
        .map_or_else(|| format!("step-{step}-call-{call}").into(), Arc::clone)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Broadcaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcaster")
            .field("execution", &self.origin.execution)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}
