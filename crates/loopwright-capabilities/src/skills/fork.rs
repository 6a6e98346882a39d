//! Skills that run in their own conversation.

use std::sync::Arc;

use loopwright_agent::{AgentDefinition, BuildError, DefinitionError, Definitions};
use loopwright_core::{AgentState, Edit, StartedAgent, ToolCx, ToolOutput};

use crate::child::{ChildAgent, DefinedAgents, DefinedError};
use crate::skills::active::{ActiveSkill, BOUND, LOAD_SKILL};
use crate::skills::model;
use crate::skills::policy::SkillPolicy;
use crate::skills::skill::Skill;
use crate::skills::tool::SkillError;

/// How another program names an agent without a definition.
const GENERAL: &str = "general-purpose";

/// How it names agents without a definition that only read.
const READING: [&str; 2] = ["Explore", "Plan"];

/// The tools that they have.
const READING_TOOLS: [&str; 6] =
    ["read_file", "list_dir", "search_files", "grep", "web_fetch", "web_search"];

/// Carries a skill out in a child of the agent of a call, which is told what the skill says and sees
/// nothing else. The agent that the skill names has its tools, its capabilities, its skills and its model.
pub(super) async fn fork(
    skill: &Skill,
    task: &str,
    policy: &SkillPolicy,
    agents: Option<&DefinedAgents>,
    cx: &ToolCx<'_>,
) -> Result<ToolOutput, SkillError> {
    let agent = agent(skill, agents)?;
    let active = ActiveSkill::of(skill, policy.model(&skill.info));
    let bound = serde_json::to_value(&active).map_err(SkillError::State)?;
    let name = format!("skill:{}", skill.name());
    let child = match &agent {
        Some((agents, definition)) => agents.child(definition, name, cx)?,
        None => ChildAgent::of(cx, name),
    };
    let only_reads = agent.is_none() && named(skill).is_some_and(|it| READING.contains(&it));
    let child =
        if only_reads { child.keep_tools(|name| READING_TOOLS.contains(&name)) } else { child };
    let child = child
        .keep_tools(|name| name != LOAD_SKILL)
        .cap(&policy.fork)
        .with_max_depth(policy.max_depth);
    let prepare = |state: AgentState| {
        let state = state.edit(Edit::Set(BOUND.slot(), Some(bound)));
        match model::asked(state.llm(), &active) {
            Some(llm) => state.with_llm(llm),
            None => state,
        }
    };
    let ended = match &agent {
        Some((agents, definition)) => agents.run(definition, child, task, prepare).await?,
        None => child.run(task, |state| prepare(state).with_user_message(task)).await?,
    };
    let text = ended.answer()?.to_text();
    let text =
        if text.is_empty() { "(the skill ended without an answer)".to_owned() } else { text };
    Ok(ended.to_output(text))
}

/// Returns the agent that carries a skill out, as permission rules know it.
pub(super) fn started(skill: &Skill, agents: Option<&dyn Definitions>) -> StartedAgent {
    let name = named(skill).unwrap_or(GENERAL);
    let definition = agents.filter(|_| name != GENERAL).and_then(|it| it.get(name).ok());
    definition.map_or_else(|| StartedAgent::new(name), |it| DefinedAgents::started(&it))
}

/// Returns the agent that is to carry a skill out, if the skill names one and agents are known at all.
fn agent<'a>(
    skill: &Skill,
    agents: Option<&'a DefinedAgents>,
) -> Result<Option<(&'a DefinedAgents, Arc<AgentDefinition>)>, DefinitionError> {
    let name = named(skill).filter(|it| *it != GENERAL);
    let (Some(name), Some(agents)) = (name, agents) else { return Ok(None) };
    match agents.find(name) {
        Err(_) if READING.contains(&name) => Ok(None),
        found => found.map(|definition| Some((agents, definition))),
    }
}

fn named(skill: &Skill) -> Option<&str> {
    skill.info.agent.as_deref().map(str::trim)
}

impl From<BuildError> for SkillError {
    fn from(error: BuildError) -> Self {
        Self::Defined(DefinedError::from(error))
    }
}
