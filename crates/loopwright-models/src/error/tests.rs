use super::*;

fn context(status: u16) -> ErrorContext {
    ErrorContext::new("p").with_head(status, |_| None, Timestamp::default())
}

fn check(status: u16, body: &str, kind: ModelErrorKind, message: &str, code: Option<&str>) {
    let error = context(status).of_body(body.as_bytes());
    let got = (error.kind, &*error.message, error.code.as_deref());
    assert_eq!(got, (kind, &*format!("p: {message}"), code), "{status} {body}");
}

#[test]
fn every_envelope_is_opened() {
    use ModelErrorKind::{Auth, InvalidRequest, NotFound, RateLimited, Unavailable};
    check(404, r#"{"error":{"message":"m","type":"t","code":"c"}}"#, NotFound, "m", Some("c"));
    check(
        529,
        r#"{"type":"error","error":{"type":"t","message":"m"}}"#,
        Unavailable,
        "m",
        Some("t"),
    );
    check(400, r#"{"error":"m"}"#, InvalidRequest, "m", None);
    check(400, r#"{"code":"c","error":"m"}"#, InvalidRequest, "m", Some("c"));
    check(401, r#"{"detail":"m"}"#, Auth, "m", None);
    check(400, r#"{"detail":[{"msg":"m"}]}"#, InvalidRequest, r#"[{"msg":"m"}]"#, None);
    check(404, r#"{"message":"m","type":"t","code":"c"}"#, NotFound, "m", Some("c"));
    check(
        429,
        r#"[{"error":{"message":"m","code":429,"status":"S"}}]"#,
        RateLimited,
        "m",
        Some("429"),
    );
    check(500, r#"{"error":{"code":500,"message":"m","type":"t"}}"#, Unavailable, "m", Some("500"));
    check(400, r#"{"error":{}}"#, InvalidRequest, "an error", None);
    check(502, "", Unavailable, "status 502, without an explanation", None);
    check(502, " bad gateway ", Unavailable, "status 502: bad gateway", None);
}

#[test]
fn a_long_page_is_not_shown_whole() {
    let message = context(500).of_body("ä".repeat(5000).as_bytes()).message;
    assert!(message.len() < 2 * SHOWN, "{}", message.len());
}

#[test]
fn words_may_be_surer_than_the_status() {
    use ModelErrorKind::{Auth, ContextLength, NotFound, Quota};
    let kind = |status: u16, body: &str| context(status).of_body(body.as_bytes()).kind;
    assert_eq!(kind(429, r#"{"error":{"message":"m","code":"insufficient_quota"}}"#), Quota);
    assert_eq!(
        kind(400, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#),
        ContextLength
    );
    let long = r#"{"error":{"message":"This model's maximum context length is 8192 tokens"}}"#;
    assert_eq!(kind(400, long), ContextLength);
    assert_eq!(kind(400, r#"{"code":"c","error":"Incorrect API key provided"}"#), Auth);
    assert_eq!(kind(400, r#"{"error":{"message":"m","code":"model_not_found"}}"#), NotFound);
}

#[test]
fn an_error_in_a_successful_answer_is_told_by_its_words() {
    use ModelErrorKind::{InvalidRequest, RateLimited, Unavailable};
    let kind = |body: &str| context(200).of_body(body.as_bytes()).kind;
    assert_eq!(kind(r#"{"error":{"message":"m","code":429}}"#), RateLimited);
    assert_eq!(kind(r#"{"error":{"message":"m","type":"rate_limit_exceeded"}}"#), RateLimited);
    assert_eq!(kind(r#"{"error":{"message":"m","type":"overloaded_error"}}"#), Unavailable);
    assert_eq!(kind(r#"{"error":{"message":"m","status_code":400}}"#), InvalidRequest);
    assert_eq!(kind(r#"{"error":{"message":"m","type":"invalid_request_error"}}"#), InvalidRequest);
    assert_eq!(kind(r#"{"error":{"message":"m"}}"#), Unavailable);
}

#[test]
fn a_wait_may_stand_in_the_body() {
    let body = r#"{"error":{"message":"m","details":[{"x":1},{"retryDelay":"1.5s"}]}}"#;
    let error = context(429).of_body(body.as_bytes());
    assert_eq!(error.retry_after, Some(Duration::from_millis(1500)));
}

#[test]
fn secrets_are_blackened() {
    let secrets = ["sk-12345", "", "none", "provider-p"].map(Secret::new);
    let context = ErrorContext::new("provider-p");
    let context = secrets.into_iter().fold(context, ErrorContext::with_secret);
    let error = context.of_body(br#"{"error":{"message":"sk-12345 is none","code":"sk-12345"}}"#);
    assert_eq!(error.message, "provider-p: [redacted] is none");
    assert_eq!(error.code.as_deref(), Some("[redacted]"));
    assert!(!format!("{context:?}").contains("12345"));
}

#[test]
fn a_header_may_name_what_went_wrong() {
    use ModelErrorKind::{InvalidRequest, RateLimited};
    let read = |header: &'static str| {
        let head = |name: &str| (name == "x-amzn-errortype").then_some(header);
        let context = ErrorContext::new("p").with_head(400, head, Timestamp::default());
        let error = context.of_body(br#"{"message":"m"}"#);
        (error.kind, error.code)
    };
    let named = |name: &str| Some(name.to_owned());
    let invalid = read("ValidationException:http://aws/");
    assert_eq!(invalid, (InvalidRequest, named("ValidationException")));
    let quota = read("ServiceQuotaExceededException");
    assert_eq!(quota, (RateLimited, named("ServiceQuotaExceededException")));
    assert_eq!(read(""), (InvalidRequest, None));
}

#[test]
fn without_a_status_the_words_of_an_error_say_its_kind() {
    use ModelErrorKind::{Auth, InvalidRequest, NotFound, RateLimited, Timeout, Unavailable};
    for (word, kind) in [
        ("rate_limit_error", RateLimited),
        ("RESOURCE_EXHAUSTED", RateLimited),
        ("too_many_requests", RateLimited),
        ("throttlingException", RateLimited),
        ("overloaded_error", Unavailable),
        ("server_error", Unavailable),
        ("timeout_error", Timeout),
        ("authentication_error", Auth),
        ("permission_error", Auth),
        ("not_found_error", NotFound),
        ("invalid_request_error", InvalidRequest),
        ("bad_request", InvalidRequest),
        ("validationException", InvalidRequest),
        ("other", Unavailable),
    ] {
        let body = format!(r#"{{"error":{{"type":"{word}","message":"m"}}}}"#);
        assert_eq!(ErrorContext::new("p").of_body(body.as_bytes()).kind, kind, "{word}");
    }
}

#[test]
fn a_text_is_a_message() {
    check(400, r#""too long""#, ModelErrorKind::InvalidRequest, "too long", None);
}
