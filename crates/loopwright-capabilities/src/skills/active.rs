//! The active skill and its effects.

use loopwright_core::{AgentState, Edit, Key, StateEffect, ToolOutput, messages::ReasoningEffort};
use loopwright_permissions::ToolRule;
use serde::{Deserialize, Serialize};

use crate::skills::skill::Skill;

/// The tool that skills are loaded with.
pub(super) const LOAD_SKILL: &str = "load_skill";

/// An active skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSkill {
    /// The name.
    pub name: String,
    /// The calls that its text allows without approval. They run so if a program grants them:
    /// [`SkillGrants`](super::SkillGrants).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<ToolRule>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much the model reasons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<ReasoningEffort>,
}

/// The active skill. It ends with the execution, when another one is loaded, or when `load_skill`
/// is called with `done`.
pub const ACTIVE: Key<ActiveSkill> = Key::execution("skills", "active");

/// The skill that an agent carries out by itself, for as long as that agent lives.
pub(super) const BOUND: Key<ActiveSkill> = Key::session("skills", "bound");

/// The skill that the user invoked with the last message, so that its hooks run and its calls are allowed while the agent works on it. A program that
/// puts the text of a skill into a message sets it.
pub const INVOKED: Key<String> = Key::session("skills", "invoked");

/// The skills that were active in the agents that an agent works for when it began.
const ABOVE: Key<Vec<String>> = Key::session("skills", "above");

/// Returns the names of the skills whose hooks bind an agent: the active one, the one that it carries out, the one that the user
/// invoked, and those of the agents that it works for.
pub fn active_skills(state: &AgentState) -> Vec<String> {
    let mut names = state.get(&ABOVE).unwrap_or_default();
    names.extend(own_skills(state));
    names.sort();
    names.dedup();
    names
}

/// Returns the names of the skills that an agent itself works by: the active one, the one that it carries out, and the one that the
/// user invoked.
pub(super) fn own_skills(state: &AgentState) -> Vec<String> {
    let own = [state.get(&BOUND), state.get(&ACTIVE)].into_iter().flatten().map(|it| it.name);
    let mut names: Vec<String> = own.chain(state.get(&INVOKED)).collect();
    names.sort();
    names.dedup();
    names
}

/// Lets a sub-agent that begins know the skills that are active in its parent.
pub(crate) fn handed_on(parent: &AgentState, child: AgentState) -> AgentState {
    match active_skills(parent) {
        names if names.is_empty() => child,
        names => child.edit(Edit::Set(ABOVE.slot(), Some(names.into()))),
    }
}

impl ActiveSkill {
    pub(super) fn of(skill: &Skill, model: Option<String>) -> Self {
        let info = &skill.info;
        let (name, allowed_tools) = (info.name.clone(), info.allowed_tools.clone());
        Self { name, allowed_tools, model, effort: info.effort }
    }
}

/// Has a call make a skill the active one.
pub(super) fn begin(
    output: ToolOutput,
    active: &ActiveSkill,
) -> Result<ToolOutput, serde_json::Error> {
    output.with_value(&ACTIVE, active)
}

/// Has a call end the skill that is active.
pub(super) fn end(mut output: ToolOutput) -> ToolOutput {
    output.state_effects.push(StateEffect::Set(ACTIVE.slot(), None));
    output
}
