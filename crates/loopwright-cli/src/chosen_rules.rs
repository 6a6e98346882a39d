//! Rules that the user chose for one session. The session keeps them.

use loopwright_core::{AgentState, BoxError, Edit, Key};
use loopwright_permissions::Decision;
use loopwright_sessions::{AgentSession, DecideShown, DecideThen, SessionAction, SessionError};
use serde::{Deserialize, Serialize};

const RULES: Key<Vec<ChosenRule>> = Key::session("cli", "chosen_rules");

/// A rule that the user chose for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChosenRule {
    pub(crate) decision: Decision,
    pub(crate) rule: String,
}

impl ChosenRule {
    /// Returns rules that decide in this way.
    pub(crate) fn list(decision: Decision, rules: &[String]) -> Vec<Self> {
        rules.iter().map(|rule| Self { decision, rule: rule.clone() }).collect()
    }
}

/// Returns the rules of a session.
pub(crate) fn of(state: &AgentState) -> Vec<ChosenRule> {
    state.get(&RULES).unwrap_or_default()
}

/// Returns the edit that forgets the rules of a session, if it has some.
pub(crate) fn forget(state: &AgentState) -> Option<Edit> {
    state.get(&RULES).map(|_| Edit::Set(RULES.slot(), None))
}

/// Decides about a call, and adds rules to those of the session.
pub(crate) fn deciding(decide: DecideShown, rules: Vec<ChosenRule>) -> impl SessionAction {
    DecideThen { decide, edit: move |session| with_added(session, &rules) }
}

/// Adds rules to those of a session.
///
/// # Errors
///
/// Returns an error if they cannot be written.
pub(crate) fn with_added(
    session: AgentSession,
    added: &[ChosenRule],
) -> Result<AgentSession, SessionError> {
    if added.is_empty() {
        return Ok(session);
    }
    let mut kept = of(session.state());
    for rule in added {
        if !kept.contains(rule) {
            kept.push(rule.clone());
        }
    }
    let value = serde_json::to_value(kept).map_err(BoxError::from);
    let value = value.map_err(SessionError::Action)?;
    let state = session.state().clone().edit(Edit::Set(RULES.slot(), Some(value)));
    Ok(session.with_state(state))
}
