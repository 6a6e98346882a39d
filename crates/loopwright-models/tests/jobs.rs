//! Answers that a provider works on in the background.

use std::time::Duration;

use futures_util::future::BoxFuture;
use loopwright_core::{
    ChatModel as _, Clock, Delta, InferCx, ModelCache, ModelError, ModelErrorKind, Timestamp,
    messages::{InferenceRequest, InferenceResponse, Message},
};
use loopwright_models::{RemoteModel, WireApi};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    server::{Reply, Server},
    transport::Stepping,
};

struct Asked {
    answer: Answered,
    /// Methods and paths of the requests.
    requests: Vec<String>,
    waits: Vec<Duration>,
    words: String,
}

async fn ask(replies: Vec<Reply>, streams: bool) -> Asked {
    let clock = Stepping::default();
    let (answer, requests, words) =
        ask_with(replies, streams, &clock, &CancellationToken::new()).await;
    Asked { answer, requests, waits: clock.waits(), words }
}

type Answered = Result<InferenceResponse, ModelError>;

/// Returns the answer, the requests and the words that were passed on.
async fn ask_with(
    replies: Vec<Reply>,
    streams: bool,
    clock: &dyn Clock,
    cancel: &CancellationToken,
) -> (Answered, Vec<String>, String) {
    let server = Server::start(replies).await;
    let model = RemoteModel::new(WireApi::OpenAiResponses, "p", &server.address, "m").unwrap();
    let mut request = InferenceRequest::default();
    request.prompt.turns.push_message(Message::user("hi")).unwrap();
    request.options.stream = Some(streams);
    request.options.extra.insert("background".into(), true.into());
    let mut words = String::new();
    let mut deltas = |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            words.push_str(text);
        }
    };
    let memory = &mut ModelCache::default();
    let cx = InferCx { deltas: &mut deltas, cancel, deadline: None, clock, memory };
    let answer = model.infer(&request, cx).await;
    let line = |head: &str| head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    let requests = server.received().iter().map(|it| line(&it.head)).collect();
    (answer, requests, words)
}

fn job(status: &str) -> Reply {
    let output = if status == "completed" { json!([message()]) } else { json!([]) };
    let usage = json!({ "input_tokens": 5, "output_tokens": 2 });
    let body = json!({ "id": "resp_1", "status": status, "background": true, "output": output,
                       "usage": if status == "completed" { usage } else { json!(null) } });
    Reply::json(200, &body)
}

fn message() -> serde_json::Value {
    let content = json!([{ "type": "output_text", "text": "done", "annotations": [] }]);
    json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": content })
}

fn event(kind: &str) -> String {
    let response = json!({ "id": "resp_1", "status": "queued", "background": true });
    let data = json!({ "type": kind, "response": response });
    format!("event: {kind}\ndata: {data}\n\n")
}

const BEGUN: &str = "POST /responses";
const POLLED: &str = "GET /responses/resp_1";

#[tokio::test]
async fn a_job_is_asked_for_until_it_is_done_and_begun_once() {
    let replies = vec![job("queued"), job("in_progress"), job("in_progress"), job("completed")];
    let asked = ask(replies, false).await;
    assert_eq!(asked.requests, [BEGUN, POLLED, POLLED, POLLED]);
    assert_eq!(asked.waits, [1, 2, 4].map(Duration::from_secs));
    let answer = asked.answer.unwrap();
    assert_eq!((answer.message.text().as_str(), answer.usage.total()), ("done", 7));
    assert_eq!(asked.words, "done");
}

#[tokio::test]
async fn a_stream_that_breaks_before_the_first_word_is_gone_on_with_by_asking() {
    let streams = [
        Reply::Broken(vec![event("response.created"), event("response.queued")]),
        Reply::Stream(vec![event("response.created"), event("response.queued")]),
    ];
    for stream in streams {
        let asked = ask(vec![stream, job("completed")], true).await;
        assert_eq!(asked.answer.unwrap().message.text(), "done");
        assert_eq!(
            (asked.requests, asked.words),
            (vec![BEGUN.into(), POLLED.into()], "done".into())
        );
    }
}

#[tokio::test]
async fn trouble_while_asking_begins_no_other_job() {
    let replies = vec![job("queued"), Reply::error(503, ""), Reply::Drop, job("completed")];
    let asked = ask(replies, false).await;
    assert_eq!(asked.answer.unwrap().message.text(), "done");
    assert_eq!(asked.requests, [BEGUN, POLLED, POLLED, POLLED]);

    let replies = vec![job("queued"), Reply::error(503, "")];
    let asked = ask(replies, false).await;
    assert_eq!(asked.answer.unwrap_err().kind, ModelErrorKind::Unavailable);
    // It was given up, and the provider is told so.
    let cancelled = "POST /responses/resp_1/cancel";
    assert_eq!(asked.requests, [BEGUN, POLLED, POLLED, POLLED, cancelled]);
}

#[tokio::test]
async fn a_job_that_failed_is_an_error_and_needs_no_cancelling() {
    let error = json!({ "code": "invalid_prompt", "message": "no" });
    let failed = Reply::json(200, &json!({ "id": "resp_1", "status": "failed", "error": error }));
    let asked = ask(vec![job("queued"), failed], false).await;
    assert_eq!(asked.answer.unwrap_err().code.as_deref(), Some("invalid_prompt"));
    assert_eq!(asked.requests, [BEGUN, POLLED]);
}

/// A clock with which a job is given up as soon as somebody waits for it.
struct Impatient(CancellationToken);

impl Clock for Impatient {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        self.0.cancel();
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_job_that_is_not_needed_any_more_is_cancelled() {
    let clock = Impatient(CancellationToken::new());
    let cancel = clock.0.clone();
    let asked = ask_with(vec![job("queued"), job("cancelled")], false, &clock, &cancel).await;
    assert_eq!(asked.0.unwrap_err().kind, ModelErrorKind::Cancelled);
    assert_eq!(asked.1, [BEGUN, "POST /responses/resp_1/cancel"]);
}

#[tokio::test]
async fn an_answer_that_is_not_worked_on_in_the_background_is_begun_anew_when_it_breaks() {
    let begun = event("response.created").replace("\"background\":true", "\"background\":false");
    assert!(begun.contains("\"background\":false"), "{begun}");
    let asked = ask(vec![Reply::Broken(vec![begun]), job("completed")], true).await;
    assert_eq!(asked.answer.unwrap().message.text(), "done");
    assert_eq!(asked.requests, [BEGUN, BEGUN]);
}
