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
    id::SessionId,
    session::AgentSession,
};

/// The length of the tag of a request.
const TAG_LENGTH: usize = 16;

/// A waiting request as it was shown to the person who answers it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownRequest {
    session: SessionId,
    execution: Option<ExecutionId>,
    step: Option<u32>,
    path: Vec<u16>,
    call: ToolCall,
    text: String,
}

impl ShownRequest {
    /// Remembers a request of a session's state.
    pub fn of(session: &SessionId, state: &AgentState, asked: &PendingApproval<'_>) -> Self {
        let execution = state.execution();
        Self {
            session: session.clone(),
            execution: execution.map(|it| it.id().clone()),
            step: execution.and_then(|it| Some(it.open_step()?.number())),
            path: asked.address(),
            call: asked.call.clone(),
            text: asked.question.text.clone(),
        }
    }

    /// Returns the tag of what was shown: hexadecimal digits that are the same in every process, and differ for the same call
    /// in another session, such as a fork, in another step or with different arguments.
    ///
    /// A client that keeps the tag with the question it shows can send it with the answer, to decide about exactly what its
    /// user saw.
    pub fn tag(&self) -> String {
        let Self { session, execution, step, path, call, text } = self;
        let session = session.as_str();
        let execution = execution.as_ref().map(ExecutionId::as_str);
        let arguments = call.arguments.to_string();
        let (id, name) = (call.id.as_deref(), &*call.name);
        let shown = json!([session, execution, step, path, id, name, arguments, text]);
        format!("{:.TAG_LENGTH$x}", Sha256::digest(shown.to_string()))
    }

    /// Returns the address of the request with its tag.
    pub fn address(&self) -> RequestAddress {
        RequestAddress { path: self.path.clone(), tag: Some(self.tag()) }
    }

    /// Returns the request in a later state of its session, if it still waits as it was shown.
    fn find<'a>(&self, session: &'a AgentSession) -> Option<PendingApproval<'a>> {
        let pending = session.state().pending();
        let asked = pending.into_iter().find(|it| it.address() == self.path)?;
        (Self::of(session.id(), session.state(), &asked) == *self).then_some(asked)
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
#[error("invalid call `{text}`; write the call's number as listed, such as `1` or `0.2`")]
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
            Some(asked) if ShownRequest::of(session.id(), state, &asked).tag() == *tag => {
                Ok(Some(asked))
            }
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
        let path = path.split('.').map(position).collect::<Option<_>>().ok_or_else(invalid)?;
        if tag.is_some_and(|it| !is_tag(it)) {
            return Err(invalid());
        }
        Ok(Self { path, tag: tag.map(str::to_owned) })
    }
}

/// Reads a position as it is written: digits alone, without a sign or zeros before them, so that each address has one text.
fn position(text: &str) -> Option<u16> {
    let is_written = text == "0" || !text.starts_with('0');
    let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if is_written && is_number { text.parse().ok() } else { None }
}

fn is_tag(text: &str) -> bool {
    let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
    text.len() == TAG_LENGTH && text.bytes().all(is_digit)
}

impl fmt::Display for RequestAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&PendingApproval::format_address(&self.path))?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, "@{tag}"))
    }
}

/// Decides about a request as it was shown. If it no longer waits, or waits with different arguments, the decision is refused
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
        let Some(asked) = self.request.find(&session) else {
            let (id, path) = (session.id().clone(), self.request.path.clone());
            return Err(SessionError::Superseded { id, path });
        };
        decide(&session, &asked, self.resolution.clone(), cx)
    }
}

/// Decides about a request as it was shown, and then edits the session. Both are one write, so neither is saved without the
/// other, and the run that continues then sees both.
#[derive(Clone, Debug)]
pub struct DecideThen<F> {
    /// The decision.
    pub decide: DecideShown,
    /// Edits the session after the decision.
    pub edit: F,
}

#[async_trait]
impl<F> SessionAction for DecideThen<F>
where
    F: Fn(AgentSession) -> Result<AgentSession, SessionError> + Send + Sync,
{
    fn name(&self) -> Cow<'static, str> {
        self.decide.name()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        (self.edit)(self.decide.execute(session, cx).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written_and_in_no_other_way() {
        for text in ["0", "7", "0.2", "65535.0", "0@9f86d081884c7d65", "1.2@0123456789abcdef"] {
            assert_eq!(text.parse::<RequestAddress>().unwrap().to_string(), text);
        }
        let odd = [
            "",
            "+0",
            "-0",
            "00",
            "01",
            " 0",
            "0 ",
            "0x1",
            "65536",
            ".",
            "0.",
            ".0",
            "0..1",
            "٣",
            "+0@9f86d081884c7d65",
            "0@",
            "0@9f86",
            "0@9F86D081884C7D65",
            "0@9f86d081884c7d65@",
            "0@9f86d081884c7d6g",
            "@9f86d081884c7d65",
        ];
        for text in odd {
            assert!(text.parse::<RequestAddress>().is_err(), "{text:?}");
        }
    }
}
