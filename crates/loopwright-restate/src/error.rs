//! Errors of requests to Restate.

use loopwright_core::BoxError;
use loopwright_sessions::StoreError;

/// A request to Restate failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestateError {
    /// The address is not one of HTTP.
    #[error("`{0}` is not the address of Restate; write a URL such as `http://127.0.0.1:8080`")]
    Url(String),
    /// Restate did not respond.
    #[error("Restate at {url} did not respond; check the address, and that Restate is running")]
    Unreachable {
        /// The address.
        url: String,
        /// The cause.
        source: BoxError,
    },
    /// Restate knows no worker of the service.
    #[error(
        "Restate at {url} does not know the service `{service}`; start `loopwright worker --restate`, or register the address of a worker"
    )]
    UnknownService {
        /// The address.
        url: String,
        /// The name of the service.
        service: String,
    },
    /// Restate refused the request.
    #[error("Restate at {url} refused the request with status {status}: {reason}")]
    Refused {
        /// The address.
        url: String,
        /// The status of HTTP.
        status: u16,
        /// Its response.
        reason: String,
    },
}

impl From<RestateError> for StoreError {
    fn from(error: RestateError) -> Self {
        Self::Undelivered(error.into())
    }
}
