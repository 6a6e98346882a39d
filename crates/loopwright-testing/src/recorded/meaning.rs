//! Comparison of responses with their expected meaning.

use std::time::Duration;

use loopwright_core::{
    ModelError, ModelErrorKind,
    messages::{FinishReason, InferenceResponse, Message, ProviderPayload, ToolCall, Usage},
};
use serde_json::{Map, Value, json};

use super::{
    expectation::{ExpectedAnswer, ExpectedCall, ExpectedError},
    read::{Fragments, Outcome},
};

/// Says in which points an outcome is not what is expected.
pub(crate) fn problems(outcome: &Outcome, expected: &ExpectedAnswer) -> Vec<String> {
    let Outcome { answer, fragments } = outcome;
    let mut problems = fragments.problems.clone();
    match (answer, &expected.error) {
        (Ok(response), None) if expected.finish_reason.as_deref() == Some("error") => {
            problems.push(format!("should be an error, is {:?}", response.finish_reason));
        }
        (Ok(response), None) => {
            problems.extend(differing(&wanted(response, expected), &told(response)));
            problems.extend(lost_signatures(&response.message, expected));
            problems.extend(differing(&fragments_of(&response.message), &fragments.told()));
        }
        (Ok(response), Some(error)) => {
            problems.push(format!("should be the error {error:?}, is {:?}", told(response)));
        }
        (Err(error), expected_error) => {
            match expected_error {
                Some(expected_error) => {
                    problems.extend(error_problems(error, expected_error, expected));
                }
                None if expected.finish_reason.as_deref() == Some("error") => {}
                None => problems.push(format!("is an error: {:?}: {error}", error.kind)),
            }
            if fragments.ends > 0 {
                problems.push("the end was passed on of an answer that is an error".to_owned());
            }
        }
    }
    problems
}

/// Returns the fields in which two objects differ.
fn differing(want: &Value, got: &Value) -> Vec<String> {
    let names = want.as_object().into_iter().flat_map(Map::keys);
    let differs = |name: &&String| want[name.as_str()] != got[name.as_str()];
    let say = |name: &String| format!("{name}: wanted {}, got {}", want[name], got[name]);
    names.filter(differs).map(say).collect()
}

/// Returns an answer in the words of the expectations.
fn told(response: &InferenceResponse) -> Value {
    let message = &response.message;
    json!({
        "text": message.text(),
        "reasoning": message.reasoning(),
        "refusal": message.refusal(),
        "calls": message.tool_calls().map(told_call).collect::<Vec<_>>(),
        "finish": finish(&response.finish_reason),
        "usage": told_usage(response.usage),
    })
}

fn finish(finish: &FinishReason) -> &str {
    match finish {
        FinishReason::Other(_) => "other",
        known => known.as_str(),
    }
}

fn told_call(call: &ToolCall) -> Value {
    let arguments = call.parse_arguments().unwrap_or_else(|_| unparsable(&call.arguments));
    let id = call.id.as_deref().filter(|id| !id.is_empty());
    json!({ "id": id, "name": call.name, "arguments": arguments })
}

fn unparsable(text: &str) -> Value {
    json!(format!("not JSON: {text}"))
}

fn told_usage(usage: Usage) -> Value {
    let Usage { input, output, cache_read: cached, cache_write, reasoning } = usage;
    json!([input, output, cached, cache_write, reasoning])
}

/// Returns what is expected, in the same form. Of a call whose arguments are no JSON text anyway, it
/// only matters that they are kept.
fn wanted(response: &InferenceResponse, expected: &ExpectedAnswer) -> Value {
    let got: Vec<&ToolCall> = response.message.tool_calls().collect();
    let calls = expected.tool_calls.iter().enumerate();
    let calls = calls.map(|(index, call)| wanted_call(call, got.get(index).copied()));
    let refuses = expected.refusal.is_some() && expected.text.is_empty();
    let finish = match expected.finish_reason.as_deref() {
        Some("stop") if refuses => "refusal",
        Some(known @ ("stop" | "tool_calls" | "length" | "content_filter" | "refusal")) => known,
        _ => "other",
    };
    json!({
        "text": expected.text,
        "reasoning": expected.reasoning_text,
        "refusal": expected.refusal,
        "calls": calls.collect::<Vec<_>>(),
        "finish": finish,
        "usage": told_usage(expected.usage()),
    })
}

fn wanted_call(call: &ExpectedCall, got: Option<&ToolCall>) -> Value {
    let raw = call.arguments_raw.as_deref().unwrap_or_default();
    let arguments = match (&call.arguments, &call.kind, got) {
        (Some(arguments), ..) => arguments.clone(),
        (None, Some(_), Some(got)) if holds(got, raw) => told_call(got)["arguments"].clone(),
        (None, ..) => unparsable(raw),
    };
    json!({ "id": call.id, "name": call.name, "arguments": arguments })
}

/// Returns `true` if a call that is not one of a function keeps its input.
fn holds(call: &ToolCall, input: &str) -> bool {
    let parsed = call.parse_arguments().unwrap_or_default();
    let is_field = || parsed.as_object().is_some_and(|it| it.values().any(|it| it == input));
    *call.arguments == *input || parsed == input || is_field()
}

