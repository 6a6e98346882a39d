//! Calls that wait for decisions, in a form that users can review and edit.

use std::fmt::Write as _;

use axum::{extract::State, response::Response};
use loopwright_core::{AgentState, OpenStep, PendingApproval, RequestKind};
use loopwright_sessions::{JobQuery, JobStatus, SessionHeader, SessionStatus, ShownRequest};
use maud::{Markup, html};
use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use super::{
    conversation::title,
    layout::{self, Tab, time, token},
    turns::text_of,
    visitor::{Fields, Visitor},
};
use crate::{
    agents::RuleScope,
    principal::Role,
    problem::Problem,
    routes::pending::{DecisionBody, KeepBody},
    server::Server,
    views::PendingView,
};

/// The maximum number of waiting sessions listed.
const MAX_WAITING: usize = 200;

/// Lists the sessions that wait for the visitor.
pub(crate) async fn inbox(
    State(server): State<Server>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let waiting = waiting(&server, &visitor).await?;
    let main = html! {
        h1 { "Waiting for you" }
        @if waiting.is_empty() { p { "Nothing is waiting." } }
        ul.list {
            @for header in &waiting {
                li {
                    a href=(format!("/sessions/{}#pending", header.id)) { (title(header)) }
                    span.meta { span { (header.agent_name) } span { (time(header.updated_at)) } }
                }
            }
        }
    };
    Ok(layout::page("Waiting for you", &visitor, Tab::Waiting, &main))
}

/// Returns the visitor's sessions that wait for decisions.
pub(crate) async fn waiting(
    server: &Server,
    visitor: &Visitor,
) -> Result<Vec<SessionHeader>, Problem> {
    let query = JobQuery { status: Some(JobStatus::NeedsInput), ..JobQuery::last(MAX_WAITING) };
    let scope = visitor.principal.scope();
    let mut waiting: Vec<SessionHeader> = Vec::new();
    for record in server.queue()?.records(&query).await? {
        let id = &record.job.session;
        if !scope.contains(id) || waiting.iter().any(|it| it.id == *id) {
            continue;
        }
        let header = server.store().header(id).await?;
        waiting.extend(header.filter(|it| it.status != SessionStatus::Deleted));
    }
    Ok(waiting)
}

/// Shows the waiting calls of a session.
pub(crate) fn cards(
    visitor: &Visitor,
    header: &SessionHeader,
    state: &AgentState,
    views: &[PendingView],
) -> Markup {
    let pending = state.pending();
    let open = state.execution().and_then(|it| it.open_step());
    html! {
        @for asked in &pending {
            @let address = PendingApproval::format_address(&asked.address());
            @let request = ShownRequest::of(&header.id, state, asked).address().to_string();
            @let step = open.map_or(0, OpenStep::number);
            @let id = format!("ask-{step}-{}", address.replace('.', "-"));
            @let rules = views.iter().find(|it| it.call == address).map_or(&[][..], |it| &it.rules);
            (card(visitor, header, asked, (&id, &request), rules))
        }
    }
}

fn card(
    visitor: &Visitor,
    header: &SessionHeader,
    asked: &PendingApproval<'_>,
    (id, request): (&str, &str),
    rules: &[String],
) -> Markup {
    let action = format!("/sessions/{}/pending/{request}", header.id);
    let json = asked.call.arguments.to_string();
    html! {
        article.ask aria-labelledby=(id) {
            h2 id=(id) { (asked.call.name) }
            p { (asked.question.text) }
            @if asked.question.is_recovery() {
                p { strong { "The call was interrupted and may have taken effect." } }
            }
            @if let Some(hidden) = hidden(&json) {
                p role="alert" { strong { "The arguments contain invisible characters: " (hidden) } }
            }
            @if !visitor.may(Role::Approve) {
                p { "To decide, you need the role " code { "approve" } "." }
                (super::turns::arguments(&json))
            } @else {
                form.stack method="post" action=(action) {
                    (token(visitor))
                    @match asked.kind {
                        RequestKind::Question { schema } => (question(id, schema.as_deref())),
                        RequestKind::External { schema } => (result(id, schema.as_deref())),
                        _ if asked.question.is_recovery() => (recovery(id, &json)),
                        _ => (approval(id, &json, &keep(id, header, rules))),
                    }
                }
            }
        }
    }
}

