//! Rules that the user chose for one session, and the restrictions of the commands that ran it. The session keeps them.

use loopwright_agent::NameList;
use loopwright_core::{AgentState, BoxError, Edit, Key};
use loopwright_permissions::{Decision, Mode};
use loopwright_sessions::{AgentSession, DecideShown, DecideThen, SessionAction, SessionError};
use serde::{Deserialize, Serialize};

use crate::args::AgentArgs;
use crate::config::{Config, Origin};

const RULES: Key<Vec<ChosenRule>> = Key::session("cli", "chosen_rules");

const RESTRICTIONS: Key<Restrictions> = Key::session("cli", "restrictions");

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

/// Restrictions of the commands that ran a session, besides rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Restrictions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<NameList>,
}

/// The permissions that a session keeps: its rules, and a mode and a list of tools that only restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptPermissions {
    pub(crate) rules: Vec<ChosenRule>,
    /// The mode that was chosen for the session. It applies if it is stricter than the configured one; `None` means that
    /// none was chosen.
    pub(crate) mode: Option<Mode>,
    /// The tools that the session is limited to; `None` means all.
    pub(crate) tools: Option<NameList>,
}

/// The permissions that the user chose for a command, as far as its session keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypedPermissions {
    pub(crate) mode: Option<Mode>,
    pub(crate) tools: Option<NameList>,
    /// Deny and ask rules.
    pub(crate) restrictions: Vec<ChosenRule>,
    /// Rules that are allowed. A deny or ask rule with the same text ends.
    pub(crate) allowed: Vec<String>,
}

impl TypedPermissions {
    /// Returns what was chosen with options, not with environment variables or files.
    pub(crate) fn of(config: &Config, agent: &AgentArgs) -> Self {
        let typed = &config.permissions.typed;
        let is_option = |origin: &Origin| matches!(origin, Origin::Flag);
        let mode = typed.mode.as_ref().filter(|it| is_option(&it.origin)).map(|it| it.value);
        let mut found = Self { mode, tools: agent.tools.clone(), ..Self::default() };
        for (decision, list) in typed.lists() {
            for (rule, _) in
                list.iter().filter(|it| is_option(&it.origin)).flat_map(|it| &it.value.0)
            {
                match decision {
                    Decision::Allow => found.allowed.push(rule.clone()),
                    decision => {
                        found.restrictions.push(ChosenRule { decision, rule: rule.clone() });
                    }
                }
            }
        }
        found
    }
}

impl KeptPermissions {
    /// Returns the permissions with those of a command: its deny and ask rules are added, its mode and its list of tools
    /// replace the earlier ones, and a rule that it allows ends deny and ask rules with the same text.
    pub(crate) fn with_typed(mut self, typed: &TypedPermissions) -> Self {
        self.rules.retain(|it| it.decision == Decision::Allow || !typed.allowed.contains(&it.rule));
        for rule in &typed.restrictions {
            if !self.rules.contains(rule) {
                self.rules.push(rule.clone());
            }
        }
        self.mode = typed.mode.or(self.mode);
        self.tools = typed.tools.clone().or(self.tools);
        self
    }

    /// Records the permissions in a state that does not have them yet.
    pub(crate) fn keep(&self, mut state: AgentState) -> AgentState {
        let before = of(&state);
        if self.rules != before.rules
            && let Ok(value) = serde_json::to_value(&self.rules)
        {
            state = state.edit(Edit::Set(RULES.slot(), Some(value)));
        }
        let (mode, tools) = (self.mode, self.tools.clone());
        if (mode, &tools) != (before.mode, &before.tools)
            && let Ok(value) = serde_json::to_value(Restrictions { mode, tools })
        {
            state = state.edit(Edit::Set(RESTRICTIONS.slot(), Some(value)));
        }
        state
    }
}

/// Returns the permissions of a session.
pub(crate) fn of(state: &AgentState) -> KeptPermissions {
    let rules = state.get(&RULES).unwrap_or_default();
    let Restrictions { mode, tools } = state.get(&RESTRICTIONS).unwrap_or_default();
    KeptPermissions { rules, mode, tools }
}

/// Returns the edit that forgets the rules of a session, if it has some. Its mode and its list of tools stay: they only restrict.
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
    let mut kept = of(session.state()).rules;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(decision: Decision, rule: &str) -> ChosenRule {
        ChosenRule { decision, rule: rule.to_owned() }
    }

    #[test]
    fn a_session_keeps_its_restrictions_until_a_command_replaces_or_allows_them() {
        let tools = |name: &str| Some([name].into_iter().map(str::to_owned).collect());
        let first = TypedPermissions {
            mode: Some(Mode::Ask),
            tools: tools("Read"),
            restrictions: vec![rule(Decision::Deny, "Bash(rm *)"), rule(Decision::Ask, "Edit")],
            allowed: vec!["Read".to_owned()],
        };
        let kept = KeptPermissions::default().with_typed(&first).keep(AgentState::new());
        let expected = KeptPermissions {
            rules: first.restrictions.clone(),
            mode: Some(Mode::Ask),
            tools: tools("Read"),
        };
        assert_eq!(of(&kept), expected);
        assert_eq!(of(&kept).with_typed(&TypedPermissions::default()), expected);
        let second = TypedPermissions {
            mode: Some(Mode::Auto),
            tools: tools("Edit"),
            restrictions: vec![rule(Decision::Deny, "WebFetch")],
            allowed: vec!["Bash(rm *)".to_owned()],
        };
        let expected = KeptPermissions {
            rules: vec![rule(Decision::Ask, "Edit"), rule(Decision::Deny, "WebFetch")],
            mode: Some(Mode::Auto),
            tools: tools("Edit"),
        };
        assert_eq!(of(&of(&kept).with_typed(&second).keep(kept)), expected);
    }
}
