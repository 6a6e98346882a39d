//! A model over HTTP: answers, retries, time and cancellation.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use loopwright_core::{
    ChatModel as _, Clock, Delta, InferCx, ModelCache, ModelError, ModelErrorKind, Timestamp,
    messages::{Cost, FinishReason, InferenceRequest, InferenceResponse, Message, Prompt, Usage},
};
use loopwright_models::{
    Http, ModelCatalog, ModelInfo, Price, Prices, RemoteModel, RetryPolicy, Secret, Timeouts,
    WireApi,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

use crate::server::{Reply, Server, content_event, finish_event};

/// A clock that stands still but for the waits it is asked for, which take no time.
#[derive(Default)]
pub(crate) struct Stepping {
    now: AtomicU64,
    waits: Mutex<Vec<Duration>>,
}

impl Stepping {
    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.waits.lock().unwrap().clone()
    }
}

impl Clock for Stepping {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.now.fetch_add(u64::try_from(duration.as_millis()).unwrap(), Ordering::Relaxed);
        self.waits.lock().unwrap().push(duration);
        Box::pin(std::future::ready(()))
    }
}

/// What came of a question.
struct Asked {
    answer: Result<InferenceResponse, ModelError>,
    fragments: Vec<String>,
    waits: Vec<Duration>,
    server: Server,
}

impl Asked {
    fn text(&self) -> String {
        self.answer.as_ref().unwrap().message.text()
    }

    fn error(&self) -> &ModelError {
        self.answer.as_ref().unwrap_err()
    }

    fn requests(&self) -> usize {
        self.server.received().len()
    }
}

fn question() -> InferenceRequest {
    let turns =
        [Message::user("hi")].map(|it| loopwright_core::messages::Turn::from_message(it).unwrap());
    let prompt = Prompt::of(turns.into_iter().collect());
    InferenceRequest { prompt, ..InferenceRequest::default() }
}

fn chat(server: &Server) -> RemoteModel {
    let timeouts = Timeouts {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_millis(300),
        idle: Duration::from_millis(300),
        ..Timeouts::default()
    };
    let chat =
        RemoteModel::new(WireApi::OpenAiChat, "test", &format!("{}/v1", server.address), "m")
            .unwrap();
    chat.with_key(Secret::new("sk-hidden")).unwrap().with_http(Http::new(timeouts))
}

async fn ask(replies: impl IntoIterator<Item = Reply>) -> Asked {
    ask_with(replies, question(), None).await
}

async fn ask_with(
    replies: impl IntoIterator<Item = Reply>,
    request: InferenceRequest,
    deadline: Option<u64>,
) -> Asked {
    let server = Server::start(replies).await;
    let clock = Stepping::default();
    let mut fragments = Vec::new();
    let answer = {
        let mut deltas = |delta: Delta<'_>| fragments.push(format!("{delta:?}"));
        let cx = InferCx {
            deltas: &mut deltas,
            cancel: &CancellationToken::new(),
            deadline: deadline.map(Duration::from_millis),
            clock: &clock,
            memory: &mut ModelCache::default(),
        };
        chat(&server).infer(&request, cx).await
    };
    let waits = clock.waits();
    Asked { answer, fragments, waits, server }
}

fn usage_after(error: &ModelError) -> u64 {
    error.usage.total()
}

#[tokio::test]
async fn a_stream_is_passed_on_and_returned() {
    let asked = ask([Reply::words(&["Hel", "lo"])]).await;
    let response = asked.answer.as_ref().unwrap();
    assert_eq!(asked.text(), "Hello");
    assert_eq!(response.finish_reason, FinishReason::Stop);
    assert_eq!(response.usage, Usage::new(5, 2));
    let origin = response.message.origin().unwrap();
    assert_eq!((&*origin.wire, &*origin.provider, &*origin.model), ("openai-chat", "test", "m"));
    let ends = asked.fragments.iter().filter(|it| *it == "End").count();
    assert_eq!(
        (&*asked.fragments[0], &*asked.fragments[1], ends),
        ("Text(\"Hel\")", "Text(\"lo\")", 1)
    );

    let received = &asked.server.received()[0];
    assert!(received.head.starts_with("POST /v1/chat/completions "), "{}", received.head);
    assert_eq!(received.header("authorization"), Some("Bearer sk-hidden"));
    assert_eq!(received.header("content-type"), Some("application/json"));
    assert_eq!(received.json()["stream"], true);
}

