//! Listeners that are slow, fail, panic or never come back.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::{self, Receiver},
    },
    time::Duration,
};

use async_trait::async_trait;
use loopwright_broadcast::{
    BroadcastConfig, BroadcastTransport, Broadcasting, ConsoleObserver, ConsoleOptions,
    DeliveryStats, EncodedEnvelope, JsonLines, envelope_types,
};
use loopwright_core::{BoxError, EventSink as _};
use serde_json::json;

use crate::support::{Page, ROOM, all, answering, event, run, words};

/// More than any test takes.
const LONG: Duration = Duration::from_mins(1);

/// Blocks the thread that writes until the other end is dropped.
struct Stuck(Mutex<Receiver<()>>);

impl Stuck {
    fn new() -> (mpsc::Sender<()>, Self) {
        let (hold, waits) = mpsc::channel();
        (hold, Self(Mutex::new(waits)))
    }
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Ends when nobody holds it any more.
        self.0.lock().unwrap().recv().ok();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Fails and panics in turn.
#[derive(Default)]
struct Moody(AtomicUsize);

#[async_trait]
impl BroadcastTransport for Moody {
    async fn broadcast(&self, _channel: &str, _envelope: &EncodedEnvelope) -> Result<(), BoxError> {
        match self.0.fetch_add(1, SeqCst) % 2 {
            0 => Err("not today".into()),
            _ => panic!("not at all"),
        }
    }

    async fn broadcast_all(&self, envelopes: &[EncodedEnvelope]) -> Result<(), BoxError> {
        self.broadcast(envelopes[0].channel(), &envelopes[0]).await
    }
}

/// Never comes back.
struct Gone;

#[async_trait]
impl BroadcastTransport for Gone {
    async fn broadcast(&self, _channel: &str, _envelope: &EncodedEnvelope) -> Result<(), BoxError> {
        std::future::pending().await
    }
}

/// The run ends although none of its listeners ever does; the other listener receives everything.
#[test]
fn item_10_a_sink_that_blocks_for_ever_costs_the_run_nothing() {
    let broadcasting = Broadcasting::new(BroadcastConfig::standard()).with_session("s");
    let (hold, stuck) = Stuck::new();
    let blocked = broadcasting.attach_transport(JsonLines::new(stuck), 4).unwrap();
    let gone = broadcasting.attach_transport(Gone, 4).unwrap();
    let moody = broadcasting.attach_transport(Moody::default(), 4).unwrap();
    let well = broadcasting.subscribe(ROOM);
    let text = "word ".repeat(100);
    let state = run(&answering([text.as_str()]), Arc::new(broadcasting));
    assert_eq!(state.text(), text);
    let told = all(well);
    assert_eq!(words(&told).last().unwrap(), "status completed");
    assert_eq!(told.iter().filter(|it| it.kind == envelope_types::STREAM_CHUNK).count(), 251);
    assert!(blocked.delivery().dropped > 0);
    assert!(gone.delivery().dropped > 0);
    let moody = moody.finish(LONG);
    assert!(moody.failed > 0, "{moody:?}");
    assert_eq!(moody.waiting, 0);
    drop(hold);
}

#[test]
fn item_10_a_console_that_blocks_for_ever_costs_the_run_nothing() {
    let (hold, stuck) = Stuck::new();
    let console = ConsoleObserver::new(stuck, ConsoleOptions::default()).unwrap();
    let state = run(&answering(["done"]), Arc::new(console));
    assert_eq!(state.text(), "done");
    drop(hold);
}

#[test]
fn a_slow_listener_receives_a_count_of_dropped_events_and_every_status() {
    let broadcasting = Broadcasting::new(BroadcastConfig::standard()).with_session("s");
    let slow = broadcasting.subscribe(2);
    drop(run(&answering(["abcdefghij"]), Arc::new(broadcasting)));
    let told = all(slow);
    // Status, step, five fragments, the end of the answer, step, status: the fragments went.
    let expect = [
        "dropped",
        "status processing",
        "step.started",
        "stream.chunk",
        "step.completed",
        "status completed",
    ];
    assert_eq!(words(&told), expect);
    assert_eq!(told[0].payload, json!({ "count": 5 }));
    assert_eq!(told[3].payload["is_complete"], true);
}

#[test]
fn lines_of_json_are_whole_when_they_are_finished() {
    let broadcasting = Broadcasting::new(BroadcastConfig::standard()).with_session("s");
    let (page, other) = (Page::default(), broadcasting.subscribe(ROOM));
    let lines = broadcasting.attach_transport(JsonLines::new(page.clone()), ROOM).unwrap();
    drop(run(&answering(["done"]), Arc::new(broadcasting)));
    assert_eq!(lines.finish(LONG), DeliveryStats::default());
    let text = page.text();
    let read: Vec<_> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(all(other), read);
}

#[test]
fn all_listeners_share_what_was_encoded_once() {
    let broadcasting = Broadcasting::new(BroadcastConfig::standard()).with_session("s");
    let mut listeners = [broadcasting.subscribe(9), broadcasting.subscribe(9)];
    broadcasting.emit(&event(json!({ "type": "execution_paused", "calls": [] })));
    broadcasting.emit(&event(json!({
        "type": "step_started", "step": 1, "messages": 1, "tools": []
    })));
    let [first, second] =
        listeners.each_mut().map(|it| loopwright_testing::block_on(it.recv()).unwrap());
    assert!(Arc::ptr_eq(first.json(), second.json()));
}

#[test]
fn a_subscription_that_is_dropped_costs_nothing_any_more() {
    let broadcasting = Broadcasting::new(BroadcastConfig::standard());
    drop(broadcasting.subscribe(9));
    let start = json!({ "type": "step_started", "step": 1, "messages": 1, "tools": [] });
    broadcasting.emit(&event(start.clone()));
    broadcasting.emit(&event(start));
    assert!(format!("{broadcasting:?}").contains("listeners: 0"), "{broadcasting:?}");
}
