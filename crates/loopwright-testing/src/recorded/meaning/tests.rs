use std::sync::Arc;

use loopwright_core::messages::{Content, Part, Role};

use super::*;

fn answer() -> Outcome {
    let signature = ProviderPayload::new("{\"signature\":\"sig\"}");
    let parts = [
        Part::reasoning("hm").with_provider_payload(signature),
        Part::text("yes"),
        Part::new(Content::ToolCall(ToolCall::new("1", "look", "{\"a\":1}"))),
    ];
    let message = Message::new(Role::Assistant, parts);
    let usage = Usage { input: 5, output: 2, cache_read: 1, cache_write: 0, reasoning: 1 };
    let fragments = Fragments {
        text: "yes".to_owned(),
        reasoning: "hm".to_owned(),
        calls: vec![("look".to_owned(), "{\"a\":1}".to_owned())],
        ends: 1,
        problems: Vec::new(),
    };
    Outcome { answer: Ok(InferenceResponse::new(message, usage)), fragments }
}

fn expected() -> Value {
    json!({
        "text": "yes",
        "reasoning_text": "hm",
        "signatures": ["sig"],
        "tool_calls": [{ "id": "1", "name": "look", "arguments": { "a": 1 } }],
        "finish_reason": "tool_calls",
        "usage": { "input_total": 5, "output_total": 2, "cached": 1, "reasoning": 1 },
    })
}

/// Returns how many problems there are if something else is expected.
fn with(field: &str, value: Value) -> usize {
    let mut expected = expected();
    expected[field] = value;
    problems(&answer(), &serde_json::from_value(expected).unwrap()).len()
}

#[test]
fn the_answer_that_is_expected_is_right() {
    assert_eq!(problems(&answer(), &serde_json::from_value(expected()).unwrap()), [""; 0]);
}

#[test]
fn every_other_expectation_is_a_problem() {
    assert_eq!(with("text", json!("yes!")), 1);
    assert_eq!(with("reasoning_text", json!("")), 1);
    assert_eq!(with("signatures", json!(["other"])), 1);
    assert_eq!(with("tool_calls", json!([])), 1);
    assert_eq!(
        with("tool_calls", json!([{ "id": "2", "name": "look", "arguments": { "a": 1 } }])),
        1
    );
    assert_eq!(
        with("tool_calls", json!([{ "id": "1", "name": "look", "arguments": { "a": 2 } }])),
        1
    );
    assert_eq!(with("tool_calls", json!([{ "id": "1", "name": "look", "arguments": null }])), 1);
    assert_eq!(with("refusal", json!("no")), 1);
    assert_eq!(with("finish_reason", json!("stop")), 1);
    assert_eq!(with("finish_reason", json!(null)), 1);
    assert_eq!(with("finish_reason", json!("error")), 1);
    assert_eq!(with("usage", json!({ "input_total": 5, "output_total": 3, "cached": 1 })), 1);
    assert_eq!(with("usage", json!(null)), 1);
    assert_eq!(with("error", json!({ "status": 500 })), 1);
}

#[test]
fn fragments_that_are_not_the_answer_are_a_problem() {
    let expected = serde_json::from_value(expected()).unwrap();
    let after = |change: fn(&mut Fragments)| {
        let mut outcome = answer();
        change(&mut outcome.fragments);
        problems(&outcome, &expected).len()
    };
    assert_eq!(after(|it| it.text.clear()), 1);
    assert_eq!(after(|it| it.reasoning.push('!')), 1);
    assert_eq!(after(|it| it.calls[0].1.clear()), 1);
    assert_eq!(after(|it| it.ends = 0), 1);
    assert_eq!(after(|it| it.ends = 2), 1);
    assert_eq!(after(|it| it.problems.push("odd".to_owned())), 1);
}

fn error() -> ModelError {
    ModelError {
        status: Some(429),
        code: Some("slow".to_owned()),
        request_id: Some("r1".to_owned()),
        retry_after: Some(Duration::from_millis(7500)),
        ..ModelError::new(ModelErrorKind::RateLimited, "test: slow down")
    }
}

/// Returns how many problems an error has where this is expected.
fn of_error(error: ModelError, expected: Value) -> usize {
    let outcome = Outcome { answer: Err(error), fragments: Fragments::default() };
    problems(&outcome, &serde_json::from_value(expected).unwrap()).len()
}

fn expected_error() -> Value {
    json!({ "finish_reason": "error", "error": {
        "status": 429, "type": "rate", "code": "slow", "message": "slow down",
        "request_id": "r1", "retry_after": "7.5s",
    } })
}

#[test]
fn an_error_must_say_what_the_provider_said() {
    assert_eq!(of_error(error(), expected_error()), 0);
    let changed = |field: &str, value: Value| {
        let mut expected = expected_error();
        expected["error"][field] = value;
        of_error(error(), expected)
    };
    assert_eq!(changed("message", json!("other")), 1);
    assert_eq!(changed("code", json!("fast")), 1);
    assert_eq!(changed("request_id", json!(null)), 1);
    assert_eq!(changed("retry_after", json!("8")), 1);
    // Another status, and so another kind.
    assert_eq!(changed("status", json!(500)), 2);
    let mut in_the_midst = expected_error();
    in_the_midst["usage"] = json!({ "input_total": 1 });
    assert_eq!(of_error(error(), in_the_midst), 1);
    assert_eq!(of_error(error(), expected()), 1);
}

#[test]
fn the_end_is_not_passed_on_before_an_error() {
    let fragments = Fragments { ends: 1, ..Fragments::default() };
    let outcome = Outcome { answer: Err(error()), fragments };
    let expected = serde_json::from_value(expected_error()).unwrap();
    assert_eq!(problems(&outcome, &expected).len(), 1);
}

#[test]
fn arguments_that_were_cut_must_be_kept_and_not_be_run() {
    let message = |arguments: &str| {
        let call = Part::new(Content::ToolCall(ToolCall::new("1", "look", arguments)));
        Message::new(Role::Assistant, [call])
    };
    let check = |arguments: &str, finish: FinishReason| {
        let response = InferenceResponse {
            finish_reason: finish,
            ..InferenceResponse::new(message(arguments), Usage::default())
        };
        let fragments = Fragments {
            calls: vec![("look".to_owned(), arguments.to_owned())],
            ends: 1,
            ..Fragments::default()
        };
        let expected = json!({
            "tool_calls": [{ "id": "1", "name": "look", "arguments": null, "arguments_raw": "{\"a\":" }],
            "finish_reason": "length",
        });
        let outcome = Outcome { answer: Ok(response), fragments };
        problems(&outcome, &serde_json::from_value(expected).unwrap()).len()
    };
    assert_eq!(check("{\"a\":", FinishReason::Length), 0);
    assert_eq!(check("{}", FinishReason::Length), 1);
    assert_eq!(check("{\"a\":", FinishReason::ToolCalls), 1);
    let other: Arc<str> = "odd".into();
    assert_eq!(check("{\"a\":", FinishReason::Other(other)), 1);
}
