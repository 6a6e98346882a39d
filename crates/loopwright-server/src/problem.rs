//! Errors as problem documents (RFC 9457).

use std::borrow::Cow;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use loopwright_sessions::{SessionError, StoreError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The media type of problem documents.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// What the types of problems begin with.
const TYPES: &str = "urn:loopwright:problem:";

/// An error response: a problem document as RFC 9457 defines it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// A URN that identifies the kind of problem, such as `urn:loopwright:problem:not_found`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A summary of the kind of problem.
    pub title: Cow<'static, str>,
    /// The HTTP status code.
    pub status: u16,
    /// The problem of this request, and the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The seconds after which the request can succeed, as in the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

/// Defines a function for each kind of problem.
macro_rules! problems {
    ($($(#[$about:meta])* $name:ident: $status:ident, $title:literal;)*) => {
        impl Problem {
            $($(#[$about])*
            pub fn $name(detail: impl Into<String>) -> Self {
                Self {
                    kind: format!("{TYPES}{}", stringify!($name)),
                    title: $title.into(),
                    status: StatusCode::$status.as_u16(),
                    detail: Some(detail.into()),
                    retry_after: None,
                }
            })*
        }
    };
}

problems! {
    /// The request is malformed.
    bad_request: BAD_REQUEST, "The request is malformed.";
    /// The request carries no valid credentials.
    unauthorized: UNAUTHORIZED, "Valid credentials are required.";
    /// The credentials do not allow this operation.
    forbidden: FORBIDDEN, "The credentials do not allow this operation.";
    /// The resource does not exist, or belongs to another principal.
    not_found: NOT_FOUND, "The resource does not exist.";
    /// The resource does not support the method.
    method_not_allowed: METHOD_NOT_ALLOWED, "The resource does not support this method.";
    /// The request took too long.
    timeout: REQUEST_TIMEOUT, "The request took too long.";
    /// The state of the resource does not allow the operation.
    conflict: CONFLICT, "The state of the resource does not allow this operation.";
    /// The request is too large.
    too_large: PAYLOAD_TOO_LARGE, "The request body is too large.";
    /// The media type of the body is not supported.
    unsupported_media_type: UNSUPPORTED_MEDIA_TYPE, "The media type of the body is not supported.";
    /// The server is not addressed by this host name.
    misdirected: MISDIRECTED_REQUEST, "The server does not serve this host.";
    /// The values in the request are invalid.
    invalid: UNPROCESSABLE_ENTITY, "The values in the request are invalid.";
    /// A tool of the client has the same name as a tool of the agent.
    tool_name_taken: UNPROCESSABLE_ENTITY, "A tool of the client has the same name as a tool of the agent.";
    /// The principal has reached a limit.
    too_many_requests: TOO_MANY_REQUESTS, "A limit has been reached.";
    /// The server failed.
    internal: INTERNAL_SERVER_ERROR, "The server failed.";
    /// The server or its session store is unavailable.
    unavailable: SERVICE_UNAVAILABLE, "The service is unavailable.";
}

impl Problem {
    /// Returns the status code.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the name of the kind of problem, the last part of its type.
    pub fn code(&self) -> &str {
        self.kind.strip_prefix(TYPES).unwrap_or(&self.kind)
    }

    /// Returns the detail, or the title without one.
    pub fn text(&self) -> &str {
        self.detail.as_deref().unwrap_or(&self.title)
    }

    /// Sets the seconds after which the request can succeed.
    #[must_use]
    pub fn with_retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The session does not exist or belongs to another principal. Which of the two is not said.
    pub(crate) fn unknown_session() -> Self {
        Self::not_found("unknown session")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        match self.status() {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, self.retry_after.unwrap_or(1).into());
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(_) => Self::unknown_session(),
            StoreError::Exists(_) => Self::conflict("the session already exists"),
            StoreError::Conflict { .. } | StoreError::LeaseLost(_) => {
                Self::conflict("another writer changed the session; try again")
            }
            StoreError::Busy { .. } => {
                Self::conflict("the session is running; stop it, or wait until its run has ended")
            }
            // What a store says of itself may name places that are no client's business.
            StoreError::Corrupt { .. } => {
                tracing::error!(%error, "the session cannot be read");
                Self::internal("the session cannot be read")
            }
            StoreError::Unsupported(reason) => Self::invalid(reason.to_string()),
            StoreError::Undelivered(error) => {
                tracing::error!(%error, "the job was not delivered yet");
                Self::unavailable("the job is recorded and will run when its scheduler responds")
            }
            error => {
                tracing::error!(%error, "session store unavailable");
                Self::unavailable("the session store is unavailable; try again")
            }
        }
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(error) => error.into(),
            SessionError::NotActive { status, .. } => {
                Self::conflict(format!("the session is {status} and accepts no messages"))
            }
            SessionError::NoStep { step, steps, .. } => {
                Self::invalid(format!("unknown step {step}; the session has {steps} steps"))
            }
            SessionError::NotPending { .. } => {
                Self::conflict("the call is not waiting for a decision; list the waiting calls")
            }
            SessionError::Superseded { .. } => Self::conflict(
                "the request was answered or changed in the meantime; list the waiting calls again",
            ),
            error @ SessionError::HasSnapshots(_) => Self::conflict(error.to_string()),
            SessionError::Decision(error) => Self::invalid(error.to_string()),
            SessionError::Status(error) => Self::conflict(error.to_string()),
            error => {
                tracing::error!(%error, "an operation on a session failed");
                Self::internal("the operation failed; see the server log")
            }
        }
    }
}
