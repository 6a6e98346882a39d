//! A change of the permission mode while a call waits.

use loopwright_agent::CallRules;
use loopwright_capabilities::permissions::UsePermissions;
use loopwright_core::{AgentState, ApprovalDecision, PendingApproval, RequestKind};
use loopwright_permissions::{Call, Decision, Mode, Policy, Verdict};

use super::{is_confined_in, with_call};
use crate::agent::Setup;
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

/// Changes the mode, and decides about a call that waits, of the run's agent or of a sub-agent. `None` leaves it to the user: the
/// rules still ask, or the call waits for another reason than the rules and the mode of its agent, such as a hook.
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
    let is_approval = matches!(asked.kind, RequestKind::Approval);
    if !is_approval || asked.question.is_recovery() {
        return None;
    }
    let rules = setup.call_rules(asked.path.last().map(|it| &*it.agent))?;
    let waiting = Waiting { setup, state, asked, rules };
    // The request was raised in any mode: the mode may have changed more than once since.
    let asks = |mode: Mode| {
        let was = before.with_mode(mode);
        let was =
            was.and_then(|it| waiting.verdict(it, |policy, call| policy.explain(call).verdict));
        was.is_some_and(|was| {
            was.decision == Decision::Ask && was.reason.to_string() == *asked.question.text
        })
    };
    if !Mode::ALL.into_iter().any(asks) {
        return None;
    }
    let verdict = waiting.verdict(setup.permissions.policy(), Policy::decide)?;
    match verdict.decision {
        Decision::Allow => Some(ApprovalDecision::Approve),
        Decision::Deny => {
            let reason = Some(verdict.reason.to_string());
            Some(UserDecision::Deny(reason).of(Some(asked), state))
        }
        Decision::Ask => None,
    }
}

/// A call that waits, and the rules of the definition of its agent.
struct Waiting<'a> {
    setup: &'a Setup,
    state: &'a AgentState,
    asked: &'a PendingApproval<'a>,
    rules: CallRules,
}

impl Waiting<'_> {
    /// Decides about the call by a policy of the run. Returns `None` if the rules of the definition are malformed.
    fn verdict(
        &self,
        run: Policy,
        decide: impl FnOnce(&Policy, &Call<'_>) -> Verdict,
    ) -> Option<Verdict> {
        let may_write = run.mode() != Mode::Plan;
        let policy = UsePermissions::restricted(run, &self.rules).ok()?;
        // The commands of an agent that only plans run as those of the run, which may write.
        let is_confined =
            is_confined_in(self.setup, self.asked) && !(policy.mode() == Mode::Plan && may_write);
        Some(with_call(self.state, self.asked, is_confined, |call| decide(&policy, call)))
    }
}
