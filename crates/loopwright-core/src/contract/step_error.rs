//! Errors of steps.

use crate::{
    BoxError,
    compile::CompileError,
    failure::{Failure, FailureKind, Panicked},
    hook::HookError,
    model::ModelError,
    stop::StopSignal,
};

/// A step without a response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// A hook, a limit or the driver stops the run; not a failure.
    #[error("stopped: {0}")]
    Stopped(StopSignal),
    /// The run was cancelled; not a failure.
    #[error("the run was cancelled")]
    Cancelled,
    /// The context could not be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A hook failed.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// The model did not respond.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model's response does not have the required form.
    #[error("the model response is invalid: {0}")]
    Invalid(String),
    /// The driver failed for another reason.
    #[error("the driver failed")]
    Driver(#[source] BoxError),
}

impl StepError {
    /// Returns the error as it is stored in the state.
    pub fn to_failure(&self) -> Failure {
        let kind = match self {
            Self::Stopped(_) | Self::Cancelled => FailureKind::Other,
            Self::Compile(_) => FailureKind::ContextCompile,
            Self::Hook(error) => return Failure::from(error),
            Self::Model(error) => error.failure_kind(),
            Self::Invalid(_) => FailureKind::Validation,
            Self::Driver(error) if error.is::<Panicked>() => FailureKind::Panic,
            Self::Driver(_) => FailureKind::Driver,
        };
        let is_passing = matches!(self, Self::Model(error) if error.kind.is_retryable());
        Failure::from_error(kind, self).with_transient(is_passing)
    }
}
