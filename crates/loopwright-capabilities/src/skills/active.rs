//! The active skill and its effects.

use loopwright_agent::NameList;
use loopwright_core::{
    AgentState, Edit, Key, StateEffect, ToolOutput, ToolSet,
    messages::{ReasoningEffort, ToolCall},
};
use loopwright_permissions::{Call, Decision, Mode, Policy, Source, SourceKind, ToolRule};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::child::NARROWED;
use crate::skills::skill::Skill;

/// The tool that skills are loaded with. No skill forbids it.
pub(super) const LOAD_SKILL: &str = "load_skill";

/// An active skill, with its restrictions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSkill {
    /// The name.
    pub name: String,
    /// The allowed tools; `None` means all.
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

/// The skill that the user invoked with the last message, so that its hooks run while the agent works on it. A program that
/// puts the text of a skill into a message sets it.
pub const INVOKED: Key<String> = Key::session("skills", "invoked");

/// The skills that were active in the agents that an agent works for when it began.
const ABOVE: Key<Vec<String>> = Key::session("skills", "above");

/// Returns the names of the skills whose hooks bind an agent: the active one, the one that it carries out, the one that the user
/// invoked, and those of the agents that it works for.
pub fn active_skills(state: &AgentState) -> Vec<String> {
    let own = [state.get(&BOUND), state.get(&ACTIVE)].into_iter().flatten().map(|it| it.name);
    let above = state.get(&ABOVE).unwrap_or_default();
    let mut names: Vec<String> = above.into_iter().chain(own).chain(state.get(&INVOKED)).collect();
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

    /// Returns the reason why a call is not allowed, for the model.
    pub fn forbids(&self, call: &ToolCall) -> Option<String> {
        let is_free = self.allowed_tools.is_empty() || &*call.name == LOAD_SKILL;
        if is_free || is_listed(&self.allowed_tools, call) {
            return None;
        }
        Some(format!(
            "`{}` cannot be called while the skill `{}` is active; available: {}. When the work \
                of the skill is done, call `{LOAD_SKILL}` with `done`",
            call.name,
            self.name,
            joined(&self.allowed_tools)
        ))
    }

    /// Returns the tools that are allowed whatever they are called with, or `None` if all are.
    pub(super) fn narrows(&self, tools: &ToolSet) -> Option<NameList> {
        if self.allowed_tools.is_empty() {
            return None;
        }
        let is_free =
            |name: &str| self.allowed_tools.iter().any(|it| !it.is_conditional() && it.names(name));
        Some(tools.names().iter().filter(|name| is_free(name)).map(|it| &**it).collect())
    }
}

/// Returns `true` if one of the rules matches a call; for a command, if one matches each part of it. Paths are relative to
/// the directory that tools work in, wherever it is.
fn is_listed(rules: &[ToolRule], call: &ToolCall) -> bool {
    let source = Source::new(SourceKind::Definition, "skill", "/");
    let source = rules.iter().fold(source, |source, rule| source.with_tools(rule.as_str(), 0));
    let policy = Policy::builder("/").mode(Mode::Unconfined).source(source).build();
    let arguments = call.parse_arguments().unwrap_or(Value::Null);
    policy.decide(&Call::new(&call.name, &arguments)).decision == Decision::Allow
}

/// Has a call make a skill the active one. Children of the agent are narrowed as it is itself.
pub(super) fn begin(
    output: ToolOutput,
    active: &ActiveSkill,
    tools: &ToolSet,
) -> Result<ToolOutput, serde_json::Error> {
    let output = output.with_value(&ACTIVE, active)?;
    match active.narrows(tools) {
        Some(names) => output.with_value(&NARROWED, &names),
        None => Ok(forget(output, NARROWED.slot())),
    }
}

/// Has a call end the skill that is active.
pub(super) fn end(output: ToolOutput) -> ToolOutput {
    forget(forget(output, ACTIVE.slot()), NARROWED.slot())
}

fn forget(mut output: ToolOutput, slot: loopwright_core::StateKey) -> ToolOutput {
    output.state_effects.push(StateEffect::Set(slot, None));
    output
}

/// Writes rules as people read them.
pub(super) fn joined(rules: &[ToolRule]) -> String {
    rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
