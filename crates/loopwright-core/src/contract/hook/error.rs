//! Errors of hooks.

use std::sync::Arc;

use crate::{
    BoxError,
    failure::{Failure, FailureKind, Panicked},
};

/// A hook that failed.
#[derive(Debug, thiserror::Error)]
#[error("hook `{hook}` failed at {point}")]
pub struct HookError {
    /// The hook's name.
    pub hook: Arc<str>,
    /// The point at which it was called.
    pub point: &'static str,
    /// Its error.
    pub source: BoxError,
}

impl From<&HookError> for Failure {
    fn from(error: &HookError) -> Self {
        let kind =
            if error.source.is::<Panicked>() { FailureKind::Panic } else { FailureKind::Hook };
        Self::from_error(kind, error)
    }
}
