//! Health and metrics of the server.

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use loopwright_sessions::{JobStatus, SessionQuery};

use crate::{
    operation::{ADMIN, Operation, Security, other},
    problem::Problem,
    server::Server,
};

const TEXT: &str = "text/plain; charset=utf-8";
/// The text format of Prometheus.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn operations() -> Vec<Operation> {
    let of = |path, id, summary, security, responses, handler| Operation {
        method: "get",
        path,
        id,
        summary,
        security,
        parameters: &[],
        body: None,
        responses,
        handler,
    };
    vec![
        of(
            "/healthz",
            "healthz",
            "Report that the server is running",
            Security::Public,
            const { &[other(200, "The server is running.", "text/plain")] },
            || get(async || ([(header::CONTENT_TYPE, TEXT)], "ok\n")),
        ),
        of(
            "/readyz",
            "readyz",
            "Report whether the server accepts runs",
            Security::Public,
            const { &[other(200, "The server accepts runs.", "text/plain")] },
            || get(ready),
        ),
        of(
            "/metrics",
            "metrics",
            "Read the metrics of the server, in the Prometheus text format",
            ADMIN,
            const { &[other(200, "The figures.", "text/plain")] },
            || get(metrics),
        ),
    ]
}

async fn ready(State(server): State<Server>) -> Result<Response, Problem> {
    if server.drain().is_cancelled() {
        return Err(Problem::unavailable("the server is shutting down"));
    }
    server.store().list(&SessionQuery::first(1)).await?;
    Ok(([(header::CONTENT_TYPE, TEXT)], "ready\n").into_response())
}

async fn metrics(State(server): State<Server>) -> Result<Response, Problem> {
    let queue = server.queue()?;
    let mut jobs = Vec::new();
    for status in JobStatus::ALL {
        jobs.push((status, queue.count(status).await?));
    }
    let text = server.metrics().render(&jobs);
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, METRICS)], text).into_response())
}
