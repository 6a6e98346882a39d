//! Calls that need a decision or an answer, in a run that does not wait.

use std::sync::Arc;

use loopwright_messages::ToolCall;

use crate::{
    executor::{AskedCall, CallContext, FinishedCall, PausedCall},
    on_ask::OnAsk,
    outcome::{ApprovalRequest, Arguments, ToolOutcome},
    pause::{PendingApproval, RequestKind},
    stop::StopSignal,
};

impl OnAsk {
    /// Returns the end of a call that needs a decision. Returns `None` if it waits.
    pub(super) fn refuse_call(
        self,
        acting: &CallContext,
        index: u16,
        asked: &AskedCall,
    ) -> Option<FinishedCall> {
        let written = acting.call(index)?;
        let arguments = asked.arguments.as_ref().map_or(&written.arguments, Arguments::shared);
        let call = ToolCall { arguments: Arc::clone(arguments), ..written.clone() };
        self.refuse(&call, &asked.question, &RequestKind::Approval)
    }

    /// Returns the end of a call whose tool asks. Returns `None` if it waits. A sub-agent has the same policy, so that what
    /// it asks was recorded before.
    pub(super) fn refuse_pause(
        self,
        acting: &CallContext,
        index: u16,
        paused: &PausedCall,
    ) -> Option<FinishedCall> {
        let own = paused.pause.requests.iter().find(|it| it.path().is_empty())?;
        self.refuse(acting.call(index)?, own.question(), &own.kind)
    }

    /// Returns the end of a call whose tool asked before the run resumed. Returns `None` if only a sub-agent asked.
    pub(super) fn refuse_answer(
        self,
        pending: &[PendingApproval<'_>],
        index: u16,
    ) -> Option<FinishedCall> {
        let own = pending.iter().find(|it| it.index == index && it.path.is_empty())?;
        self.refuse(own.call, own.question, own.kind)
    }

    fn refuse(
        self,
        call: &ToolCall,
        question: &ApprovalRequest,
        kind: &RequestKind,
    ) -> Option<FinishedCall> {
        let (tool, text) = (&call.name, &question.text);
        let signal = match self {
            Self::Pause => return None,
            Self::Deny => None,
            Self::Fail => {
                let needs = match kind {
                    RequestKind::Approval => "needs approval",
                    RequestKind::Question { .. } => "needs an answer",
                    RequestKind::External { .. } => "needs a result from outside the run",
                };
                let message = format!("`{tool}` {needs} ({text})");
                Some(StopSignal::requested(Self::SOURCE, message).with_denied_call(call))
            }
        };
        let outcome = match (&signal, kind) {
            _ if question.is_recovery() => ToolOutcome::Unknown,
            (Some(signal), _) => {
                ToolOutcome::Skipped { reason: format!("the run was stopped: {}", signal.message) }
            }
            (None, RequestKind::Approval) => ToolOutcome::Blocked {
                reason: format!("not permitted without approval ({text}); continue without it"),
            },
            (None, RequestKind::Question { .. }) => ToolOutcome::Blocked {
                reason: "the question was declined: no user is present; continue without an answer"
                    .to_owned(),
            },
            (None, RequestKind::External { .. }) => ToolOutcome::Blocked {
                reason: "the tool runs elsewhere, and this run does not wait for the result; \
                    continue without it"
                    .to_owned(),
            },
        };
        Some(FinishedCall { signal, blocked_by: Some(Self::SOURCE.into()), ..outcome.into() })
    }
}