/// The fields of a decision about a call.
fn approval(id: &str, json: &str, keep: &Markup) -> Markup {
    html! {
        (arguments(id, json))
        (reason(id, "Reason, if you deny the call"))
        (keep)
        div.row {
            button.yes name="decision" value="approve" { "Approve" }
            button.no name="decision" value="deny" { "Deny" }
            button.no name="decision" value="stop" { "Deny, and stop the run" }
        }
    }
}

/// The fields of a decision about a call that was interrupted.
fn recovery(id: &str, json: &str) -> Markup {
    let result = format!("{id}-result");
    html! {
        (arguments(id, json))
        label for=(result) { "Result, if the call is done" }
        (area(&result, "result", ""))
        (reason(id, "Reason, if you skip the call"))
        div.row {
            button.yes name="decision" value="approve" { "Run the call again" }
            button name="decision" value="result" { "The call is done" }
            button.no name="decision" value="deny" { "Skip the call" }
            button.no name="decision" value="stop" { "Skip the call, and stop the run" }
        }
    }
}

fn reason(id: &str, label: &str) -> Markup {
    html! {
        label for=(format!("{id}-reason")) { (label) }
        input id=(format!("{id}-reason")) name="reason" autocomplete="off";
    }
}

/// The choice how long a decision holds, with the rules that would be kept.
fn keep(id: &str, header: &SessionHeader, rules: &[String]) -> Markup {
    let mut scopes = vec![("", "for this call"), ("session", "for this session")];
    // Only the user of the server has settings that rules can be kept in.
    if header.id.tag().is_none() {
        scopes.push(("always", "from now on in this project"));
    }
    html! {
        @if !rules.is_empty() {
            fieldset {
                legend { "The decision applies" }
                @for (value, label) in scopes {
                    label.choice {
                        input type="radio" name="keep" value=(value) checked[value.is_empty()];
                        " " (label)
                    }
                }
                p id=(format!("{id}-rules")) {
                    "The saved rules: "
                    @for rule in rules { code { (rule) } " " }
                }
            }
            @for rule in rules { input type="hidden" name="rule" value=(rule); }
        }
    }
}

/// Shows the arguments, which can be edited.
fn arguments(id: &str, json: &str) -> Markup {
    let arguments: Value = serde_json::from_str(json).unwrap_or(Value::Null);
    html! {
        @for difference in differences(&arguments) { (difference) }
        details {
            summary { "Edit the arguments" }
            @if let Value::Object(fields) = &arguments {
                @for (name, value) in fields {
                    @let field = format!("{id}-arg-{name}");
                    label for=(field) { (name) }
                    (area(&field, &format!("arg.{name}"), &text_of(value)))
                }
            } @else {
                @let field = format!("{id}-args");
                label for=(field) { "Arguments" }
                (area(&field, "arguments", json))
            }
        }
    }
}

fn area(id: &str, name: &str, text: &str) -> Markup {
    let rows = text.lines().count().clamp(1, 20);
    // HTML parsers drop the first line feed.
    html! { textarea id=(id) name=(name) rows=(rows) spellcheck="false" { "\n" (text) } }
}

/// The fields of the answer to a question.
fn question(id: &str, schema: Option<&Value>) -> Markup {
    html! {
        (answer_fields(id, "Answer", schema))
        div.row {
            button.yes name="decision" value="answer" { "Answer" }
            button.no name="decision" value="deny" formnovalidate { "Decline to answer" }
            button name="decision" value="cancel" formnovalidate { "Leave it unanswered" }
            button.no name="decision" value="stop" formnovalidate { "Decline, and stop the run" }
        }
    }
}

/// The fields of the result of a tool that runs elsewhere.
fn result(id: &str, schema: Option<&Value>) -> Markup {
    let message = format!("{id}-message");
    html! {
        (answer_fields(id, "Result", schema))
        label for=(message) { "Error, if the tool failed" }
        input id=(message) name="message" autocomplete="off";
        (reason(id, "Reason, if you deny the call"))
        div.row {
            button.yes name="decision" value="answer" { "Give the result" }
            button name="decision" value="error" formnovalidate { "Report the error" }
            button.no name="decision" value="deny" formnovalidate { "Deny" }
            button.no name="decision" value="stop" formnovalidate { "Deny, and stop the run" }
        }
    }
}

