//! Streams of events that are cut and continue.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request, response::Response, routing::get};
use http_body_util::BodyExt as _;
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_broadcast::{BroadcastConfig, BroadcastEnvelope};
use loopwright_core::{AgentLoop, AgentState, CustomEvent, CustomEventData, Timestamp, ToolOutput};
use loopwright_server::{EventStreams, events};
use loopwright_sessions::{
    MemoryStore, SendMessage, SessionFactory, SessionId, SessionLog, SessionRuntime,
    SessionStore as _,
};
use loopwright_testing::{
    FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, block_on, run_until_stuck,
    test_loop, yield_times,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt as _;

/// Makes the same loop of every definition.
struct Same(AgentLoop);

impl LoopFactory for Same {
    fn instantiate(&self, _definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Ok(self.0.clone())
    }
}

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

async fn begun(store: &MemoryStore, script: Vec<ScenarioStep>) -> SessionRuntime {
    begun_with(store, test_loop(ModelDriver::new(FakeModel::script(script).with_fragment_size(4))))
        .await
}

async fn begun_with(store: &MemoryStore, agent: AgentLoop) -> SessionRuntime {
    let runtime = SessionRuntime::new(Arc::new(store.clone()), Same(agent))
        .with_env(FrozenClock::new().env(0))
        .with_event_log(BroadcastConfig::standard());
    let definition = AgentDefinition::new("helper", "helps", "You help.");
    let now = Timestamp::from_millis(0);
    let session = SessionFactory::new().create_from(definition, AgentState::new(), id(), now);
    runtime.create(session).await.unwrap();
    runtime
}

/// Returns steps with a tool, which the first step calls twice, and an answer of so many fragments.
fn script(tool: &str, steps: usize, fragments: usize) -> Vec<ScenarioStep> {
    let calls = |count| ScenarioStep::tool_calls(vec![(tool, serde_json::json!({})); count]);
    let answer = ScenarioStep::final_answer("ädö ".repeat(fragments));
    let steps = (0..steps).map(|step| calls(if step == 0 { 2 } else { 1 }));
    steps.chain([answer]).collect()
}

/// Records a run of so many steps with a tool, and an answer of so many fragments.
async fn recorded(store: &MemoryStore, steps: usize, fragments: usize) {
    let runtime = begun(store, script(loopwright_testing::SCRIPTED_TOOL, steps, fragments)).await;
    let session = runtime.execute(&id(), &SendMessage::text("go")).await.unwrap();
    assert_eq!(session.state().step_count() as usize, steps + 1);
}

fn app(store: &MemoryStore) -> Router {
    let streams = EventStreams::new(Arc::new(store.clone()))
        .with_clock(Arc::new(FrozenClock::new()))
        .with_heartbeat(Duration::from_secs(1));
    Router::new().route("/sessions/{session}/events", get(events)).with_state(streams)
}

fn waiting_app(store: &MemoryStore, clock: &FrozenClock) -> Router {
    let streams = EventStreams::new(Arc::new(store.clone())).with_clock(Arc::new(clock.clone()));
    Router::new().route("/sessions/{session}/events", get(events)).with_state(streams)
}

async fn ask(app: &Router, uri: &str, last: Option<&str>) -> Response {
    let request = Request::get(uri);
    let request = match last {
        Some(last) => request.header("Last-Event-ID", last),
        None => request,
    };
    app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

const EVENTS: &str = "/sessions/s/events";

async fn whole(response: Response) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the next event of a stream as it is sent; `None` if it has ended.
async fn one(body: &mut Body) -> Option<String> {
    let mut text = String::new();
    while !text.ends_with("\n\n") {
        let Some(frame) = body.frame().await else {
            assert_eq!(text, "");
            return None;
        };
        text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
    }
    Some(text)
}

fn id_of(event: &str) -> &str {
    event.lines().find_map(|it| it.strip_prefix("id: ")).unwrap()
}

#[tokio::test]
async fn whatever_is_left_after_an_event_is_the_rest_of_the_stream() {
    let store = MemoryStore::default();
    recorded(&store, 4, 3).await;
    let app = app(&store);
    let uncut = whole(ask(&app, EVENTS, None).await).await;
    let ends: Vec<usize> = uncut.match_indices("\n\n").map(|(at, _)| at + 2).collect();
    assert_eq!(ends.len(), 24);
    for (number, end) in (1..).zip(ends) {
        let rest = whole(ask(&app, EVENTS, Some(&format!("{number}"))).await).await;
        assert_eq!(rest, uncut[end..], "after {number}");
        let asked = format!("{EVENTS}?last_event_id={number}");
        assert_eq!(whole(ask(&app, &asked, None).await).await, uncut[end..]);
    }
}

#[tokio::test]
async fn an_event_is_an_id_and_an_envelope_and_the_header_counts_first() {
    let store = MemoryStore::default();
    recorded(&store, 0, 1).await;
    let response = ask(&app(&store), &format!("{EVENTS}?last_event_id=1"), Some("0")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    let first = one(&mut response.into_body()).await.unwrap();
    let (head, data) = first.split_once("\ndata: ").unwrap();
    assert_eq!(head, "id: 1");
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!((&data["type"], &data["session_id"]), (&"agent.status".into(), &"s".into()));
}

#[tokio::test]
async fn an_unknown_session_is_404_and_an_invalid_position_400() {
    let store = MemoryStore::default();
    recorded(&store, 0, 1).await;
    let app = app(&store);
    let status = async |uri: &str, last: Option<&str>| ask(&app, uri, last).await.status().as_u16();
    assert_eq!(status("/sessions/other/events", None).await, 404);
    assert_eq!(status("/sessions/%20%2F/events", None).await, 404);
    assert_eq!(status(EVENTS, Some("x")).await, 400);
    assert_eq!(status(&format!("{EVENTS}?last_event_id=-1"), None).await, 400);
    let last = store.read_log(&id(), SessionLog::Events, 0, 99).await.unwrap().len().to_string();
    assert_eq!(status(EVENTS, Some(&last)).await, 204);
    store.delete(&id(), Timestamp::from_millis(1)).await.unwrap();
    assert_eq!(status(EVENTS, None).await, 404);
}

#[test]
fn a_reader_that_connects_right_after_a_message_was_posted_gets_its_run() {
    let store = MemoryStore::default();
    let runtime = block_on(begun(&store, vec!["one".into(), "two".into()]));
    block_on(runtime.execute(&id(), &SendMessage::text("go"))).unwrap();
    let last =
        block_on(store.read_log(&id(), SessionLog::Events, 0, 99)).unwrap().len().to_string();
    let clock = FrozenClock::manual();
    let app = waiting_app(&store, &clock);
    // The message was accepted, and its run has not begun.
    let mut response = Box::pin(ask(&app, EVENTS, Some(&last)));
    assert!(run_until_stuck(&mut response).is_none(), "the reader was sent away");
    block_on(runtime.execute(&id(), &SendMessage::text("go on"))).unwrap();
    clock.advance(Duration::from_secs(1));
    let response = block_on(response);
    assert_eq!(response.status(), 200);
    let told = block_on(whole(response));
    let first = last.parse::<u64>().unwrap() + 1;
    assert!(told.starts_with(&format!("id: {first}\n")), "{told}");
    assert!(told.contains("\"two\""), "{told}");
}

#[test]
fn a_reader_that_has_seen_everything_is_sent_away_when_no_other_run_begins() {
    let store = MemoryStore::default();
    let runtime = block_on(begun(&store, vec!["one".into()]));
    block_on(runtime.execute(&id(), &SendMessage::text("go"))).unwrap();
    let last =
        block_on(store.read_log(&id(), SessionLog::Events, 0, 99)).unwrap().len().to_string();
    let clock = FrozenClock::manual();
    let app = waiting_app(&store, &clock);
    let mut response = Box::pin(ask(&app, EVENTS, Some(&last)));
    let mut waited = Duration::ZERO;
    let status = loop {
        if let Some(response) = run_until_stuck(&mut response) {
            break response.status();
        }
        clock.advance(Duration::from_secs(1));
        waited += Duration::from_secs(1);
    };
    assert_eq!((status.as_u16(), waited), (204, Duration::from_secs(10)));
}

#[tokio::test]
async fn a_stream_beats_while_nothing_happens_and_goes_on_when_something_does() {
    let store = MemoryStore::default();
    let runtime = begun(&store, vec!["hello".into()]).await;
    let mut body = ask(&app(&store), EVENTS, None).await.into_body();
    assert_eq!(one(&mut body).await.unwrap(), ": heartbeat\n\n");
    runtime.execute(&id(), &SendMessage::text("go")).await.unwrap();
    let mut told = Vec::new();
    while let Some(event) = one(&mut body).await {
        told.push(event);
    }
    let ids: Vec<&str> =
        told.iter().filter(|it| !it.starts_with(':')).map(|it| id_of(it)).collect();
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6"]);
}

#[tokio::test]
async fn a_real_socket_carries_the_same_bytes() {
    let store = MemoryStore::default();
    recorded(&store, 2, 2).await;
    let app = app(&store);
    let expect = whole(ask(&app, EVENTS, Some("5")).await).await;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {EVENTS} HTTP/1.0\r\nhost: x\r\nlast-event-id: 5\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    server.abort();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
    assert_eq!(body, expect);
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct TicketCreated {
    number: u32,
    labels: Vec<String>,
}

impl CustomEvent for TicketCreated {
    const NAME: &'static str = "ticket_created";
}

#[tokio::test]
async fn a_custom_event_comes_through_event_log_and_stream_with_its_type() {
    let ticket = || TicketCreated { number: 7, labels: vec!["bug".to_owned()] };
    let create = MockTool::with_cx("create", "Creates a ticket.", move |_, cx| {
        cx.events.emit(ticket);
        Box::pin(async { Ok(ToolOutput::text("created")) })
    });
    let store = MemoryStore::default();
    let steps = [ScenarioStep::tool_call("create", serde_json::json!({})), "done".into()];
    let agent = test_loop(ModelDriver::new(FakeModel::script(steps))).with_tool(create);
    let runtime = begun_with(&store, agent).await;
    runtime.execute(&id(), &SendMessage::text("go")).await.unwrap();
    let stream = whole(ask(&app(&store), EVENTS, None).await).await;
    let events: Vec<CustomEventData> = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str::<BroadcastEnvelope>(data).unwrap())
        .filter_map(|envelope| envelope.custom_event())
        .collect();
    assert_eq!(events.iter().map(CustomEventData::get).collect::<Vec<_>>(), [Some(&ticket())]);
}

/// How a client says what it has read.
#[derive(Clone, Copy)]
enum Kind {
    /// As `EventSource` does, in process.
    Header,
    /// In the query, in process.
    Query,
    /// By a socket of its own.
    Socket(std::net::SocketAddr),
}

/// Reads a stream after an event, up to so many bytes.
async fn cut(app: &Router, kind: Kind, last: &str, bytes: usize) -> Vec<u8> {
    let mut read = Vec::new();
    if let Kind::Socket(address) = kind {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!("GET {EVENTS} HTTP/1.0\r\nhost: x\r\nlast-event-id: {last}\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        let end = |it: &[u8]| it.windows(4).position(|it| it == b"\r\n\r\n").map(|it| it + 4);
        let mut buffer = [0; 4096];
        loop {
            let count = socket.read(&mut buffer).await.unwrap();
            read.extend_from_slice(&buffer[..count]);
            let body = end(&read).map(|it| read.len() - it);
            if count == 0 || body.is_some_and(|it| it >= bytes) {
                break;
            }
        }
        let head = end(&read).unwrap();
        read.drain(..head);
    } else {
        let response = match kind {
            Kind::Header => ask(app, EVENTS, Some(last)).await,
            _ => ask(app, &format!("{EVENTS}?last_event_id={last}"), None).await,
        };
        let mut body = response.into_body();
        while read.len() < bytes {
            let Some(frame) = body.frame().await else { break };
            read.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }
    read.truncate(bytes);
    read
}

/// Listens, and returns the three kinds of clients.
async fn kinds(app: &Router) -> ([Kind; 3], DropGuard) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (routes, ends) = (app.clone(), CancellationToken::new());
    let served =
        axum::serve(listener, routes).with_graceful_shutdown(ends.clone().cancelled_owned());
    tokio::spawn(served.into_future());
    ([Kind::Header, Kind::Query, Kind::Socket(address)], ends.drop_guard())
}

#[tokio::test]
async fn a_stream_of_2000_events_that_is_cut_after_each_is_the_uncut_stream_for_each_kind_of_client()
 {
    let store = MemoryStore::default();
    recorded(&store, 498, 3).await;
    assert_eq!(store.read_log(&id(), SessionLog::Events, 0, 9999).await.unwrap().len(), 2000);
    let app = app(&store);
    let uncut = whole(ask(&app, EVENTS, None).await).await;
    assert!(uncut.ends_with(
        "\"payload\":{\"status\":\"completed\",\"previous_status\":\"processing\"}}\n\n"
    ));
    let events: Vec<&str> = uncut.split_inclusive("\n\n").collect();
    let (kinds, _server) = kinds(&app).await;
    for kind in kinds {
        let (mut joined, mut last) = (Vec::new(), "0");
        for event in &events {
            joined.extend(cut(&app, kind, last, event.len()).await);
            last = id_of(event);
        }
        assert_eq!((events.len(), last), (2000, "2000"));
        assert!(joined == uncut.as_bytes(), "the joined stream differs from the uncut one");
    }
}

#[tokio::test]
async fn a_stream_of_2000_events_that_is_cut_at_any_byte_is_the_uncut_stream_for_each_kind_of_client()
 {
    let store = MemoryStore::default();
    recorded(&store, 498, 3).await;
    let app = app(&store);
    let uncut = whole(ask(&app, EVENTS, None).await).await;
    let (kinds, _server) = kinds(&app).await;
    for (kind, mut random) in kinds.into_iter().zip(1_u64..) {
        let (mut joined, mut last, mut cuts) = (String::new(), "0".to_owned(), 0);
        while joined.len() < uncut.len() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bytes = usize::try_from(random >> 33).unwrap() % 4_000 + 1;
            let read = cut(&app, kind, &last, bytes).await;
            // An event that has no end was not received.
            let Some(end) = read.windows(2).rposition(|it| it == b"\n\n") else { continue };
            let events = std::str::from_utf8(&read[..end + 2]).unwrap();
            let events = events.trim_start_matches(": heartbeat\n\n");
            last = id_of(events.trim_end().rsplit("\n\n").next().unwrap()).to_owned();
            joined.push_str(events);
            cuts += 1;
        }
        assert!(joined == uncut && cuts > 100, "{cuts} cuts");
    }
}

/// 498 steps with a tool and an answer, which make 2,000 events. Model and tool wait once in each step.
pub(crate) fn long_run() -> AgentLoop {
    let tool = MockTool::with_cx("look", "Looks.", |_, _| {
        Box::pin(async {
            yield_times(1).await;
            Ok(ToolOutput::text("seen"))
        })
    });
    let model = FakeModel::script(script("look", 498, 3)).with_fragment_size(4).with_yields(1);
    test_loop(ModelDriver::new(model)).with_tool(tool)
}

#[tokio::test]
async fn fifty_readers_see_the_same_2000_events_in_the_same_order() {
    let store = MemoryStore::default();
    let runtime = begun_with(&store, long_run()).await;
    let app = app(&store);
    let read = async || {
        let mut body = ask(&app, EVENTS, None).await.into_body();
        let mut events = Vec::new();
        while let Some(event) = one(&mut body).await {
            if event.starts_with(':') {
                // The clock is frozen: there is another heartbeat at once.
                tokio::task::yield_now().await;
            } else {
                events.push(event);
            }
        }
        events
    };
    let readers = futures::future::join_all((0..50).map(|_| read()));
    let run = async { runtime.execute(&id(), &SendMessage::text("go")).await.unwrap() };
    let (seen, _) = futures::join!(readers, run);
    assert_eq!(seen[0].len(), 2000);
    assert!(seen.iter().all(|it| *it == seen[0]));
}
