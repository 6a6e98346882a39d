//! The events of a run in the protocols of clients. Each is a fold over the same log.

pub(crate) mod a2a;
pub(crate) mod ag_ui;
pub(crate) mod chat_completions;
pub(crate) mod client_tools;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod openai;
pub(crate) mod responses;
pub(crate) mod run;
pub(crate) mod ui_messages;

use std::{collections::VecDeque, convert::Infallible};

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse as _, Response, Sse, sse::Event},
};
use futures::stream;
use loopwright_sessions::SessionId;
use serde_json::Value;

use self::run::{Followed, RunEvent, RunFollower};
use crate::metrics::OpenStream;

/// The header that names the session of a response.
const SESSION: HeaderName = HeaderName::from_static("x-loopwright-session");

/// Makes the events of a protocol of those of a run.
pub(crate) trait Projection: Send + 'static {
    /// Adds what a client gets before anything has happened.
    fn begin(&mut self, frames: &mut Frames);

    /// Adds what a client gets of an event. The last event is [`RunEvent::Ended`].
    fn project(&mut self, event: &RunEvent, frames: &mut Frames);
}

/// Server-sent events that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Frames(VecDeque<Event>);

impl Frames {
    /// Adds an event with data alone.
    pub(crate) fn data(&mut self, data: &Value) {
        self.text(&data.to_string());
    }

    pub(crate) fn text(&mut self, data: &str) {
        self.0.push_back(Event::default().data(data));
    }

    /// Adds an event with a name.
    pub(crate) fn named(&mut self, name: &str, data: &Value) {
        self.0.push_back(Event::default().event(name).data(data.to_string()));
    }
}

/// Streams a run in a protocol, with comments while nothing happens, so that clients do not consider the stream dead.
fn stream(mut projection: impl Projection, run: RunFollower, open: OpenStream) -> Response {
    let (session, heartbeat) = (run.session().clone(), run.heartbeat());
    let mut frames = Frames::default();
    projection.begin(&mut frames);
    let begin = (projection, run, frames, open);
    let events =
        stream::unfold(begin, move |(mut projection, mut run, mut frames, open)| async move {
            loop {
                if let Some(event) = frames.0.pop_front() {
                    return Some((Ok::<_, Infallible>(event), (projection, run, frames, open)));
                }
                match run.next_within(heartbeat).await? {
                    Followed::Event(event) => projection.project(&event, &mut frames),
                    Followed::Nothing => frames.0.push_back(Event::default().comment("heartbeat")),
                }
            }
        });
    let response = ([(header::CACHE_CONTROL, "no-cache")], Sse::new(events)).into_response();
    of_session(response, &session)
}

/// Names the session of a response.
fn of_session(mut response: Response, session: &SessionId) -> Response {
    if let Ok(value) = HeaderValue::from_str(session.as_str()) {
        response.headers_mut().insert(SESSION, value);
    }
    response
}