fn answer_fields(id: &str, name: &str, schema: Option<&Value>) -> Markup {
    let options = schema.map(options).unwrap_or_default();
    let takes_text = schema.is_none_or(takes_text);
    let field = format!("{id}-answer");
    html! {
        @if !options.is_empty() {
            fieldset {
                legend { (name) }
                @for (at, option) in options.iter().enumerate() {
                    label.choice {
                        input type="radio" name="option" value=(at) required[!takes_text];
                        " " (text_of(option))
                    }
                }
            }
        }
        @if takes_text || options.is_empty() {
            label for=(field) { @if options.is_empty() { (name) } @else { "Another answer" } }
            (area(&field, "answer", ""))
            @if let Some(schema) = schema.filter(|_| !takes_text) {
                details {
                    summary { "Answer with JSON that matches this schema" }
                    pre { (serde_json::to_string_pretty(schema).unwrap_or_default()) }
                }
            }
        }
    }
}

/// Returns the values that a schema lists.
fn options(schema: &Value) -> Vec<Value> {
    if schema["type"] == "boolean" {
        return vec![Value::Bool(true), Value::Bool(false)];
    }
    let of = |it: &Value| it["enum"].as_array().cloned();
    let nested = || schema["anyOf"].as_array()?.iter().find_map(of);
    of(schema).or_else(nested).unwrap_or_default()
}

/// Returns `true` if a schema accepts any text.
fn takes_text(schema: &Value) -> bool {
    let is_text = |it: &Value| it["type"] == "string" && it.get("enum").is_none();
    is_text(schema) || schema["anyOf"].as_array().is_some_and(|it| it.iter().any(is_text))
}

/// Reads the visitor's decision.
pub(crate) fn decision(
    fields: &Fields,
    asked: &PendingApproval<'_>,
) -> Result<DecisionBody, Problem> {
    match fields.text("decision") {
        "approve" => {
            let arguments = edited(fields, asked)?;
            Ok(DecisionBody::Approve { arguments, keep: kept(fields) })
        }
        "deny" => Ok(DecisionBody::Deny { reason: filled(fields, "reason"), keep: kept(fields) }),
        "stop" => Ok(DecisionBody::Stop { reason: filled(fields, "reason"), keep: kept(fields) }),
        "cancel" => Ok(DecisionBody::Cancel),
        "result" => {
            let text = filled(fields, "result").map(|it| lines(&it, ""));
            Ok(DecisionBody::Result { text: text.unwrap_or_else(|| UNKNOWN.to_owned()) })
        }
        "error" => match filled(fields, "message") {
            Some(message) => Ok(DecisionBody::Error { message }),
            None => Err(Problem::invalid("describe the error")),
        },
        "answer" => {
            let schema = match asked.kind {
                RequestKind::Question { schema } | RequestKind::External { schema } => {
                    schema.as_deref()
                }
                _ => None,
            };
            Ok(DecisionBody::Answer { answer: answer(fields, schema)? })
        }
        _ => Err(Problem::bad_request("choose a decision")),
    }
}

/// The result of an interrupted call that is done, if the visitor wrote none.
const UNKNOWN: &str = "The user reports that the call is done; the result is unknown.";

/// Returns a field, or `None` if it is empty.
fn filled(fields: &Fields, name: &str) -> Option<String> {
    Some(fields.text(name).to_owned()).filter(|it| !it.is_empty())
}

/// Returns the rules that the visitor keeps with the decision.
fn kept(fields: &Fields) -> Option<KeepBody> {
    let scope = match fields.text("keep") {
        "session" => RuleScope::Session,
        "always" => RuleScope::Always,
        _ => return None,
    };
    Some(KeepBody { scope, rules: fields.all("rule").map(|it| lines(it, "")).collect() })
}