fn lost_signatures(message: &Message, expected: &ExpectedAnswer) -> Vec<String> {
    let opaque = message.parts().iter().filter_map(|part| part.opaque());
    let kept: String = opaque.map(ProviderPayload::as_str).collect();
    let is_lost = |signature: &&String| {
        let quoted = Value::from(signature.as_str()).to_string();
        !kept.contains(quoted.trim_matches('"'))
    };
    let lost = expected.signatures.iter().filter(is_lost);
    lost.map(|it| format!("the signature {it:.40} was lost")).collect()
}

/// Returns what must have been passed on of a message.
fn fragments_of(message: &Message) -> Value {
    let calls = message.tool_calls().map(|it| json!([it.name, it.arguments]));
    json!({
        "text in fragments": message.text(),
        "reasoning in fragments": message.reasoning(),
        "calls in fragments": calls.collect::<Vec<_>>(),
        "ends": 1,
    })
}

impl Fragments {
    fn told(&self) -> Value {
        json!({
            "text in fragments": self.text,
            "reasoning in fragments": self.reasoning,
            "calls in fragments": self.calls,
            "ends": self.ends,
        })
    }
}

fn error_problems(
    error: &ModelError,
    expected: &ExpectedError,
    answer: &ExpectedAnswer,
) -> Vec<String> {
    let words = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|it| !it.is_empty()),
        other => Some(other.to_string()),
    };
    let code = expected.code.as_ref().and_then(words);
    let want = json!({
        "status": expected.status,
        "code": code.or_else(|| expected.r#type.clone().filter(|it| !it.is_empty())),
        "request id": expected.request_id,
        "usage": told_usage(answer.usage()),
    });
    let got = json!({
        "status": error.status,
        "code": error.code,
        "request id": error.request_id,
        "usage": told_usage(error.usage),
    });
    let mut problems = differing(&want, &got);
    // A time that is not expected may stand in headers that only some providers have.
    let (want, got) = (expected.retry_after.as_deref().and_then(seconds), error.retry_after);
    if want.is_some() && want != got.map(|it| it.as_secs_f64()) {
        problems.push(format!("retry after: wanted {want:?}, got {got:?}"));
    }
    let message = expected.message.as_deref().unwrap_or_default();
    if !error.message.contains(message) {
        problems.push(format!("message: wanted {message:?}, got {:?}", error.message));
    }
    let kinds = kinds(expected);
    if !kinds.contains(&error.kind) {
        problems.push(format!("kind: wanted one of {kinds:?}, got {:?}", error.kind));
    }
    problems
}

/// Reads a time to wait, such as `7` or `7s`.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = text.strip_suffix('s').unwrap_or(text);
    let seconds = Duration::try_from_secs_f64(number.parse().ok()?).ok()?;
    Some(seconds.as_secs_f64())
}

/// Returns the kinds that may be made of an error: what is said counts before the status.
fn kinds(error: &ExpectedError) -> Vec<ModelErrorKind> {
    use ModelErrorKind::{
        Auth, ContextLength, InvalidRequest, NotFound, Quota, RateLimited, Timeout, Unavailable,
    };
    let code =
        error.code.as_ref().map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
    let code = code.unwrap_or_default();
    let kind = error.r#type.as_deref().unwrap_or_default();
    let words = format!("{code} {kind}").to_ascii_lowercase();
    let message = error.message.as_deref().unwrap_or_default().to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let says = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    if has(&["insufficient_quota", "billing", "insufficient_balance"]) {
        return vec![Quota];
    }
    if has(&["context_length", "string_above_max"])
        || says(&["context length", "context window", "prompt is too long", "maximum context"])
    {
        return vec![ContextLength];
    }
    if says(&["api key"]) {
        return vec![Auth];
    }
    match error.status {
        Some(401 | 403) => vec![Auth],
        Some(402) => vec![Quota],
        Some(404) => vec![NotFound],
        Some(408 | 504) => vec![Timeout],
        Some(413) => vec![ContextLength],
        Some(429) => vec![RateLimited],
        Some(400 | 422) if has(&["not_found"]) || says(&["not found"]) => {
            vec![NotFound, InvalidRequest]
        }
        Some(409 | 500..) => vec![Unavailable],
        Some(400..) => vec![InvalidRequest],
        _ if has(&["rate_limit", "resource_exhausted", "too_many", "throttling", "429"]) => {
            vec![RateLimited]
        }
        _ if has(&["overloaded", "server_error", "unavailable", "api_error", "internal"]) => {
            vec![Unavailable]
        }
        _ if has(&["timeout", "504"]) => vec![Timeout],
        _ if has(&["authentication", "permission", "401", "403"]) => vec![Auth],
        _ if has(&["not_found", "404"]) => vec![NotFound],
        _ if has(&["invalid", "tool_use_failed", "bad_request", "validation", "400"]) => {
            vec![InvalidRequest]
        }
        _ => vec![Unavailable, InvalidRequest, RateLimited, Timeout],
    }
}

#[cfg(test)]
mod tests;
