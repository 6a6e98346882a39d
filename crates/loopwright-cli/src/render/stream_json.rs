//! One JSON object per line for each event.
//!
//! The first line of a run is of type `init`, the last one of type `result`. All others name their agent in
//! `agent_id`, and lines of sub-agents the agent that they work for in `parent_agent_id`. In mode `unconfined`,
//! every line names it in `permission_mode`. Between the runs of a chat stand lines of type `permission_mode_changed`. Types and fields may be added; what is there does not change within a version
//! of the schema.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write as _};
use std::time::Duration;

use loopwright_core::{AgentEvent, StreamFragment, ToolOutcome};
use serde_json::{Value, json};

use super::text::Scope;
use super::words;
use super::{Answer, Beginning, Output, Progress, Renderer, Source, UiEvent, Verbosity};
use crate::report::{SCHEMA_VERSION, Tokens};

/// Writes lines to standard output.
pub struct StreamJson {
    output: Output,
    progress: Progress,
    scope: Scope,
    has_begun: bool,
    /// Agents whose answer under way came in fragments.
    have_spoken: BTreeSet<Source>,
}

impl StreamJson {
    /// Writes to the standard output of this process. Events are written there, so that standard
    /// error only shows what went wrong.
    pub fn stdout(scope: Scope) -> Self {
        Self::to(Box::new(io::stdout()), Progress::stderr(Verbosity::Errors), scope)
    }

    pub(super) fn to(output: Output, progress: Progress, scope: Scope) -> Self {
        Self { output, progress, scope, has_begun: false, have_spoken: BTreeSet::new() }
    }

    fn write(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        writeln!(self.output, "{}", words::json(value)?)?;
        self.output.flush()
    }

    fn write_of(&mut self, source: &Source, mut line: Value) -> io::Result<()> {
        source.label(&mut line);
        self.write(&line)
    }

    fn answered(&mut self, answer: &Answer) -> io::Result<()> {
        let (source, step) = (&answer.source, answer.step);
        if !self.have_spoken.remove(source) && !answer.text.is_empty() {
            let line = json!({"type": "text_delta", "step": step, "text": answer.text});
            self.write_of(source, line)?;
        }
        for (index, call) in (0u16..).zip(&answer.calls) {
            // What is no JSON is shown as the text that it is.
            let arguments = serde_json::from_str(&call.arguments)
                .unwrap_or_else(|_| Value::String(call.arguments.to_string()));
            let line = json!({
                "type": "tool_call", "step": step, "call": index, "id": call.id,
                "tool": call.name, "arguments": arguments,
            });
            self.write_of(source, line)?;
        }
        Ok(())
    }
}

impl Renderer for StreamJson {
    fn take(&mut self, note: &UiEvent) -> io::Result<()> {
        self.progress.take(note);
        match note {
            UiEvent::Over(report) => {
                // What could not begin has an `init` too, which knows nothing.
                if !self.has_begun && self.scope == Scope::All {
                    self.write(&init(&Beginning::default()))?;
                }
                self.write(report)
            }
            _ if self.scope == Scope::Answer => Ok(()),
            UiEvent::Began(beginning) => {
                self.has_begun = true;
                self.write(&init(beginning))
            }
            UiEvent::ModeChanged(change) => self.write(&json!({
                "type": "permission_mode_changed", "before": change.before, "permission_mode": change.now,
            })),
            UiEvent::Answered(answer) if answer.aside => Ok(()),
            UiEvent::Answered(answer) => self.answered(answer),
            UiEvent::Event(source, event) => {
                if is_text(event) {
                    self.have_spoken.insert(source.clone());
                }
                line(event).map_or(Ok(()), |line| self.write_of(source, line))
            }
            UiEvent::Line(_)
            | UiEvent::Changed(_)
            | UiEvent::Running(_)
            | UiEvent::Interrupted
            | UiEvent::Typing(_)
            | UiEvent::Verifying(_)
            | UiEvent::Verified(_)
            | UiEvent::Sent(_)
            | UiEvent::Queued(_)
            | UiEvent::Told(_) => Ok(()),
        }
    }
}