fn answer(fields: &Fields, schema: Option<&Value>) -> Result<Value, Problem> {
    let text = lines(fields.raw("answer").unwrap_or_default(), "");
    let text = text.trim();
    if text.is_empty() {
        let options = schema.map(options).unwrap_or_default();
        let chosen = fields.number("option")?.and_then(|it| usize::try_from(it).ok());
        let chosen = chosen.and_then(|it| options.get(it).cloned());
        return chosen.ok_or_else(|| Problem::invalid("answer the question"));
    }
    if schema.is_none_or(takes_text) {
        return Ok(text.into());
    }
    serde_json::from_str(text)
        .map_err(|error| Problem::invalid(format!("the answer is not valid JSON: {error}")))
}

/// Returns the arguments, if the visitor changed them.
fn edited(fields: &Fields, asked: &PendingApproval<'_>) -> Result<Option<Value>, Problem> {
    let json = asked.call.arguments.to_string();
    let before: Value = serde_json::from_str(&json).unwrap_or(Value::Null);
    let Value::Object(known) = &before else {
        let Some(text) = fields.raw("arguments").filter(|it| it.trim() != json.trim()) else {
            return Ok(None);
        };
        return parsed("arguments", text).map(Some);
    };
    let mut after = Map::new();
    for (name, value) in known {
        let sent = fields.raw(&format!("arg.{name}"));
        let value = match (value, sent) {
            (_, None) => value.clone(),
            (Value::String(text), Some(sent)) => Value::String(lines(sent, text)),
            (value, Some(sent)) if lines(sent, "") == text_of(value) => value.clone(),
            (_, Some(sent)) => parsed(name, sent)?,
        };
        after.insert(name.clone(), value);
    }
    let after = Value::Object(after);
    Ok((after != before).then_some(after))
}

fn parsed(name: &str, text: &str) -> Result<Value, Problem> {
    serde_json::from_str(text)
        .map_err(|error| Problem::invalid(format!("`{name}` is not valid JSON: {error}")))
}

/// Restores the original line endings of a text: forms send CR LF.
fn lines(sent: &str, before: &str) -> String {
    let plain = sent.replace("\r\n", "\n");
    if plain == before.replace("\r\n", "\n") { before.to_owned() } else { plain }
}

/// Shows what a call would change, as far as its arguments show it: pairs of old and new text, or only new text.
fn differences(arguments: &Value) -> Vec<Markup> {
    let mut all: Vec<&Value> = vec![arguments];
    all.extend(arguments["edits"].as_array().into_iter().flatten());
    let pairs = all.into_iter().filter_map(|it| {
        let text = |name: &str| it[name].as_str();
        let old = text("old_string").or_else(|| text("old_text")).or_else(|| text("old"));
        let new = text("new_string").or_else(|| text("new_text")).or_else(|| text("new"));
        match (old, new) {
            (Some(old), Some(new)) => Some((old, new)),
            _ => Some(("", text("content")?)),
        }
    });
    let path = arguments["path"].as_str().or_else(|| arguments["file_path"].as_str());
    pairs
        .map(|(old, new)| {
            html! {
                figure.diff {
                    figcaption { (path.unwrap_or("Change")) }
                    (diff(old, new))
                }
            }
        })
        .collect()
}

/// Shows the difference between two texts.
pub(crate) fn diff(old: &str, new: &str) -> Markup {
    let diff = TextDiff::from_lines(old, new);
    html! {
        pre.diff {
            @for change in diff.iter_all_changes() {
                @let text = change.value().trim_end_matches('\n');
                @match change.tag() {
                    ChangeTag::Delete => del { "- " (text) "\n" },
                    ChangeTag::Insert => ins { "+ " (text) "\n" },
                    ChangeTag::Equal => span { "  " (text) "\n" },
                }
            }
        }
    }
}

/// Lists the invisible characters of a text that change its appearance.
fn hidden(text: &str) -> Option<String> {
    let is_hidden = |c: &char| {
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}')
    };
    let mut found: Vec<char> = text.chars().filter(is_hidden).collect();
    found.sort_unstable();
    found.dedup();
    let mut names = String::new();
    for c in found {
        let comma = if names.is_empty() { "" } else { ", " };
        write!(names, "{comma}U+{:04X}", u32::from(c)).ok()?;
    }
    (!names.is_empty()).then_some(names)
}
