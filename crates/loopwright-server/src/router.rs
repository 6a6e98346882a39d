//! The router of a server: its routes and middleware.

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::get,
};

use crate::{
    guard::authorized,
    openapi,
    operation::{Operation, Security, other},
    problem::Problem,
    projections::{a2a, ag_ui, chat_completions, openai, responses, ui_messages},
    routes::{agents, health, messages, pending, reply, sessions, streams, usage},
    server::Server,
};

/// The paths whose errors are those of `OpenAI`.
const OPENAI: [&str; 3] = ["/v1/models", "/v1/chat/completions", "/v1/responses"];

/// Returns all operations.
pub(crate) fn operations() -> Vec<Operation> {
    let document = Operation {
        method: "get",
        path: "/v1/openapi.json",
        id: "openapi",
        summary: "Read this document",
        security: Security::Public,
        parameters: &[],
        body: None,
        responses: const { &[other(200, "The OpenAPI document.", "application/json")] },
        handler: || get(async || reply(StatusCode::OK, &openapi::document())),
    };
    [
        health::operations(),
        vec![document],
        agents::operations(),
        sessions::operations(),
        messages::operations(),
        streams::operations(),
        pending::operations(),
        usage::operations(),
        #[cfg(feature = "files")]
        crate::routes::files::operations(),
        openai::operations(),
        chat_completions::operations(),
        responses::operations(),
        a2a::operations(),
        ag_ui::operations(),
        ui_messages::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Server {
    /// Returns all routes, to be served or merged into another router.
    pub fn router(&self) -> Router {
        let routed = operations().into_iter().fold(Router::new(), |router, operation| {
            router.route(operation.path, self.guarded(&operation))
        });
        #[cfg(feature = "mcp")]
        let routed = crate::projections::mcp::mounted(self, routed);
        #[cfg(feature = "page")]
        let routed = routed.merge(crate::page::routes(self));
        let server = self.clone();
        routed
            .fallback(async || Problem::not_found("unknown path"))
            .method_not_allowed_fallback(async || {
                Problem::method_not_allowed("the path does not support this method")
            })
            .layer(DefaultBodyLimit::max(self.max_body()))
            .layer(from_fn_with_state(server, checked))
            .layer(from_fn(secured))
            .with_state(self.clone())
    }

    /// Returns the method router of an operation, behind the check of who may do it.
    fn guarded(&self, operation: &Operation) -> axum::routing::MethodRouter<Self> {
        let state = (self.clone(), operation.security);
        let guarded = (operation.handler)().route_layer(from_fn_with_state(state, authorized));
        if OPENAI.contains(&operation.path) {
            return guarded.route_layer(from_fn(openai::errors));
        }
        guarded
    }
}

/// Checks the host and the origin of each request, and counts it.
async fn checked(State(server): State<Server>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let (parts, body) = request.into_parts();
    let response = match server.access().check_origin(&parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.into_response(),
    };
    server.metrics().count(&method, response.status());
    server.record(response.extensions().get(), &method, &path, response.status());
    response
}

/// Headers of every response that keep browsers from doing what no page of this server needs.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

async fn secured(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        // A page of the server says itself what it may load.
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    let is_set = response.headers().contains_key(header::CACHE_CONTROL);
    if !is_set {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