#[tokio::test]
async fn an_answer_may_come_whole() {
    let body = json!({ "id": "c1", "choices": [{ "message": { "content": "Hello" }, "finish_reason": "stop" }] });
    let mut request = question();
    request.options.stream = Some(false);
    let asked = ask_with([Reply::json(200, &body)], request, None).await;
    assert_eq!(asked.text(), "Hello");
    assert_eq!(asked.answer.as_ref().unwrap().id.as_deref(), Some("c1"));
    assert_eq!(asked.fragments.last().unwrap(), "End");
    assert_eq!(asked.server.received()[0].json()["stream"], false);
}

#[tokio::test]
async fn a_server_may_answer_in_the_other_form() {
    let body =
        json!({ "choices": [{ "message": { "content": "Hello" }, "finish_reason": "stop" }] });
    assert_eq!(ask([Reply::json(200, &body)]).await.text(), "Hello");
    let mut request = question();
    request.options.stream = Some(false);
    assert_eq!(ask_with([Reply::words(&["Hello"])], request, None).await.text(), "Hello");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = Server::start([Reply::words(&["a"]), Reply::words(&["b"])]).await;
    let chat = chat(&server);
    let said = [said(&chat).await, said(&chat).await, said(&chat).await];
    assert_eq!(said, ["a", "b", "b"]);
    assert_eq!((server.received().len(), server.connections()), (3, 1));
}

/// Asks once.
pub(crate) async fn ask_once(
    chat: &RemoteModel,
    request: &InferenceRequest,
) -> Result<InferenceResponse, ModelError> {
    let cx = InferCx {
        deltas: &mut loopwright_core::DiscardDeltas,
        cancel: &CancellationToken::new(),
        deadline: None,
        clock: &Stepping::default(),
        memory: &mut ModelCache::default(),
    };
    chat.infer(request, cx).await
}

/// Asks once, and returns what was said.
async fn said(chat: &RemoteModel) -> String {
    ask_once(chat, &question()).await.unwrap().message.text()
}

/// Asks a question of so many bytes.
async fn ask_long(chat: &RemoteModel, bytes: usize) -> Result<InferenceResponse, ModelError> {
    let turn =
        loopwright_core::messages::Turn::from_message(Message::user("x".repeat(bytes))).unwrap();
    let prompt = Prompt::of([turn].into_iter().collect());
    ask_once(chat, &InferenceRequest { prompt, ..InferenceRequest::default() }).await
}

/// Answers one request on each connection, and closes it then although nothing said so.
async fn closing_server() -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, closed) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default());
    let count = Arc::clone(&closed);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let body = answer_body("once");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let mut request = vec![0; 64 * 1024];
            let _some = stream.read(&mut request).await.unwrap();
            stream.write_all((head + &body).as_bytes()).await.unwrap();
            drop(stream);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (format!("http://{address}"), closed)
}