fn init(beginning: &Beginning) -> Value {
    let mut init = json!({
        "type": "init", "schema_version": SCHEMA_VERSION, "version": env!("CARGO_PKG_VERSION"),
        "model": beginning.model, "tools": beginning.tools, "workdir": beginning.workdir,
        "permission_mode": beginning.permission_mode, "loaded": beginning.loaded,
    });
    if let Some(session) = &beginning.session_id {
        init["session_id"] = json!(session);
    }
    init
}

fn is_text(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::StreamDelta(it) if !it.aside && matches!(it.delta, StreamFragment::Text(_)))
}

/// Returns the line of an event; `None` for those that others already tell.
fn line(event: &AgentEvent) -> Option<Value> {
    Some(match event {
        AgentEvent::StepStarted(it) => json!({"type": "step_started", "step": it.step}),
        AgentEvent::StreamDelta(it) if it.aside => return None,
        AgentEvent::StreamDelta(it) => match &it.delta {
            StreamFragment::Text(text) => {
                json!({"type": "text_delta", "step": it.step, "text": text})
            }
            StreamFragment::Reasoning(text) => {
                json!({"type": "reasoning_delta", "step": it.step, "text": text})
            }
            _ => return None,
        },
        AgentEvent::ToolCallCompleted(it) => {
            let mut line = json!({
                "type": "tool_result", "step": it.step, "call": it.call, "id": it.id, "tool": it.tool,
                "success": it.success, "output": output(&it.outcome), "error": error(&it.outcome),
                "duration_ms": millis(it.duration),
            });
            if let Some(code) = exit_code(&it.outcome) {
                line["exit_code"] = code;
            }
            line
        }
        AgentEvent::ToolApprovalRequested(it) => json!({
            "type": "tool_approval_request", "step": it.step, "call": it.call, "tool": it.tool,
            "arguments": serde_json::from_str::<Value>(&it.arguments).ok(), "question": it.question.text,
        }),
        AgentEvent::StepCompleted(it) => json!({
            "type": "step_completed", "step": it.step, "kind": it.kind,
            "finish_reason": it.finish.as_ref().map(loopwright_core::messages::FinishReason::as_str),
            "usage": Tokens::from(it.usage), "errors": it.errors, "duration_ms": millis(it.duration),
        }),
        AgentEvent::ContinuationEvaluated(it) => json!({
            "type": "continuation", "step": it.step, "should_continue": it.outcome.should_continue,
            "decided_by": it.outcome.resolved_by, "stop_reason": it.outcome.stop_reason,
        }),
        AgentEvent::StopSignalReceived(it) => json!({
            "type": "stop_signal", "reason": it.signal.reason, "message": it.signal.message,
            "source": it.signal.source,
        }),
        AgentEvent::ExecutionPaused(it) => json!({"type": "paused", "calls": it.calls}),
        AgentEvent::Custom(it) => json!({"type": "event", "name": it.name(), "data": it.value()}),
        _ => return None,
    })
}

fn output(outcome: &ToolOutcome) -> Option<String> {
    outcome.output().map(loopwright_core::ToolOutput::to_text)
}

/// Returns the exit code of a command.
fn exit_code(outcome: &ToolOutcome) -> Option<Value> {
    outcome.output()?.value.as_deref()?.get("exit_code").cloned()
}

fn error(outcome: &ToolOutcome) -> Option<String> {
    outcome.is_error().then(|| outcome.error_message())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for StreamJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamJson").field("scope", &self.scope).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::CustomEvent;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct TicketCreated {
        number: u32,
    }

    impl CustomEvent for TicketCreated {
        const NAME: &'static str = "ticket_created";
    }

    #[test]
    fn a_custom_event_is_a_line_with_its_name_and_fields() {
        let expect = json!({"type": "event", "name": "ticket_created", "data": {"number": 7}});
        assert_eq!(line(&TicketCreated { number: 7 }.into()), Some(expect));
    }
}
