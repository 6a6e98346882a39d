//! Checks that a truncated response never counts as complete.

use std::ops::Range;

use loopwright_core::{
    DiscardDeltas,
    messages::{FinishReason, InferenceResponse, ToolCall},
};
use loopwright_models::WireApi;
use serde_json::{Value, json};

use super::{
    check::Depth,
    delivery::{events, frames, lines},
    read::Subject,
};

/// What cutting an answer at many places showed.
#[derive(Debug, Default)]
pub(crate) struct TruncationCheck {
    /// Places at which a part was taken for the whole.
    pub(crate) problems: Vec<String>,
    /// Places at which only the transport can tell: what is left is an answer by its own account,
    /// whose wire has no other end than the end of the body.
    pub(crate) ambiguous: Vec<usize>,
    /// Places at which the answer was whole but for its usage.
    pub(crate) without_usage: usize,
}

/// Cuts the answer at many places, as if its body ended there, and reads what is left.
///
/// That is the worst case: a body that ends too early, with no word of the transport.
pub(crate) fn cut(subject: &Subject<'_>, depth: Depth) -> TruncationCheck {
    let mut wholeness = TruncationCheck::default();
    let body = subject.body();
    let Ok(whole) = subject.read([body]).answer else { return wholeness };
    for at in places(subject, depth) {
        let outcome = subject.read([&body[..at]]);
        let Ok(part) = outcome.answer else {
            if outcome.fragments.ends > 0 {
                wholeness
                    .problems
                    .push(format!("cut at {at}: an error, yet the end was passed on"));
            }
            continue;
        };
        match judge(subject.wire, &whole, &part, &body[..at]) {
            Verdict::Whole => {}
            Verdict::WithoutUsage => wholeness.without_usage += 1,
            Verdict::Ambiguous => wholeness.ambiguous.push(at),
            Verdict::Shorter => {
                let (part, whole) = (content(&part), content(&whole));
                wholeness.problems.push(format!("cut at {at}: {part} was taken for {whole}"));
            }
            Verdict::Runs(call) => {
                wholeness.problems.push(format!("cut at {at}: the call {call:?} is to be run"));
            }
        }
    }
    wholeness
}

/// What an answer is that was made of a part of the bytes.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Only what comes after the answer was cut off.
    Whole,
    /// Only what was consumed is missing.
    WithoutUsage,
    /// Less than the whole, but by its own account all of it.
    Ambiguous,
    /// Less than the whole.
    Shorter,
    /// It would run a call that the whole does not have.
    Runs(ToolCall),
}

fn judge(
    wire: WireApi,
    whole: &InferenceResponse,
    part: &InferenceResponse,
    kept: &[u8],
) -> Verdict {
    if let Some(call) = truncated_call(part, whole) {
        return Verdict::Runs(call.clone());
    }
    match (content(part) == content(whole), part.usage == whole.usage) {
        (true, true) => Verdict::Whole,
        (true, false) => Verdict::WithoutUsage,
        (false, _) if says_its_end(wire, kept) => Verdict::Ambiguous,
        (false, _) => Verdict::Shorter,
    }
}

/// Returns what must never be less.
pub(crate) fn content(response: &InferenceResponse) -> Value {
    let message = &response.message;
    let calls = message.tool_calls().map(|it| json!([it.id, it.name, it.arguments]));
    json!({
        "text": message.text(),
        "reasoning": message.reasoning(),
        "refusal": message.refusal(),
        "calls": calls.collect::<Vec<_>>(),
        "finish": response.finish_reason,
    })
}

/// Returns a call that would be run although its arguments were cut.
fn truncated_call<'a>(
    part: &'a InferenceResponse,
    whole: &InferenceResponse,
) -> Option<&'a ToolCall> {
    if part.finish_reason != FinishReason::ToolCalls {
        return None;
    }
    let whole: Vec<&ToolCall> = whole.message.tool_calls().collect();
    part.message.tool_calls().find(|call| !whole.contains(call))
}

