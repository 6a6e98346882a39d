//! Turns of a conversation.

use loopwright_core::{
    CallState, Execution, ToolOutcome,
    messages::{ToolCall, Turn},
};
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use super::markdown;
use crate::{
    ran::{ChangedArguments, RanWith},
    views::{CallView, MessageView},
};

/// The maximum number of characters shown of a result.
const MAX_SHOWN: usize = 20_000;
/// The maximum number of characters of arguments in one line.
const MAX_LINE: usize = 80;

/// Shows a turn.
pub(crate) fn turn(number: usize, agent: &str, turn: &Turn, changed: &ChangedArguments) -> Markup {
    let MessageView { role, text, calls } = MessageView::of(turn, changed);
    let calls: Vec<Call> = calls.into_iter().map(Call::from).collect();
    message(&format!("turn-{number}"), agent, &role, &text, &calls)
}

/// Shows the incomplete step of an execution: the model's text, and the current state of its calls.
pub(crate) fn open_step(
    agent: &str,
    execution: &Execution,
    changed: &ChangedArguments,
) -> Option<Markup> {
    let step = execution.open_step()?;
    let thought = step.thought()?;
    let ran = |at| changed.of_call(execution.id(), step.number(), at).cloned();
    let calls = thought.message.tool_calls().zip(step.calls()).enumerate();
    let calls: Vec<Call> =
        calls.map(|(at, (call, state))| Call { ran: ran(at), ..Call::of(call, state) }).collect();
    Some(message("turn-open", agent, "assistant", &thought.message.text(), &calls))
}

/// The rendered form of a call.
struct Call {
    tool: String,
    /// Those of the model.
    arguments: String,
    /// Those that it ran with instead.
    ran: Option<RanWith>,
    /// `done`, `failed`, `running`, `waiting` and the like.
    state: &'static str,
    result: Option<String>,
}

impl From<CallView> for Call {
    fn from(view: CallView) -> Self {
        let state = if view.is_error { "failed" } else { "done" };
        let CallView { tool, arguments, ran_with, result, .. } = view;
        Self { tool, arguments, ran: ran_with, state, result: Some(result) }
    }
}

impl Call {
    fn of(call: &ToolCall, state: &CallState) -> Self {
        let (word, result) = match state {
            CallState::Queued => ("queued", None),
            CallState::AwaitingApproval(_) | CallState::AwaitingAnswer => ("waiting for you", None),
            CallState::Decided(_) => ("decided", None),
            CallState::Started { .. } => ("running", None),
            CallState::Completed(outcome) => match &**outcome {
                ToolOutcome::Returned(output) if !outcome.is_error() => {
                    ("done", Some(output.to_text()))
                }
                outcome => ("failed", Some(outcome.error_message())),
            },
            _ => ("open", None),
        };
        let (tool, arguments) = (call.name.to_string(), call.arguments.to_string());
        Self { tool, arguments, ran: None, state: word, result }
    }
}

/// Shows a message that waits in the queue.
pub(crate) fn queued(text: &str) -> Markup {
    html! {
        article.turn.user aria-label="You" {
            h2 { "You" }
            p.plain { (shortened(text)) }
            p.hint { "Queued" }
        }
    }
}

fn message(id: &str, agent: &str, role: &str, text: &str, calls: &[Call]) -> Markup {
    let is_agent = role == "assistant";
    let name = match role {
        "assistant" => agent,
        "user" => "You",
        other => other,
    };
    html! {
        article class={ "turn " (role) } id=(id) aria-label=(name) {
            h2 { (name) }
            @if is_agent { div.prose { (PreEscaped(markdown::html(text))) } }
            @else { p.plain { (shortened(text)) } }
            @for (at, call) in calls.iter().enumerate() { (shown(&format!("{id}-{at}"), call)) }
        }
    }
}

fn shown(id: &str, call: &Call) -> Markup {
    let ran = call.ran.as_ref();
    let effective = ran.map_or(&call.arguments, |it| &it.arguments);
    html! {
        details.call id=(id) {
            summary {
                span.tool { (call.tool) } " "
                span.args { (one_line(effective)) } " "
                @if let Some(ran) = ran { span.state { (ran.word()) } " " }
                span class=(format!("state {}", call.state)) { (call.state) }
            }
            h3 { "Arguments" }
            (arguments(effective))
            @if let Some(ran) = ran {
                p.hint { (ran.explanation()) }
                h3 { "Arguments from the model" }
                (arguments(&call.arguments))
            }
            @if let Some(result) = &call.result {
                h3 { "Result" }
                pre { (shortened(result)) }
            }
        }
    }
}

/// Shows arguments by name, so that texts in them are readable.
pub(crate) fn arguments(json: &str) -> Markup {
    let Ok(Value::Object(fields)) = serde_json::from_str(json) else {
        return html! { pre { (shortened(json)) } };
    };
    html! {
        @if fields.is_empty() { p { "None." } }
        @else {
            dl {
                @for (name, value) in &fields {
                    dt { (name) }
                    dd { pre { (shortened(&text_of(value))) } }
                }
            }
        }
    }
}

/// Returns a value for display and editing: text unchanged, other values as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

/// Returns the start of a long text, with a note that it is cut.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}\n… {} more bytes", &text[..end], text.len() - end),
        None => text.to_owned(),
    }
}

/// Returns the start of a text as one line.
pub(crate) fn one_line(text: &str) -> String {
    let mut line: String =
        text.chars().take(MAX_LINE).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MAX_LINE).is_some() {
        line.push('…');
    }
    line
}
