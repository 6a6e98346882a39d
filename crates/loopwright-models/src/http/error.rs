//! Errors of HTTP requests.

use std::io;

use loopwright_core::{BoxError, ModelErrorKind};
use url::Url;

use crate::record::ExchangeEnd;

/// Errors of HTTP requests. Says where to but shows neither path, query nor user of the address.
#[derive(Debug)]
pub(crate) struct HttpError {
    pub(crate) kind: ModelErrorKind,
    pub(crate) message: String,
    pub(crate) source: Option<BoxError>,
    /// Whether no part of the request was sent.
    pub(crate) is_unsent: bool,
}

impl HttpError {
    /// Says that an exchange could not be recorded.
    pub(crate) fn recording(error: io::Error) -> Self {
        Self {
            kind: ModelErrorKind::InvalidRequest,
            message: format!("the previous exchange could not be recorded: {error}"),
            source: Some(error.into()),
            is_unsent: true,
        }
    }

    /// Says that a header cannot be sent.
    pub(crate) fn invalid_header(error: io::Error) -> Self {
        let message = format!("a header cannot be sent: {error}");
        let (kind, source) = (ModelErrorKind::InvalidRequest, Some(error.into()));
        Self { kind, message, source, is_unsent: true }
    }

    pub(super) fn recorded(end: ExchangeEnd, message: &str) -> Self {
        let kind = match end {
            ExchangeEnd::TimedOut => ModelErrorKind::Timeout,
            ExchangeEnd::Aborted | ExchangeEnd::Complete => ModelErrorKind::Network,
        };
        Self { kind, message: message.to_owned(), source: None, is_unsent: false }
    }

    /// Returns how an exchange ended that failed so.
    pub(super) fn end(&self) -> ExchangeEnd {
        match self.kind {
            ModelErrorKind::Timeout => ExchangeEnd::TimedOut,
            _ => ExchangeEnd::Aborted,
        }
    }

    /// Says that a server did not answer the call.
    pub(super) fn not_connected(url: &Url, error: io::Error) -> Self {
        let message = format!("{}: {error}", no_connection(url));
        let (kind, source) = (ModelErrorKind::Network, Some(error.into()));
        Self { kind, message, source, is_unsent: true }
    }

    /// Says that a server did not answer the call in time.
    pub(super) fn not_connected_in_time(url: &Url) -> Self {
        let message = format!("{} in time", no_connection(url));
        Self { kind: ModelErrorKind::Timeout, message, source: None, is_unsent: true }
    }

    /// Says that a connection ended where it should not.
    pub(super) fn broke(url: &Url, error: io::Error) -> Self {
        let message = format!("{}: {error}", broken(url));
        let (kind, source) = (ModelErrorKind::Network, Some(error.into()));
        Self { kind, message, source, is_unsent: false }
    }
}

fn no_connection(url: &Url) -> String {
    format!("no connection to {}", url.origin().ascii_serialization())
}

fn broken(url: &Url) -> String {
    format!("the connection to {} was lost", url.origin().ascii_serialization())
}