/// Returns `true` if an answer that is cut here says itself, in its last complete event, that it has
/// ended, on a wire that has no other end.
fn says_its_end(wire: WireApi, kept: &[u8]) -> bool {
    let field: &[u8] = match wire.name() {
        "gemini-generate" => b"\"finishReason\"",
        "openai-chat" => b"\"finish_reason\"",
        _ => return false,
    };
    let says = |event: &[u8]| {
        let mut places = event.windows(field.len()).enumerate().filter(|it| it.1 == field);
        places.any(|(at, _)| {
            let after = event[at + field.len()..].trim_ascii_start();
            let value = after.strip_prefix(b":").unwrap_or(after).trim_ascii_start();
            value.starts_with(b"\"") && !value.starts_with(b"\"\"")
        })
    };
    kept.ends_with(b"\n") && events(kept).iter().any(|event| says(&kept[event.clone()]))
}

/// Puts an error of the provider between the events of an answer, and tells where it is not heard.
pub(crate) fn interrupt(subject: &Subject<'_>, depth: Depth) -> Vec<String> {
    let body = subject.body();
    let Some((error, pieces)) = interruption(subject) else { return Vec::new() };
    let most = if depth == Depth::Quick { 6 } else { 40 };
    let ends: Vec<usize> = pieces.iter().map(|piece| piece.end).collect();
    let step = ends.len().div_ceil(most).max(1);
    let last = ends.iter().rev().take(4);
    let mut places: Vec<usize> =
        ends.iter().step_by(step).chain(last).chain([&0]).copied().collect();
    places.sort_unstable();
    places.dedup();
    let is_missed = |at: &usize| {
        let (before, after) = body.split_at(*at);
        let Some(mut decoder) = subject.decoder() else { return false };
        let begun = decoder.push(before, &mut DiscardDeltas);
        begun.is_ok() && !decoder.is_done() && subject.read([before, error, after]).answer.is_ok()
    };
    let missed = places.iter().filter(|at| is_missed(at));
    missed.map(|at| format!("an error of the provider at {at} was not heard")).collect()
}

/// Returns an error as it comes within a stream, and where the events of the stream stand.
fn interruption(subject: &Subject<'_>) -> Option<(&'static [u8], Vec<Range<usize>>)> {
    let body = subject.body();
    let is_events = subject.response().is_success() && subject.response().is_event_stream();
    Some(match subject.wire.name() {
        "openai-chat" if is_events => {
            (b"data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n", events(body))
        }
        "openai-responses" if is_events => (
            b"data: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"overloaded\"}\n\n",
            events(body),
        ),
        "anthropic-messages" if is_events => (
            b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\
              \"message\":\"overloaded\"}}\n\n",
            events(body),
        ),
        "cohere-chat" if is_events => (
            b"event: error\ndata: {\"type\":\"error\",\"message\":\"overloaded\"}\n\n",
            events(body),
        ),
        "gemini-generate" if is_events => (
            b"data: {\"error\":{\"code\":503,\"message\":\"overloaded\",\
              \"status\":\"UNAVAILABLE\"}}\r\n\r\n",
            events(body),
        ),
        "ollama-chat" if subject.exchange.streaming && subject.response().is_success() => {
            (b"{\"error\":\"overloaded\"}\n", lines(body))
        }
        _ => return None,
    })
}

/// Returns where to cut: every byte of a short body, and of a longer one around the ends of its
/// events, at its own end and at places spread over it.
pub(crate) fn places(subject: &Subject<'_>, depth: Depth) -> Vec<usize> {
    let body = subject.body();
    let (spread, budget) = match depth {
        Depth::Quick => (24, 150_000),
        Depth::Full => (200, 2_000_000),
    };
    let length = body.len();
    // The cost of reading all parts of a body grows with the square of its length.
    if length * length / 2 <= budget {
        return (0..length).collect();
    }
    let pieces = match subject.wire.name() {
        "bedrock-converse" if subject.exchange.streaming => frames(body),
        "ollama-chat" => lines(body),
        _ if subject.response().is_event_stream() => events(body),
        _ => Vec::new(),
    };
    let most = (2 * budget / length).max(spread);
    let ends: Vec<usize> = pieces.iter().map(|piece| piece.end).collect();
    // The last events are where it is decided whether an answer is whole.
    let step = (ends.len() * 5).div_ceil(most).max(1);
    let near = |end: &usize| end.saturating_sub(2)..=end + 2;
    let decisive = ends.iter().rev().take(4).flat_map(near);
    let others = ends.iter().step_by(step).flat_map(near);
    let spread = (0..spread).map(|part| length * part / spread);
    let mut all: Vec<usize> = decisive.chain(others).chain(spread).collect();
    all.extend(length.saturating_sub(24)..length);
    all.retain(|at| *at < length);
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests;
