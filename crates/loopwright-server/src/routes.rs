//! The routes.

pub(crate) mod agents;
#[cfg(feature = "files")]
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod messages;
pub(crate) mod pending;
pub(crate) mod sessions;
pub(crate) mod streams;
pub(crate) mod usage;

use axum::{
    body::Body as HttpBody,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;

use crate::{extract::etag, problem::Problem};

/// Makes a JSON response.
pub(crate) fn reply<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, Problem> {
    let body = encoded(value)?;
    Ok(json_response(status, body))
}

/// Makes a JSON response with an entity tag, or 304 if the client has it.
pub(crate) fn reply_tagged<T: Serialize>(
    headers: &HeaderMap,
    value: &T,
) -> Result<Response, Problem> {
    let body = encoded(value)?;
    let tag = etag(&body);
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|it| it.to_str().ok());
    let mut known = known.flat_map(|it| it.split(',')).map(|it| it.trim().trim_start_matches("W/"));
    let mut response = if known.any(|it| it == tag || it == "*") {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        json_response(StatusCode::OK, body)
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    // It may be kept if it is asked for again each time.
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (status, content_type, HttpBody::from(body)).into_response()
}

fn encoded<T: Serialize>(value: &T) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "the response cannot be encoded");
        Problem::internal("the response cannot be encoded")
    })
}
