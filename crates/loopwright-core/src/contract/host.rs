//! The engine, as the contexts of tools and hooks use it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use loopwright_messages::{InferenceRequest, InferenceResponse};

use crate::{
    agent::AgentLoop, budget::Spend, handle::RunHandle, model::ChatModel, state::AgentState,
    step_error::StepError,
};

/// The run that calls a tool or a hook.
pub(crate) trait RunHost: Send + Sync {
    /// Returns the agent of the run.
    fn agent(&self) -> &AgentLoop;

    /// Returns a handle to cancel and steer the run.
    fn handle(&self) -> RunHandle;

    /// Returns the active time since the last record of it.
    fn working(&self) -> Duration;

    /// Adds spend that is not from a model call of the run.
    fn add_spend(&self, spend: Spend);

    /// Calls a model outside the conversation.
    fn call_model<'a>(
        &'a self,
        state: &'a AgentState,
        model: &'a dyn ChatModel,
        request: &'a mut InferenceRequest,
    ) -> BoxFuture<'a, Result<InferenceResponse, StepError>>;
}
