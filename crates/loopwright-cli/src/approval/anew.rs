//! A change of the permission mode while a call waits.

use loopwright_core::{AgentState, ApprovalDecision, PendingApproval, RequestKind};
use loopwright_permissions::{Decision, Mode};

use super::{is_confined_in, with_call};
use crate::console;
use crate::conversation::Conversation;
use crate::display::RunDisplay;
use crate::exit::ExitCode;
use crate::mode_change::change_mode;
use crate::sessions::UserDecision;

/// Changes the mode to the next one or to a named one, and shows it. Returns `false` if it is the same as before.
fn set_mode(conversation: &Conversation, display: RunDisplay, name: &str) -> bool {
    let permissions = &conversation.setup.permissions;
    let before = permissions.policy().mode();
    let changed = match name {
        "" => Ok(before),
        name => change_mode(permissions, name, |event| display.show(&event)),
    };
    match changed {
        Ok(mode) => {
            console::tell(&format!("mode {mode}"));
            mode != before
        }
        Err(error) => {
            console::fail(&*error, ExitCode::Usage);
            false
        }
    }
}

/// Changes the mode, and decides about a call that waits. `None` leaves it to the user: the rules still ask, or the call waits for
/// another reason than the rules and the mode of the run, such as a hook or the definition of an agent.
pub(super) fn decided_anew(
    conversation: &Conversation,
    display: RunDisplay,
    name: &str,
    state: &AgentState,
    asked: &PendingApproval<'_>,
) -> Option<ApprovalDecision> {
    let setup = &conversation.setup;
    let before = setup.permissions.policy();
    if !set_mode(conversation, display, name) {
        return None;
    }
    let is_of_run = asked.path.is_empty() && setup.applied.is_none();
    let is_approval = matches!(asked.kind, RequestKind::Approval);
    if !is_approval || !is_of_run || asked.question.is_recovery() {
        return None;
    }
    let now = setup.permissions.policy();
    let verdict = with_call(state, asked, is_confined_in(setup, asked), |call| {
        // The request was raised in any mode: the mode may have changed more than once since.
        let asks = |mode: Mode| {
            let was = before.with_mode(mode).map(|policy| policy.explain(call).verdict);
            was.is_some_and(|was| {
                was.decision == Decision::Ask && was.reason.to_string() == *asked.question.text
            })
        };
        Mode::ALL.into_iter().any(asks).then(|| now.decide(call))
    })?;
    match verdict.decision {
        Decision::Allow => Some(ApprovalDecision::Approve),
        Decision::Deny => {
            let reason = Some(verdict.reason.to_string());
            Some(UserDecision::Deny(reason).of(Some(asked), state))
        }
        Decision::Ask => None,
    }
}
