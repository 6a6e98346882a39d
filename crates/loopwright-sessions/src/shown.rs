//! Decisions about requests as they were shown.

use std::borrow::Cow;

use async_trait::async_trait;
use loopwright_core::{
    AgentState, ApprovalDecision, PendingApproval,
    messages::{ExecutionId, ToolCall},
};

use crate::{
    action::{ActionCx, SessionAction},
    actions::decide,
    error::SessionError,
    session::AgentSession,
};

/// A waiting request as it was shown to the person who answers it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownRequest {
    execution: Option<ExecutionId>,
    step: Option<u32>,
    path: Vec<u16>,
    call: ToolCall,
    text: String,
}

impl ShownRequest {
    /// Remembers a request of a state.
    pub fn of(state: &AgentState, asked: &PendingApproval<'_>) -> Self {
        let execution = state.execution();
        Self {
            execution: execution.map(|it| it.id().clone()),
            step: execution.and_then(|it| Some(it.open_step()?.number())),
            path: asked.address(),
            call: asked.call.clone(),
            text: asked.question.text.clone(),
        }
    }

    /// Returns the request in a later state, if it still waits as it was shown.
    fn find<'a>(&self, state: &'a AgentState) -> Option<PendingApproval<'a>> {
        let pending = state.pending();
        let asked = pending.into_iter().find(|it| it.address() == self.path)?;
        (Self::of(state, &asked) == *self).then_some(asked)
    }
}

/// Decides about a request as it was shown. If it no longer waits, or waits with other arguments, the decision is refused
/// with [`SessionError::Superseded`] and not saved: of several people who answer one request, exactly one decides.
/// Otherwise like [`DecideCall`](crate::DecideCall).
#[derive(Clone, Debug)]
pub struct DecideShown {
    /// The request.
    pub request: ShownRequest,
    /// The decision or the answer.
    pub resolution: ApprovalDecision,
}

#[async_trait]
impl SessionAction for DecideShown {
    fn name(&self) -> Cow<'static, str> {
        "decide".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        let Some(asked) = self.request.find(&session.state) else {
            let (id, path) = (session.id().clone(), self.request.path.clone());
            return Err(SessionError::Superseded { id, path });
        };
        decide(&session, &asked, self.resolution.clone(), cx)
    }
}
