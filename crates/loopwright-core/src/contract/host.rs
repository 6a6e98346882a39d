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
    /// Returns the agent that runs.
    fn agent(&self) -> &AgentLoop;

    /// Returns a handle to cancel and steer the run with.
    fn handle(&self) -> RunHandle;

    /// Returns how long has been worked since that was last recorded.
    fn working(&self) -> Duration;

    /// Adds what was consumed without a model call of the run.
    fn add_spend(&self, spend: Spend);

    /// Calls a model beside the conversation.
    fn call_model<'a>(
        &'a self,
        state: &'a AgentState,
        model: &'a dyn ChatModel,
        request: &'a mut InferenceRequest,
    ) -> BoxFuture<'a, Result<InferenceResponse, StepError>>;
}
