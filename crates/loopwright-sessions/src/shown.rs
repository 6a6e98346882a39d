//! Decisions about requests as they were shown.

use std::{borrow::Cow, fmt, str::FromStr};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, ApprovalDecision, PendingApproval,
    messages::{ExecutionId, ToolCall},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{
    action::{ActionCx, SessionAction},
    actions::decide,
    error::SessionError,
    id::hex_digits,
    session::AgentSession,
};

/// The length of the tag of a request.
const TAG_LENGTH: usize = 16;

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

    /// Returns the tag of what was shown: hexadecimal digits that are the same in every process, and differ for the same call
    /// in another step or with other arguments.
    ///
    /// A client that keeps the tag with the question it shows can send it with the answer, to decide about exactly what its
    /// user saw.
    pub fn tag(&self) -> String {
        let Self { execution, step, path, call, text } = self;
        let execution = execution.as_ref().map(ExecutionId::as_str);
        let arguments = call.arguments.to_string();
        let shown =
            json!([execution, step, path, call.id.as_deref(), &*call.name, arguments, text]);
        hex_digits(&Sha256::digest(shown.to_string()), TAG_LENGTH)
    }

    /// Returns the address of the request with its tag.
    pub fn address(&self) -> RequestAddress {
        RequestAddress { path: self.path.clone(), tag: Some(self.tag()) }
    }

    /// Returns the request in a later state, if it still waits as it was shown.
    fn find<'a>(&self, state: &'a AgentState) -> Option<PendingApproval<'a>> {
        let pending = state.pending();
        let asked = pending.into_iter().find(|it| it.address() == self.path)?;
        (Self::of(state, &asked) == *self).then_some(asked)
    }
}

/// The address of a waiting request as text: the position of the call, those of calls of sub-agents below it, and, after an
/// `@`, the [tag](ShownRequest::tag) of what was shown, such as `1`, `0.2` or `0@9f86d081884c7d65`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAddress {
    /// The position of the call, then those of the sub-agents' calls.
    pub path: Vec<u16>,
    /// The tag of what was shown. `None` means that whatever waits at this address is meant.
    pub tag: Option<String>,
}

/// A text is not the address of a request.
#[derive(Debug, thiserror::Error)]
#[error("invalid call `{text}`; write it as it is listed, such as `1` or `0.2`")]
pub struct InvalidRequestAddress {
    text: String,
}

impl RequestAddress {
    /// Returns what waits at this address; `None` if nothing does.
    ///
    /// # Errors
    ///
    /// Returns [`SessionError::Superseded`] if the address has a tag, and the call no longer waits as it was shown under it.
    pub fn find<'a>(
        &self,
        session: &'a AgentSession,
    ) -> Result<Option<PendingApproval<'a>>, SessionError> {
        let state = session.state();
        let asked = state.pending().into_iter().find(|it| it.address() == self.path);
        let Some(tag) = &self.tag else { return Ok(asked) };
        match asked {
            Some(asked) if ShownRequest::of(state, &asked).tag() == *tag => Ok(Some(asked)),
            _ => {
                let (id, path) = (session.id().clone(), self.path.clone());
                Err(SessionError::Superseded { id, path })
            }
        }
    }
}

impl FromStr for RequestAddress {
    type Err = InvalidRequestAddress;

    fn from_str(text: &str) -> Result<Self, InvalidRequestAddress> {
        let invalid = || InvalidRequestAddress { text: text.to_owned() };
        let (path, tag) = text.split_once('@').map_or((text, None), |(it, tag)| (it, Some(tag)));
        let path = path.split('.').map(str::parse).collect::<Result<_, _>>();
        let path = path.map_err(|_| invalid())?;
        Ok(Self { path, tag: tag.map(str::to_owned) })
    }
}

impl fmt::Display for RequestAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&PendingApproval::format_address(&self.path))?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, "@{tag}"))
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