fn answer_body(text: &str) -> String {
    let message = json!({ "role": "assistant", "content": text });
    json!({ "choices": [{ "message": message, "finish_reason": "stop" }] }).to_string()
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_not_used_again() {
    let (address, closed) = closing_server().await;
    let chat = RemoteModel::new(WireApi::OpenAiChat, "test", &address, "m").unwrap();
    let chat = chat.with_retry(RetryPolicy::none());
    for round in 1..=3 {
        assert_eq!(said(&chat).await, "once");
        while closed.load(Ordering::SeqCst) < round {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_server_may_answer_before_it_has_read_everything() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let body = r#"{"error":{"message":"too much"}}"#;
        let head = format!("HTTP/1.1 413 X\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    let chat = RemoteModel::new(WireApi::OpenAiChat, "test", &address, "m").unwrap();
    let error = ask_long(&chat, 16 << 20).await.unwrap_err();
    assert_eq!(error.status, Some(413));
}

#[tokio::test]
async fn an_informational_response_does_not_end_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let length = 16 << 20;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\na: b\r\n\r\n")
            .await
            .unwrap();
        let (mut read, mut bytes) = (0, vec![0; 1 << 20]);
        while read < length {
            read += stream.read(&mut bytes).await.unwrap();
        }
        let body = answer_body("all of it");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    });
    let chat = RemoteModel::new(WireApi::OpenAiChat, "test", &address, "m").unwrap();
    let answer = ask_long(&chat, length).await.unwrap();
    assert_eq!(answer.message.text(), "all of it");
}

#[tokio::test]
async fn a_server_that_only_announces_an_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_ok() {}
    });
    let chat = RemoteModel::new(WireApi::OpenAiChat, "test", &address, "m").unwrap();
    let error = ask_long(&chat.with_retry(RetryPolicy::none()), 8).await.unwrap_err();
    let causes: Vec<String> = std::iter::successors(
        error.source.as_deref().map(|it| it as &dyn std::error::Error),
        |it| it.source(),
    )
    .map(ToString::to_string)
    .collect();
    let told = format!("{error} {causes:?}");
    assert!(told.contains("the server sends too many interim responses"), "{told}");
}

/// Serves one connection with what is written to it without end; says when the other side has closed it.
async fn endless_server(
    start: &'static str,
    again: &'static str,
) -> (RemoteModel, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let closed = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
        stream.write_all(start.as_bytes()).await.unwrap();
        while stream.write_all(again.as_bytes()).await.is_ok() {}
    });
    let timeouts = Timeouts { first_byte: Duration::from_millis(300), ..Timeouts::default() };
    let chat = RemoteModel::new(WireApi::OpenAiChat, "test", &address, "m").unwrap();
    (chat.with_retry(RetryPolicy::none()).with_http(Http::new(timeouts)), closed)
}

#[tokio::test]
async fn announcing_without_end_ends_the_connection() {
    let (chat, closed) = endless_server("", "HTTP/1.1 100 Continue\r\n\r\n").await;
    let error = ask_long(&chat, 8).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
    closed.await.unwrap();
}

#[tokio::test]
async fn trailers_without_end_break_the_answer() {
    let start = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n";
    let (chat, closed) = endless_server(start, "a: b\r\n").await;
    let error = ask_long(&chat, 8).await.unwrap_err();
    assert!(error.message.contains("trailers"), "{error}");
    closed.await.unwrap();
}

#[test]
fn a_connection_of_another_runtime_is_not_used_again() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (outer, first) = (runtime(), runtime());
    let server = outer.block_on(Server::start([Reply::words(&["a"])]));
    std::thread::spawn(move || outer.block_on(std::future::pending::<()>()));
    let model = chat(&server);
    assert_eq!(first.block_on(said(&model)), "a");
    drop(first);
    assert_eq!(runtime().block_on(said(&model)), "a");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_retried_request_has_the_same_bytes() {
    let asked = ask([Reply::error(429, ""), Reply::error(500, ""), Reply::words(&["ok"])]).await;
    assert_eq!(asked.text(), "ok");
    let received = asked.server.received();
    assert_eq!(received.len(), 3);
    assert!(received.iter().all(|it| it.body == received[0].body));
    let [first, second] = asked.waits[..] else { panic!("{:?}", asked.waits) };
    assert!((375..=500).contains(&first.as_millis()), "{first:?}");
    assert!((750..=1000).contains(&second.as_millis()), "{second:?}");
}

#[tokio::test]
async fn statuses_are_sent_again_or_not() {
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        assert_eq!(ask([Reply::error(status, "")]).await.requests(), 3, "{status}");
    }
    for status in [301, 400, 401, 402, 403, 404, 413, 422, 501, 599] {
        assert_eq!(ask([Reply::error(status, "")]).await.requests(), 1, "{status}");
    }
}

