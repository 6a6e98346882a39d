//! The line of an event.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use loopwright_core::{
    AgentEvent, EventEnvelope, StopReason,
    events::{ContinuationEvaluated, ExecutionCompleted, SubagentCompleted, ToolCallCompleted},
    messages::{AgentId, FinishReason},
};
use serde_json::Value;

use super::ConsoleOptions;
use crate::{
    arguments,
    payload::Ordered,
    redact::Redactor,
    text::{sanitize_terminal, shorten, single_line},
};

/// How much of different things is shown, in characters, and in arguments.
const ERROR: usize = 100;
const TOOL_ERROR: usize = 80;
const PROMPT: usize = 60;
const ARGUMENTS: usize = 5;
const ERRORS: usize = 3;

const CYAN: Style = AnsiColor::Cyan.on_default();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const BLUE: Style = AnsiColor::Blue.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const MAGENTA: Style = AnsiColor::Magenta.on_default();
const DARK: Style = Style::new().dimmed();

/// What is said of an event: a label, its colour, and the rest.
struct Said(&'static str, Style, String);

impl ConsoleOptions {
    /// Returns the line of an event, without its end, or `None` if it is not shown.
    pub fn line(&self, envelope: &EventEnvelope) -> Option<String> {
        let Said(label, style, text) = self.say(&envelope.event)?;
        let time = if self.show_timestamps {
            let stamp = envelope.at.to_string();
            let time = stamp.split_once('T').map_or(&*stamp, |(_, time)| time);
            format!("{} ", time.trim_end_matches('Z'))
        } else {
            String::new()
        };
        let ids = if self.show_agent_ids {
            let parent = envelope.parent.as_ref().map_or("----", short);
            format!("[{parent}:{}] ", short(&envelope.agent))
        } else {
            String::new()
        };
        let mode = envelope.permission_mode.as_deref();
        let mode = mode.map(|mode| format!("[{}] ", single_line(mode, PROMPT))).unwrap_or_default();
        let style = if self.use_colors { style } else { Style::new() };
        Some(format!("{time}{ids}{mode}{style}[{label}]{style:#} {text}"))
    }

    fn say(&self, event: &AgentEvent) -> Option<Said> {
        use AgentEvent as E;
        Some(match event {
            E::ExecutionStarted(it) => {
                let how = if it.resumed { "resumed" } else { "started" };
                let text = format!("execution {how}: messages {}, tools {}", it.messages, it.tools);
                Said("EXEC", CYAN, text)
            }
            E::ExecutionCompleted(it) => done(it),
            E::ExecutionFailed(it) => {
                let error = single_line(&clean(&it.failure.to_string()), ERROR);
                Said("FAIL", RED, format!("status failed, steps {}: {error}", it.steps))
            }
            E::StepStarted(it) => {
                Said("STEP", BLUE, format!("step {} started: messages {}", it.step, it.messages))
            }
            E::StepCompleted(it) => Said("STEP", BLUE, {
                let finish = it.finish.as_ref().map_or("none", FinishReason::as_str);
                format!(
                    "step {} completed: has_tool_calls {}, errors {}, finish {}, tokens {}, {}",
                    it.step,
                    it.has_tool_calls,
                    it.errors.len(),
                    single_line(finish, PROMPT),
                    it.usage.total(),
                    seconds(it.duration)
                )
            }),
            E::ToolCallStarted(it) => {
                let asked =
                    if self.show_tool_args { self.arguments(&it.arguments) } else { String::new() };
                let text = format!("{} {asked}", single_line(&it.tool, PROMPT));
                Said("TOOL", YELLOW, text.trim_end().to_owned())
            }
            E::ToolCallCompleted(it) => tool(it),
            E::ToolCallBlocked(it) => Said("BLCK", RED, {
                let reason = single_line(&clean(&it.reason), ERROR);
                format!(
                    "{} by {}: {reason}",
                    single_line(&it.tool, PROMPT),
                    single_line(&it.hook, PROMPT)
                )
            }),
            E::ContinuationEvaluated(it) if self.show_continuation => decided(it),
            E::InferenceRequestStarted(it) if self.show_inference => Said("LLM ", CYAN, {
                let model = single_line(it.model.as_deref().unwrap_or("default"), PROMPT);
                format!("request: messages {}, model {model}", it.messages)
            }),
            E::InferenceResponseReceived(it) if self.show_inference => Said("LLM ", CYAN, {
                let (tokens, took) = (it.usage.total(), seconds(it.duration));
                let finish = single_line(it.finish.as_str(), PROMPT);
                format!("response: tokens {tokens}, {took}, finish {finish}")
            }),
            E::SubagentSpawning(it) if self.show_subagents => Said("SUB ", MAGENTA, {
                let prompt = single_line(&clean(&it.prompt), PROMPT);
                let name = single_line(&it.subagent, PROMPT);
                format!("{name} started: depth {}/{}, {prompt}", it.depth, it.max_depth)
            }),
            E::SubagentCompleted(it) if self.show_subagents => sub(it),
            E::HookExecuted(it) if self.show_hooks => Said("HOOK", DARK, {
                format!("{} {}, {}", it.point, single_line(&it.hook, PROMPT), seconds(it.duration))
            }),
            E::DecisionExtractionFailed(it) if self.show_failures => Said("FAIL", RED, {
                let error = single_line(&clean(&it.error), ERROR);
                format!("extraction failed (attempt {}/{}): {error}", it.attempt, it.max_attempts)
            }),
            E::ValidationFailed(it) if self.show_failures => Said("FAIL", RED, {
                let errors = it.errors.iter().take(ERRORS).map(|it| single_line(&clean(it), ERROR));
                format!("validation failed: {}", errors.collect::<Vec<_>>().join("; "))
            }),
            E::Custom(it) => Said("EVNT", CYAN, {
                let fields = self.arguments(&it.value().to_string());
                format!("{} {fields}", single_line(it.name(), PROMPT)).trim_end().to_owned()
            }),
            _ => return None,
        })
    }

    /// Shows what a tool is asked, as `{k=v, ...} (+n more)`.
    fn arguments(&self, arguments: &str) -> String {
        let fields = match arguments::read(arguments) {
            Ordered::Fields(fields) => fields,
            Ordered::Other(other) => return self.value("", other),
        };
        let more = fields.len().saturating_sub(ARGUMENTS);
        let shown = fields.into_iter().take(ARGUMENTS).map(|(name, value)| {
            let value = self.value(&name, value);
            format!("{}={value}", single_line(&name, PROMPT))
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        if more > 0 { format!("{{{shown}}} (+{more} more)") } else { format!("{{{shown}}}") }
    }

    fn value(&self, name: &str, value: Value) -> String {
        match Redactor::default().value(name, value) {
            Value::Array(items) => format!("[{}]", items.len()),
            Value::Object(_) => "{...}".to_owned(),
            Value::String(text) => {
                shorten(&single_line(&text, usize::MAX), self.max_arg_length, self.max_arg_length)
            }
            value => value.to_string(),
        }
    }
}

fn done(it: &ExecutionCompleted) -> Said {
    let (label, style) = if it.status == "failed" { ("FAIL", RED) } else { ("DONE", GREEN) };
    let text = format!("status {}, steps {}, tokens {}", it.status, it.steps, it.usage.total());
    Said(label, style, text)
}

fn tool(it: &ToolCallCompleted) -> Said {
    let (name, took) = (single_line(&it.tool, PROMPT), seconds(it.duration));
    if it.success {
        return Said("TOOL", YELLOW, format!("{name} completed, {took}"));
    }
    let error = single_line(&clean(&it.outcome.error_message()), TOOL_ERROR);
    Said("TOOL", RED, format!("{name} failed, {took}: {error}"))
}

fn decided(it: &ContinuationEvaluated) -> Said {
    let outcome = &it.outcome;
    let by = single_line(&outcome.resolved_by, PROMPT);
    if outcome.should_continue {
        return Said("EVAL", MAGENTA, format!("continue, resolved by {by}"));
    }
    let reason = outcome.stop_reason.map_or("none", StopReason::as_str);
    Said("EVAL", CYAN, format!("stop: {reason}, resolved by {by}"))
}

fn sub(it: &SubagentCompleted) -> Said {
    let id = it.subagent_id.as_ref().map_or("----", short);
    let (name, took) = (single_line(&it.subagent, PROMPT), seconds(it.duration));
    let (status, steps, tokens) = (&it.status, it.steps, it.usage.total());
    let text = format!("{name} [{id}] ended: {status}, steps {steps}, tokens {tokens}, {took}");
    Said("SUB ", MAGENTA, text)
}

/// Returns a text without secrets that cannot steer a terminal.
fn clean(text: &str) -> String {
    sanitize_terminal(&Redactor::default().text(text))
}

/// Returns the last four characters of an id.
fn short(id: &AgentId) -> &str {
    let id = id.as_str();
    id.char_indices().rev().nth(3).map_or(id, |(at, _)| &id[at..])
}

fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}
