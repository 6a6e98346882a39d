//! Exchanges that are recorded, and answers from recordings.

use std::{fs, path::PathBuf};

use loopwright_core::{
    LlmConfig, ModelError, ModelErrorKind, ModelProvider as _,
    messages::{InferenceRequest, InferenceResponse, Message, Prompt, Turn},
};
use loopwright_models::{
    Http, ProviderConfig, Providers, RecordingError, RemoteModel, ReplayMiss, RetryPolicy, Secret,
    Timeouts, WireApi,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    server::{Reply, Server, content_event},
    transport::ask_once,
};

/// A place for a recording.
struct Tape(TempDir);

impl Tape {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("tape.jsonl")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn recording(&self) -> Http {
        Http::recording(self.path(), Timeouts::default()).unwrap()
    }

    fn replaying(&self) -> Http {
        Http::replaying(self.path()).unwrap()
    }
}

/// An address where nobody is.
const NOWHERE: &str = "http://127.0.0.1:1/v1";

async fn ask(http: &Http, address: &str, words: &str) -> Result<InferenceResponse, ModelError> {
    let chat = RemoteModel::new(WireApi::OpenAiChat, "test", address, "m").unwrap();
    let chat = chat.with_key(Secret::new("sk-hidden-key")).unwrap().with_http(http.clone());
    let turns = [Turn::from_message(Message::user(words)).unwrap()];
    let prompt = Prompt::of(turns.into_iter().collect());
    let request = InferenceRequest { prompt, ..InferenceRequest::default() };
    let chat = chat.with_retry(RetryPolicy { max_attempts: 2, ..RetryPolicy::default() });
    ask_once(&chat, &request).await
}

async fn text(http: &Http, words: &str) -> String {
    ask(http, NOWHERE, words).await.unwrap().message.text()
}

fn miss(error: &ModelError) -> &ReplayMiss {
    error.source.as_ref().unwrap().downcast_ref().unwrap()
}

#[tokio::test]
async fn recorded_exchanges_are_answered_without_a_network() {
    let server = Server::start([Reply::words(&["one"]), Reply::words(&["two"])]).await;
    let address = format!("{}/v1", server.address);
    let tape = Tape::new();
    let recording = tape.recording();
    ask(&recording, &address, "first").await.unwrap();
    ask(&recording, &address, "second").await.unwrap();
    drop(recording);

    let http = tape.replaying();
    assert_eq!(
        (text(&http, "second").await, text(&http, "first").await),
        ("two".into(), "one".into())
    );
}

#[tokio::test]
async fn equal_requests_are_answered_in_the_order_of_recording_and_each_once() {
    let server =
        Server::start([Reply::error(503, ""), Reply::words(&["a"]), Reply::words(&["b"])]).await;
    let address = format!("{}/v1", server.address);
    let tape = Tape::new();
    for _ in 0..2 {
        // A recording that is there already is gone on with.
        ask(&tape.recording(), &address, "hi").await.unwrap();
    }
    let http = tape.replaying();
    assert_eq!((text(&http, "hi").await, text(&http, "hi").await), ("a".into(), "b".into()));
    let error = ask(&http, NOWHERE, "hi").await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    assert_eq!(
        error.message,
        "test: the recording has no response to POST /v1/chat/completions: the closest request, on \
         line 2, is identical, but was already replayed"
    );
}

#[tokio::test]
async fn a_request_that_was_not_recorded_is_an_error_that_says_how_it_differs() {
    let server = Server::start([Reply::words(&["a"])]).await;
    let tape = Tape::new();
    ask(&tape.recording(), &format!("{}/v1", server.address), "first").await.unwrap();
    let http = tape.replaying();
    let expect = ReplayMiss {
        asked: "POST /v1/chat/completions".to_owned(),
        closest: Some(2),
        difference: "has \"first\" at `body.messages[0].content`; this request has \"other\""
            .to_owned(),
    };
    assert_eq!(miss(&ask(&http, NOWHERE, "other").await.unwrap_err()), &expect);
    let expect = ReplayMiss {
        asked: "POST /other/chat/completions".to_owned(),
        closest: None,
        difference: "only these paths were recorded: /v1/chat/completions".to_owned(),
    };
    let error = ask(&http, "http://127.0.0.1:1/other", "first").await.unwrap_err();
    assert_eq!(miss(&error), &expect);
}

