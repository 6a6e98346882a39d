//! `/v1/sessions/{session}/events`.

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
    routing::get,
};

use crate::{
    cursor::LastEventId,
    events,
    extract::OwnSession,
    operation::{Operation, Parameter, READ, empty, other},
    problem::Problem,
    server::Server,
};

pub(crate) fn operations() -> Vec<Operation> {
    const LAST: Parameter = Parameter {
        name: "Last-Event-ID",
        place: "header",
        about: "The ID of the last event that the client has received.",
        kind: "integer",
    };
    const LAST_IN_QUERY: Parameter = Parameter {
        name: "last_event_id",
        place: "query",
        about: "The same value, for clients that cannot set the header.",
        kind: "integer",
    };
    vec![Operation {
        method: "get",
        path: "/v1/sessions/{session}/events",
        id: "streamEvents",
        summary: "Stream the events of a session from any position until its run ends",
        security: READ,
        parameters: &[LAST, LAST_IN_QUERY],
        body: None,
        responses: const {
            &[
                other(200, "The events.", "text/event-stream"),
                empty(204, "The client has received all events, and no run is active."),
            ]
        },
        handler: || get(stream),
    }]
}

async fn stream(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    after: Result<LastEventId, crate::cursor::InvalidCursor>,
) -> Result<Response, Problem> {
    let LastEventId(after) = after.map_err(|error| Problem::bad_request(error.to_string()))?;
    let open = server.metrics().stream();
    let streams = server.streams().clone();
    let opened = events::open(streams, header.id, after, open).await?;
    Ok(opened.into_response())
}
