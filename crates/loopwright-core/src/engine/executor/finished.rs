//! The result of a tool call.

use std::{sync::Arc, time::Duration};

use crate::{
    budget::Spend,
    failure::Failure,
    hook::HookError,
    outcome::{Arguments, ToolOutcome},
    pause::ToolPause,
    stop::StopSignal,
};

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct FinishedCall {
    pub(crate) outcome: ToolOutcome,
    pub(crate) spend: Spend,
    pub(crate) duration: Duration,
    /// The arguments of the tool, if it was started.
    pub(crate) arguments: Option<Arguments>,
    /// Whether the tool was started.
    pub(crate) has_run: bool,
    /// The run stops.
    pub(crate) signal: Option<StopSignal>,
    /// The step failed because a hook failed.
    pub(crate) failure: Option<Failure>,
    /// The journal refused the call, or a sub-agent's journal refused a change.
    pub(crate) journal: Option<Failure>,
    /// The hook or user that blocked it.
    pub(crate) blocked_by: Option<Arc<str>>,
    /// The call has not ended: the tool asks a question.
    pub(crate) pause: Option<Box<PausedCall>>,
}

/// A call whose tool asks a question.
#[derive(Debug)]
pub(crate) struct PausedCall {
    pub(crate) pause: ToolPause,
    /// The arguments of the tool.
    pub(crate) arguments: Option<Arguments>,
}

impl From<ToolOutcome> for FinishedCall {
    fn from(outcome: ToolOutcome) -> Self {
        Self {
            outcome,
            spend: Spend::default(),
            duration: Duration::ZERO,
            arguments: None,
            has_run: false,
            signal: None,
            failure: None,
            journal: None,
            blocked_by: None,
            pause: None,
        }
    }
}

impl From<HookError> for FinishedCall {
    fn from(error: HookError) -> Self {
        let failure = Failure::from(&error);
        Self { failure: Some(failure.clone()), ..ToolOutcome::Failed(failure).into() }
    }
}
