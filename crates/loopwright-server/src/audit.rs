//! The audit log: a record of each change with its principal.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use loopwright_core::Timestamp;
use serde::Serialize;

/// A request that changed something, was to change something, or was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// When it was answered.
    pub at: Timestamp,
    /// Who sent it; `None` if it showed no valid credentials.
    pub principal: Option<Arc<str>>,
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The status code of the response.
    pub status: u16,
}

/// Returns `true` if a request belongs on record: what only reads and was allowed does not.
pub(crate) fn is_recorded(method: &Method, status: StatusCode) -> bool {
    let is_refused = matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::MISDIRECTED_REQUEST
            | StatusCode::TOO_MANY_REQUESTS
    );
    !method.is_safe() || is_refused
}
