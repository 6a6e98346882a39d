//! The events of a session as server-sent events.

use std::{convert::Infallible, fmt, pin::pin, sync::Arc, time::Duration};

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response, Sse, sse::Event},
};
use futures::{
    Stream,
    future::{Either, select},
    stream,
};
use loopwright_core::{Clock, SystemClock};
use loopwright_sessions::{EventFollower, FollowEvent, SessionId, SessionStore, StoreError};
use tokio_util::sync::CancellationToken;

use crate::cursor::LastEventId;

/// The heartbeat interval without events, so that clients do not consider the stream dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a reader that has seen everything waits for another run before it is sent away.
const LINGER: Duration = Duration::from_secs(10);

/// The configuration of event streams. Cheap to clone.
#[derive(Clone)]
pub struct EventStreams {
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    heartbeat: Duration,
    linger: Duration,
    shutdown: CancellationToken,
}

impl EventStreams {
    /// Streams the events of this store, with a heartbeat every fifteen seconds.
    pub fn new(store: Arc<dyn SessionStore>) -> Self {
        Self {
            store,
            clock: Arc::new(SystemClock::default()),
            heartbeat: HEARTBEAT,
            linger: LINGER,
            shutdown: CancellationToken::new(),
        }
    }

    /// Sets the shutdown token. Once it is cancelled, every stream ends with a comment that says so: the reader
    /// connects again, and continues elsewhere.
    #[must_use]
    pub fn with_shutdown(self, shutdown: CancellationToken) -> Self {
        Self { shutdown, ..self }
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        self.heartbeat
    }

    /// Sets the interval of heartbeats without events.
    #[must_use]
    pub fn with_heartbeat(self, heartbeat: Duration) -> Self {
        Self { heartbeat, ..self }
    }

    /// Sets how long a reader that has seen everything waits for another run before it gets 204. The
    /// default is ten seconds: a message that was just posted has that long to begin its run.
    #[must_use]
    pub fn with_linger(self, linger: Duration) -> Self {
        Self { linger, ..self }
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }
}

/// Streams the events of a session: first the stored ones, and then new ones.
///
/// Mount it where the path has one parameter, the session. Each event's `id` is its number in the
/// session's log, and its `data` the envelope as one line of JSON. A reader that sends the last ID
/// that it has seen receives the later events, byte for byte as without the interruption. The
/// stream ends when the agent has ended or waits for a decision, and all events were sent.
///
/// A reader that has seen all events receives a response as soon as another run starts. If none
/// starts in [`with_linger`](EventStreams::with_linger), and no job of the session is queued, it
/// gets 204.
///
/// | status | when |
/// |---|---|
/// | 200 | there are events, or there will be |
/// | 204 | this reader has received all events, and no other run starts; browsers then do not reconnect |
/// | 400 | the last event ID is invalid |
/// | 404 | the session does not exist |
/// | 503 | the store cannot be read |
pub async fn events(
    State(streams): State<EventStreams>,
    Path(session): Path<String>,
    LastEventId(after): LastEventId,
) -> Response {
    let Ok(id) = SessionId::new(session) else { return StatusCode::NOT_FOUND.into_response() };
    match open(streams, id, after, ()).await {
        Ok(response) => response,
        Err(StoreError::NotFound(id)) => {
            (StatusCode::NOT_FOUND, format!("unknown session `{id}`")).into_response()
        }
        // What a store says of itself may name places that are nobody's business.
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// Opens a stream, and keeps something until it has ended.
pub(crate) async fn open(
    streams: EventStreams,
    id: SessionId,
    after: u64,
    kept: impl Send + 'static,
) -> Result<Response, StoreError> {
    let EventStreams { store, clock, heartbeat, linger, shutdown } = streams;
    let mut following = EventFollower::of(store, clock, id, after).await?;
    let first = match following.next(Duration::ZERO).await? {
        FollowEvent::Ended => {
            let (ended, next) = (pin!(shutdown.cancelled()), pin!(following.next_run(linger)));
            match select(ended, next).await {
                Either::Left(_) => FollowEvent::Timeout,
                Either::Right((next, _)) => next?,
            }
        }
        first => first,
    };
    if first == FollowEvent::Ended {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    // Proxies that gather what they pass on would keep it back.
    let headers = [(header::CACHE_CONTROL, "no-cache"), (BUFFERING, "no")];
    let events = told(following, first, heartbeat, shutdown, kept);
    Ok((headers, Sse::new(events)).into_response())
}

/// The header that asks proxies not to gather.
const BUFFERING: header::HeaderName = header::HeaderName::from_static("x-accel-buffering");

/// Tells what was read first, and then whatever comes. A store that fails ends the stream: the reader
/// connects again where it was.
fn told(
    following: EventFollower,
    first: FollowEvent,
    heartbeat: Duration,
    shutdown: CancellationToken,
    kept: impl Send + 'static,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let begin = Some((following, Some(first), kept));
    stream::unfold(begin, move |state| {
        let shutdown = shutdown.clone();
        async move {
            let (mut following, first, kept) = state?;
            let followed = if let Some(first) = first {
                first
            } else {
                let (ended, next) = (pin!(shutdown.cancelled()), pin!(following.next(heartbeat)));
                match select(ended, next).await {
                    Either::Left(_) => {
                        let event = Event::default().comment("the server is shutting down");
                        return Some((Ok(event), None));
                    }
                    Either::Right((next, _)) => next.ok()?,
                }
            };
            let event = match followed {
                FollowEvent::Entry(note) => {
                    let json = String::from_utf8_lossy(&note.body);
                    Event::default().id(note.number.to_string()).data(json)
                }
                FollowEvent::Timeout => Event::default().comment("heartbeat"),
                FollowEvent::Ended => return None,
            };
            Some((Ok(event), Some((following, None, kept))))
        }
    })
}

impl fmt::Debug for EventStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStreams").field("heartbeat", &self.heartbeat).finish_non_exhaustive()
    }
}
