//! Rules that the user chose for one session. The session keeps them.

use std::sync::Arc;

use loopwright_core::{AgentState, BoxError, Edit, Key};
use loopwright_permissions::Decision;
use loopwright_sessions::{AgentSession, SessionError, SessionId, SessionStore, action_fn};
use serde::{Deserialize, Serialize};

use crate::loops::maintenance_runtime;

const RULES: Key<Vec<ChosenRule>> = Key::session("cli", "chosen_rules");

/// A rule that the user chose for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChosenRule {
    pub(crate) decision: Decision,
    pub(crate) rule: String,
}

/// Returns the rules of a session.
pub(crate) fn of(state: &AgentState) -> Vec<ChosenRule> {
    state.get(&RULES).unwrap_or_default()
}

/// Returns the edit that forgets the rules of a session, if it has some.
pub(crate) fn forget(state: &AgentState) -> Option<Edit> {
    state.get(&RULES).map(|_| Edit::Set(RULES.slot(), None))
}

/// Adds rules to those of a session, and returns all of them.
pub(crate) async fn record(
    store: &Arc<dyn SessionStore>,
    id: &SessionId,
    decision: Decision,
    rules: &[String],
) -> Result<Vec<ChosenRule>, SessionError> {
    let added: Vec<ChosenRule> =
        rules.iter().map(|rule| ChosenRule { decision, rule: rule.clone() }).collect();
    let action = action_fn("choose_rules", move |session: AgentSession| {
        let added = added.clone();
        async move {
            let mut kept = of(session.state());
            for rule in added {
                if !kept.contains(&rule) {
                    kept.push(rule);
                }
            }
            let value = serde_json::to_value(kept).map_err(BoxError::from);
            let value = value.map_err(SessionError::Action)?;
            let state = session.state().clone().edit(Edit::Set(RULES.slot(), Some(value)));
            Ok(session.with_state(state))
        }
    });
    let session = maintenance_runtime(store).execute(id, &action).await?;
    Ok(of(session.state()))
}
