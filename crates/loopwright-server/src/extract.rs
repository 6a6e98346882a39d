//! Extraction of data from requests.

use std::{pin::pin, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request},
    http::{HeaderName, StatusCode, header, request::Parts},
};
use futures::future::{Either, select};
use loopwright_sessions::{SessionHeader, SessionId, SessionStatus, SessionStore, StoreError};
use serde::de::DeserializeOwned;

use crate::{
    access::one, principal::Principal, problem::Problem, server::Server, tokens::hash_bytes,
};

/// The most characters of an idempotency key.
const MAX_KEY: usize = 255;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How deep the sub-agents of a session are nested at most.
const MAX_DEPTH: usize = 32;

/// The session that the path names, if it belongs to the principal.
pub(crate) struct OwnSession(pub(crate) SessionHeader);

/// The body of a request, as JSON.
pub(crate) struct Body<T>(pub(crate) T);

/// The parameters of the query.
pub(crate) struct Params<T>(pub(crate) T);

/// The idempotency key of a request, if it has one.
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl FromRequestParts<Server> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Server) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Self>();
        principal.cloned().ok_or_else(|| Problem::unauthorized("send a valid token"))
    }
}

impl FromRequestParts<Server> for OwnSession {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Problem> {
        let principal = Principal::from_request_parts(parts, server).await?;
        let id = path_param(parts, "session").await?;
        let id = SessionId::new(id).map_err(|_| Problem::unknown_session())?;
        own_session(&**server.store(), &principal, id).await.map(Self)
    }
}

/// Returns what is known of a session, if it belongs to a principal and was not deleted.
pub(crate) async fn own_session(
    store: &dyn SessionStore,
    principal: &Principal,
    id: SessionId,
) -> Result<SessionHeader, Problem> {
    let scope = principal.scope();
    // The names of other principals' sessions are not looked up at all.
    if id.tag().is_some() && !scope.contains(&id) {
        return Err(Problem::unknown_session());
    }
    let header = store.header(&id).await?.ok_or_else(Problem::unknown_session)?;
    if header.status == SessionStatus::Deleted {
        return Err(Problem::unknown_session());
    }
    // The session of a sub-agent belongs to the principal of the session that it works for.
    let mut root = header.clone();
    for _ in 0..MAX_DEPTH {
        let Some(parent) = root.works_for() else {
            let is_own = scope.contains(&root.id);
            return if is_own { Ok(header) } else { Err(Problem::unknown_session()) };
        };
        let found: Result<_, StoreError> = store.header(parent).await;
        root = found?.ok_or_else(Problem::unknown_session)?;
    }
    Err(Problem::unknown_session())
}

/// Returns a parameter of the path.
pub(crate) async fn path_param(parts: &mut Parts, name: &str) -> Result<String, Problem> {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.map_err(|_| Problem::not_found("unknown path"))?;
    let value = params.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
    value.ok_or_else(|| Problem::not_found("unknown path"))
}

impl<T: DeserializeOwned> FromRequest<Server> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Server) -> Result<Self, Problem> {
        let media_type = one(request.headers(), &header::CONTENT_TYPE)?.unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/json") {
            let text = "send the body as JSON: `Content-Type: application/json`";
            return Err(Problem::unsupported_media_type(text));
        }
        let bytes = bytes(request, server).await?;
        let value = serde_json::from_slice(&bytes).map_err(|error| {
            let text = format!("the body is invalid: {error}");
            if error.is_data() { Problem::invalid(text) } else { Problem::bad_request(text) }
        })?;
        Ok(Self(value))
    }
}

/// Reads the body of a request.
pub(crate) async fn bytes(request: Request, server: &Server) -> Result<Bytes, Problem> {
    let read = pin!(Bytes::from_request(request, server));
    let Either::Left((read, _)) = select(read, server.clock().sleep(BODY_TIMEOUT)).await else {
        return Err(Problem::timeout("the body did not arrive in time"));
    };
    read.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large("the body is too large"),
        _ => Problem::bad_request("the body cannot be read"),
    })
}

impl<T: DeserializeOwned> FromRequestParts<Server> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, server).await;
        let invalid = |_| Problem::bad_request("the query parameters are invalid");
        query.map(|Query(it)| Self(it)).map_err(invalid)
    }
}

impl FromRequestParts<Server> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Server) -> Result<Self, Problem> {
        let name = HeaderName::from_static("idempotency-key");
        match one(&parts.headers, &name)? {
            Some(key) if key.is_empty() || key.len() > MAX_KEY => {
                let text = format!("the idempotency key must have 1 to {MAX_KEY} characters");
                Err(Problem::bad_request(text))
            }
            key => Ok(Self(key.map(str::to_owned))),
        }
    }
}

/// Returns an entity tag of what a response shows.
pub(crate) fn etag(body: &[u8]) -> String {
    format!("\"{}\"", &hash_bytes(body)[..32])
}
