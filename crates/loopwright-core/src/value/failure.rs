//! Errors as data, in the form that the state stores.

use std::{error::Error, fmt};

use serde::{Deserialize, Serialize};

/// A failure, for readers of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The error and its causes, outermost first.
    pub chain: Vec<String>,
    /// Whether the same operation can succeed later, because the other side was unavailable or too
    /// busy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_transient: bool,
}

/// The kind of a failure, which suggests the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The provider did not respond, or its response is invalid.
    Model,
    /// The provider limits the rate of requests.
    RateLimit,
    /// The request is longer than the model's context window.
    ContextLength,
    /// No model is configured, or its key is missing.
    NoModel,
    /// An operation exceeded its timeout.
    Timeout,
    /// The network failed.
    Network,
    /// A tool failed.
    Tool,
    /// The model called an unknown tool.
    UnknownTool,
    /// The model's arguments are not JSON or violate the tool's schema.
    InvalidArguments,
    /// The model's answer does not have the requested form.
    Validation,
    /// A hook failed.
    Hook,
    /// The context could not be compiled.
    ContextCompile,
    /// The driver failed for another reason.
    Driver,
    /// The journal refused or lost the run.
    Journal,
    /// A tool, hook or driver panicked.
    Panic,
    /// The same step was attempted too often.
    CrashLoop,
    /// Any other failure.
    Other,
}

impl Failure {
    /// Creates a failure from a message.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, chain: vec![message.into()], is_transient: false }
    }

    /// Creates a failure from an error with its causes.
    ///
    /// ```
    /// use std::io;
    ///
    /// use loopwright_core::{Failure, FailureKind};
    ///
    /// let failure = Failure::from_error(FailureKind::Tool, &io::Error::other("disk full"));
    /// assert_eq!((failure.message(), failure.is_transient), ("disk full", false));
    /// ```
    pub fn from_error(kind: FailureKind, error: &(dyn Error + 'static)) -> Self {
        let mut chain = vec![error.to_string()];
        let mut cause = error.source();
        while let Some(error) = cause {
            chain.push(error.to_string());
            cause = error.source();
        }
        Self { kind, chain, is_transient: false }
    }

    /// Sets whether the same operation can succeed later.
    #[must_use]
    pub fn with_transient(self, is_passing: bool) -> Self {
        Self { is_transient: is_passing, ..self }
    }

    /// Returns the outermost message.
    pub fn message(&self) -> &str {
        self.chain.first().map_or("", String::as_str)
    }
}

impl fmt::Display for Failure {
    /// Writes the outermost message and the last cause, without the causes in between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(root) = self.chain.last() else { return Ok(()) };
        let told = self.chain.iter().position(|it| it.contains(root.as_str()));
        let told = told.map_or(&*self.chain, |at| &self.chain[..=at]);
        f.write_str(&told.join(": "))
    }
}

impl Error for Failure {}

/// Returns the message of a panic from its payload.
pub fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

/// A contained panic.
#[derive(Debug, thiserror::Error)]
#[error("panicked: {0}")]
pub(crate) struct Panicked(pub(crate) String);

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{said}")]
    struct Told {
        said: &'static str,
        source: io::Error,
    }

    #[test]
    fn a_cause_is_told_once() {
        let check = |said, expect: &str| {
            let error = Told { said, source: io::Error::other("no room") };
            assert_eq!(Failure::from_error(FailureKind::Network, &error).to_string(), expect);
        };
        check("cannot write", "cannot write: no room");
        check("cannot write: no room", "cannot write: no room");
    }
}