#[tokio::test]
async fn an_error_says_what_is_known() {
    let head = "x-request-id: r7\r\nretry-after: 7\r\n";
    let asked = ask([Reply::error(429, head)]).await;
    let error = asked.error();
    assert_eq!(error.kind, ModelErrorKind::RateLimited);
    assert_eq!(error.status, Some(429));
    assert_eq!(error.code.as_deref(), Some("test"));
    assert_eq!(error.request_id.as_deref(), Some("r7"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(asked.waits, [Duration::from_secs(7); 2]);
}

#[tokio::test]
async fn a_key_that_is_repeated_is_blackened() {
    let body = json!({ "error": { "message": "bad key sk-hidden", "code": "sk-hidden" } });
    let asked = ask([Reply::json(401, &body)]).await;
    assert_eq!(asked.error().kind, ModelErrorKind::Auth);
    assert!(!format!("{:?}", asked.error()).contains("sk-hidden"), "{:?}", asked.error());
}

#[tokio::test]
async fn no_wait_goes_beyond_the_deadline() {
    let asked =
        ask_with([Reply::error(429, "retry-after: 30\r\n")], question(), Some(20_000)).await;
    assert_eq!((asked.requests(), asked.error().kind), (1, ModelErrorKind::RateLimited));
    assert!(asked.waits.is_empty());
}

#[tokio::test]
async fn a_provider_that_asks_for_too_much_is_not_waited_for() {
    assert_eq!(ask([Reply::error(429, "retry-after: 3600\r\n")]).await.requests(), 1);
}

#[tokio::test]
async fn an_answer_that_is_late_is_given_up() {
    let asked = ask_with([Reply::Silence], question(), Some(50)).await;
    assert_eq!((asked.requests(), asked.error().kind), (1, ModelErrorKind::Timeout));
}

#[tokio::test]
async fn an_answer_that_takes_too_long_in_all_is_given_up() {
    let server = Server::start([Reply::Stalled(vec![content_event("a")])]).await;
    let total = Some(Duration::from_millis(50));
    let chat = chat(&server).with_http(Http::new(Timeouts { total, ..Timeouts::default() }));
    let error = ask_once(&chat, &question()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Timeout);
    assert_eq!(error.message, "test: the response was not complete after 0.05 seconds");
    server.closed().await;
}

#[tokio::test]
async fn a_connection_that_breaks_before_anything_was_said_is_tried_again() {
    for broken in [Reply::Drop, Reply::Silence, Reply::Broken(vec![": hi\n\n".to_owned()])] {
        let asked = ask([broken.clone(), Reply::words(&["ok"])]).await;
        assert_eq!((asked.text(), asked.requests()), ("ok".to_owned(), 2), "{broken:?}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_not_sent_again() {
    let begun = vec![content_event("Hel")];
    for (reply, kind) in [
        (Reply::Broken(begun.clone()), ModelErrorKind::Network),
        (Reply::Stream(begun.clone()), ModelErrorKind::Protocol),
        (Reply::Stalled(begun), ModelErrorKind::Timeout),
    ] {
        let asked = ask([reply.clone(), Reply::words(&["ok"])]).await;
        assert_eq!((asked.error().kind, asked.requests()), (kind, 1), "{reply:?}");
        assert_eq!(asked.fragments, ["Text(\"Hel\")"], "{reply:?}");
    }
}

#[tokio::test]
async fn half_a_body_is_an_error() {
    let body = r#"{"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}"#;
    let asked = ask([Reply::Short(body.to_owned())]).await;
    assert_eq!((asked.error().kind, asked.requests()), (ModelErrorKind::Network, 3));
    let asked = ask([Reply::json(200, &body[..40])]).await;
    assert_eq!(asked.error().kind, ModelErrorKind::Protocol);
}

#[tokio::test]
async fn an_error_within_a_stream_is_an_error() {
    let error = "data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\n\n".to_owned();
    let asked = ask([Reply::Stream(vec![error.clone()]), Reply::words(&["ok"])]).await;
    assert_eq!((asked.text(), asked.requests()), ("ok".to_owned(), 2));

    let asked = ask([Reply::Stream(vec![content_event("a"), finish_event("stop"), error])]).await;
    let error = asked.error();
    assert_eq!((error.kind, error.status), (ModelErrorKind::RateLimited, Some(200)));
    assert_eq!((error.request_id.as_deref(), usage_after(error)), (Some("r1"), 7));
    assert_eq!(asked.requests(), 1);
}

#[tokio::test]
async fn a_page_instead_of_an_answer_is_an_error() {
    for body in ["<html>hello</html>", "", "hello", "[]", "null"] {
        let asked = ask([Reply::json(200, body)]).await;
        assert_eq!(asked.error().kind, ModelErrorKind::Protocol, "{body}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_a_network_error_that_names_it() {
    let address = Server::start([Reply::Drop]).await.address.clone();
    let chat =
        RemoteModel::new(WireApi::OpenAiChat, "test", &format!("{address}/v1?key=hidden"), "m")
            .unwrap();
    let chat = chat.with_retry(RetryPolicy::none());
    let cx = InferCx {
        deltas: &mut loopwright_core::DiscardDeltas,
        cancel: &CancellationToken::new(),
        deadline: None,
        clock: &Stepping::default(),
        memory: &mut ModelCache::default(),
    };
    tokio::task::yield_now().await;
    let error = chat.infer(&question(), cx).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(error.message.contains(&address), "{error}");
    assert!(!format!("{error:?}").contains("hidden"), "{error:?}");
}

#[tokio::test]
async fn cancelling_ends_the_request() {
    let server = Server::start([Reply::Stalled(vec![content_event("a")])]).await;
    let cancel = CancellationToken::new();
    let mut cancel_at_text = |_: Delta<'_>| cancel.cancel();
    let cx = InferCx {
        deltas: &mut cancel_at_text,
        cancel: &cancel,
        deadline: None,
        clock: &Stepping::default(),
        memory: &mut ModelCache::default(),
    };
    let error = chat(&server).infer(&question(), cx).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Cancelled);
    server.closed().await;
}

#[tokio::test]
async fn an_answer_that_is_interrupted_costs_what_came_of_it() {
    let text = "eight letters".repeat(8);
    let server = Server::start([Reply::Stalled(vec![content_event(&text)])]).await;
    let cancel = CancellationToken::new();
    let mut cancel_at_text = |_: Delta<'_>| cancel.cancel();
    let cx = InferCx {
        deltas: &mut cancel_at_text,
        cancel: &cancel,
        deadline: None,
        clock: &Stepping::default(),
        memory: &mut ModelCache::default(),
    };
    let price = Price::from_dollars(1.0);
    let prices = Prices { input: price, output: price, ..Prices::free() };
    let info = ModelInfo { prices: Some(prices), ..ModelInfo::default() };
    let chat = chat(&server).with_catalog(ModelCatalog::default().with_model("test", "m", info));
    let error = chat.infer(&question(), cx).await.unwrap_err();
    // The provider reports nothing before the end: four bytes are taken for a token.
    let body = server.received()[0].body.len() as u64;
    let usage = Usage::new(body / 4, text.len() as u64 / 4);
    let cost = Cost::from_picodollars(usage.total() * 1_000_000);
    assert_eq!((error.usage, error.cost), (usage, Some(cost)));
}

#[tokio::test]
async fn a_request_may_bring_headers_and_fields_of_its_own() {
    let mut request = question();
    request.model = Some("other".into());
    request.options.headers.insert("x-mine".into(), "1".into());
    request.options.extra.insert("top_k".into(), json!(5));
    let asked = ask_with([Reply::words(&["ok"])], request, None).await;
    let received = &asked.server.received()[0];
    assert_eq!(received.header("x-mine"), Some("1"));
    assert_eq!(received.json()["top_k"], 5);
    assert_eq!(received.json()["model"], "other");
    assert_eq!(&*asked.answer.unwrap().message.origin().unwrap().model, "other");
}
