//! Updates of an open page: streamed text, and notices of changes.

use std::{collections::VecDeque, convert::Infallible, pin::pin, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderName, header},
    response::{IntoResponse as _, Response, Sse, sse::Event},
};
use futures::{
    future::{Either, select},
    stream,
};
use loopwright_sessions::{
    EventFollower, FollowEvent, SessionId, SessionLog, SessionStore, StoreError,
};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::markdown;
use crate::{
    cursor::LastEventId, extract::OwnSession, problem::Problem, projections::run::last_event,
    server::Server,
};

/// The interval of keep-alive messages.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often to check after a run whether its job has finished, too.
const SETTLES: Duration = Duration::from_millis(500);
/// The maximum number of events per update.
const MAX_BATCH: usize = 512;
/// The number of events searched for the start of the current step.
const SEARCHED: usize = 2_000;

/// The fields of envelopes that are read.
#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    parent_agent_id: Option<String>,
    payload: Payload,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload {
    step_number: u64,
    content: String,
}

/// Returns the number of the event before the current step, or of the last event. A page that shows the current session
/// and follows the events after this number misses nothing.
pub(crate) async fn step_start(
    store: &dyn SessionStore,
    id: &SessionId,
) -> Result<u64, StoreError> {
    let last = last_event(store, id).await?;
    let from = last.saturating_sub(SEARCHED as u64);
    let entries = store.read_log(id, SessionLog::Events, from, SEARCHED).await?;
    for entry in entries.iter().rev().filter(|it| it.number <= last) {
        let Ok(envelope) = serde_json::from_slice::<Envelope>(&entry.body) else { continue };
        if envelope.parent_agent_id.is_some() {
            continue;
        }
        match &*envelope.kind {
            "agent.step.started" => return Ok(entry.number - 1),
            "agent.step.completed" => return Ok(last),
            _ => {}
        }
    }
    Ok(last)
}

/// The state of an open page.
struct Teller {
    follower: EventFollower,
    shutdown: CancellationToken,
    waiting: VecDeque<Event>,
    /// Where a disconnected page resumes: before the step whose text it shows.
    from: u64,
    step: u64,
    text: String,
    blocks: Vec<String>,
    /// Whether the page knows that nothing runs or is queued.
    is_idle: bool,
    _open: Box<dyn Send>,
}

pub(crate) async fn stream(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    after: Result<LastEventId, crate::cursor::InvalidCursor>,
) -> Result<Response, Problem> {
    let LastEventId(after) = after.map_err(|error| Problem::bad_request(error.to_string()))?;
    let (store, clock) = (Arc::clone(server.store()), Arc::clone(server.clock()));
    let teller = Teller {
        follower: EventFollower::of(store, clock, header.id, after).await?,
        shutdown: server.drain().clone(),
        waiting: VecDeque::new(),
        from: after,
        step: 0,
        text: String::new(),
        blocks: Vec::new(),
        is_idle: false,
        _open: Box::new(server.metrics().stream()),
    };
    let events = stream::unfold(Some(teller), |teller| async {
        let mut teller = teller?;
        let event = teller.next().await?;
        Some((Ok::<_, Infallible>(event), Some(teller)))
    });
    let headers =
        [(header::CACHE_CONTROL, "no-cache"), (HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((headers, Sse::new(events)).into_response())
}

impl Teller {
    /// Returns the next update. The page reconnects when the stream ends.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            match self.event().await? {
                FollowEvent::Entry(entry) => {
                    self.is_idle = false;
                    let mut batch = Batch::default();
                    self.take(&mut batch, entry.number, &entry.body);
                    for _ in 1..MAX_BATCH {
                        match self.follower.next(Duration::ZERO).await {
                            Ok(FollowEvent::Entry(entry)) => {
                                self.take(&mut batch, entry.number, &entry.body);
                            }
                            _ => break,
                        }
                    }
                    self.tell(&batch);
                }
                FollowEvent::Ended if !self.is_idle => {
                    self.is_idle = true;
                    self.tell(&Batch { changed: true, has_text: false });
                }
                FollowEvent::Timeout | FollowEvent::Ended => {
                    return Some(Event::default().comment("heartbeat"));
                }
            }
        }
    }

    /// Returns the next event; `None` if the server shuts down or the store fails. A page shows the state of the queue,
    /// which learns of the end of a run a little later than the events: `Ended` comes when both agree.
    async fn event(&mut self) -> Option<FollowEvent> {
        let (shutdown, is_idle) = (self.shutdown.clone(), self.is_idle);
        let follower = &mut self.follower;
        let next = async {
            let mut left = HEARTBEAT;
            loop {
                match follower.next(left).await? {
                    // Another page or program may start another run.
                    FollowEvent::Ended if is_idle => return follower.next_run(left).await,
                    FollowEvent::Ended => {}
                    other => return Ok(other),
                }
                match follower.next_run(SETTLES).await? {
                    FollowEvent::Timeout if left > SETTLES => left -= SETTLES,
                    other => return Ok::<_, StoreError>(other),
                }
            }
        };
        match select(pin!(shutdown.cancelled()), pin!(next)).await {
            Either::Left(_) => None,
            Either::Right((next, _)) => next.ok(),
        }
    }

    fn take(&mut self, batch: &mut Batch, number: u64, body: &[u8]) {
        let Ok(envelope) = serde_json::from_slice::<Envelope>(body) else { return };
        let is_own = envelope.parent_agent_id.is_none();
        match &*envelope.kind {
            "agent.step.started" if is_own => {
                (self.from, self.step) = (number - 1, envelope.payload.step_number);
                self.text.clear();
                batch.changed = true;
            }
            "agent.stream.chunk" if is_own => {
                self.text.push_str(&envelope.payload.content);
                batch.has_text = true;
            }
            "agent.stream.chunk" => {}
            // The streamed text is now part of the conversation.
            "agent.tool.started" | "agent.step.completed" | "agent.status" if is_own => {
                self.text.clear();
                batch.changed = true;
            }
            _ => batch.changed = true,
        }
        if self.text.is_empty() && !batch.has_text {
            self.from = self.from.max(number);
        }
    }

    /// Emits the update for a batch of events.
    fn tell(&mut self, batch: &Batch) {
        let is_written = self.text.is_empty();
        if batch.changed {
            let data = json!({ "clear": is_written }).to_string();
            let event = Event::default().event("changed").id(self.from.to_string());
            self.waiting.push_back(event.data(data));
        }
        if is_written {
            self.blocks.clear();
        } else if batch.has_text {
            let blocks = markdown::blocks(&self.text);
            let same = blocks.iter().zip(&self.blocks).take_while(|(a, b)| a == b).count();
            let data = json!({ "from": same, "blocks": blocks[same..] }).to_string();
            self.blocks = blocks;
            let event = Event::default().event("text").id(self.from.to_string());
            self.waiting.push_back(event.data(data));
        }
    }
}

/// The update for a batch of events.
#[derive(Default)]
struct Batch {
    changed: bool,
    has_text: bool,
}
