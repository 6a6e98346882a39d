//! The position at which a stream continues.

use axum::{
    extract::{FromRequestParts, Query},
    http::{HeaderValue, StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

/// The header in which browsers say what they have seen.
const LAST_EVENT_ID: &str = "last-event-id";

/// The number of the last event that a reader has seen; 0 if it has seen none.
///
/// It is taken from the header `Last-Event-ID`, which browsers send when they connect again, or else from
/// the parameter `last_event_id`, for those that cannot set a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastEventId(pub u64);

/// The error of an invalid event number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an event ID; send the ID of the last event received, or no ID")]
pub struct InvalidCursor(String);

#[derive(Default, Deserialize)]
struct Parameters {
    last_event_id: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for LastEventId {
    type Rejection = InvalidCursor;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, InvalidCursor> {
        let header = parts.headers.get(LAST_EVENT_ID).map(HeaderValue::as_bytes);
        let header = header.map(|it| String::from_utf8_lossy(it).into_owned());
        let text = if header.as_ref().is_some_and(|it| !it.is_empty()) {
            header
        } else {
            let query = Query::<Parameters>::from_request_parts(parts, state).await;
            query.map(|Query(it)| it.last_event_id).unwrap_or_default()
        };
        match text.filter(|it| !it.is_empty()) {
            Some(text) => text.trim().parse().map(Self).map_err(|_| InvalidCursor(text)),
            None => Ok(Self::default()),
        }
    }
}

impl IntoResponse for InvalidCursor {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, self.to_string()).into_response()
    }
}
