//! A driver that makes a client's call instead of calling a model.

use async_trait::async_trait;
use loopwright_core::{
    AgentState, Driver, StepError, StepResponse, ThinkCx,
    messages::{Content, InferenceResponse, Message, Part, Role, ToolCall, Usage},
};

/// Makes one call, and ends when it is over.
pub(super) struct CallDriver(pub(super) ToolCall);

#[async_trait]
impl Driver for CallDriver {
    async fn think(&self, state: &AgentState, _: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let message = if state.step_count() == 0 {
            Message::new(Role::Assistant, [Part::new(Content::ToolCall(self.0.clone()))])
        } else {
            Message::assistant("done")
        };
        Ok(StepResponse::from_response(InferenceResponse::new(message, Usage::default())))
    }
}

/// Stands in where no call is made.
pub(super) struct IdleDriver;

#[async_trait]
impl Driver for IdleDriver {
    async fn think(&self, _: &AgentState, _: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let message = Message::assistant("done");
        Ok(StepResponse::from_response(InferenceResponse::new(message, Usage::default())))
    }
}