#[tokio::test]
async fn keys_are_not_recorded() {
    let echo = json!({ "error": { "message": "bad key sk-hidden-key" } });
    let server = Server::start([Reply::json(401, &echo)]).await;
    let tape = Tape::new();
    let address = format!("{}/v1?api_key=sk-other-key&x=1", server.address);
    ask(&tape.recording(), &address, "my key is sk-hidden-key").await.unwrap_err();
    assert!(!tape.text().contains("hidden") && !tape.text().contains("other"), "{}", tape.text());
    let lines = tape.lines();
    assert_eq!(lines[0], json!({ "format": "loopwright-http", "version": 1 }));
    assert_eq!(
        lines[1],
        json!({
            "request": {
                "method": "POST", "path": "/v1/chat/completions", "query": "api_key=[redacted]&x=1",
                "headers": { "accept": "text/event-stream", "content-type": "application/json" },
                "body": {
                    "model": "m", "stream": true, "stream_options": { "include_usage": true },
                    "messages": [{ "role": "user", "content": "my key is [redacted]" }],
                },
            },
            "response": {
                "status": 401, "headers": {},
                "body": "{\"error\":{\"message\":\"bad key [redacted]\"}}",
            },
            "end": "complete",
        })
    );
}

#[tokio::test]
async fn an_aborted_exchange_is_recorded_and_replayed_as_aborted() {
    let begun = Reply::Broken(vec![content_event("Hel")]);
    let server = Server::start([begun]).await;
    let tape = Tape::new();
    let address = format!("{}/v1", server.address);
    let recorded = ask(&tape.recording(), &address, "hi").await.unwrap_err();
    let replayed = ask(&tape.replaying(), NOWHERE, "hi").await.unwrap_err();
    assert_eq!((recorded.kind, replayed.kind), (ModelErrorKind::Network, ModelErrorKind::Network));
    assert_eq!(tape.lines()[1]["end"], "aborted");

    let tape = Tape::new();
    let silent = Server::start([Reply::Drop]).await;
    ask(&tape.recording(), &format!("{}/v1", silent.address), "hi").await.unwrap_err();
    assert_eq!(tape.lines()[1].get("response"), None);
    let replayed = ask(&tape.replaying(), NOWHERE, "hi").await.unwrap_err();
    assert_eq!(replayed.kind, ModelErrorKind::Network);
}

#[tokio::test]
async fn half_a_last_line_is_left_out() {
    let server = Server::start([Reply::words(&["a"])]).await;
    let tape = Tape::new();
    let address = format!("{}/v1", server.address);
    ask(&tape.recording(), &address, "hi").await.unwrap();
    let whole = tape.text();
    fs::write(tape.path(), format!("{whole}{{\"request\":{{\"meth")).unwrap();
    assert_eq!(text(&tape.replaying(), "hi").await, "a");
    ask(&tape.recording(), &address, "more").await.unwrap();
    assert_eq!(text(&tape.replaying(), "more").await, "a");
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    let tape = Tape::new();
    let header = "{\"format\":\"loopwright-http\",\"version\":1}\n";
    let refused = |text: &str| {
        fs::write(tape.path(), text).unwrap();
        Http::replaying(tape.path()).unwrap_err()
    };
    for text in ["", "{}", "hello", "{\"format\":\"loopwright-http\",\"version\":2}\n"] {
        assert!(matches!(refused(text), RecordingError::Format { .. }), "{text}");
    }
    let damaged = refused(&format!("{header}\n[]\n"));
    assert!(matches!(damaged, RecordingError::Line { line: 3, .. }), "{damaged}");
    let missing = Http::replaying(tape.path().join("missing")).unwrap_err();
    assert!(matches!(missing, RecordingError::File { .. }), "{missing}");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read_a_recording() {
    use std::os::unix::fs::PermissionsExt as _;
    let tape = Tape::new();
    drop(tape.recording());
    assert_eq!(fs::metadata(tape.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_provider_needs_no_key_to_be_replayed() {
    let tape = Tape::new();
    drop(tape.recording());
    let provider = ProviderConfig {
        base_url: Some(NOWHERE.into()),
        key: Some(loopwright_models::SecretRef::env("K")),
        key_required: true,
        ..ProviderConfig::default()
    };
    let none = |_: &str| None;
    let providers = Providers::empty().with_keys(none).with_provider("p", provider);
    let llm = LlmConfig::named("p/m");
    assert!(providers.resolve(Some(&llm)).is_err());
    assert!(providers.with_http(tape.replaying()).resolve(Some(&llm)).is_ok());
}

#[test]
fn a_file_that_is_no_recording_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("package.json");
    std::fs::write(&file, "{\"name\":\"app\"}\n").unwrap();
    let refused = Http::recording(&file, Timeouts::default()).unwrap_err();
    let cause = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{refused}: {cause}").contains("is not a recording"), "{refused}: {cause}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"name\":\"app\"}\n");
}
