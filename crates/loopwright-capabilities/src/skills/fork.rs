//! Skills that are carried out in a conversation of their own.

use std::sync::Arc;

use loopwright_agent::{AgentDefinition, DefinitionError, Definitions};
use loopwright_core::{AgentState, Edit, ToolCx, ToolOutput};

use crate::child::Child;
use crate::skills::active::{ActiveSkill, BOUND, LOAD_SKILL};
use crate::skills::model;
use crate::skills::policy::SkillPolicy;
use crate::skills::skill::Skill;
use crate::skills::tool::SkillError;

/// Carries a skill out in a child of the agent of a call, which is told what the skill says and sees
/// nothing else.
pub(super) async fn fork(
    skill: &Skill,
    task: &str,
    policy: &SkillPolicy,
    agents: Option<&Arc<dyn Definitions>>,
    cx: &ToolCx<'_>,
) -> Result<ToolOutput, SkillError> {
    let agent = agent(skill, agents)?;
    let active = ActiveSkill::of(skill, policy.model(&skill.info));
    let bound = serde_json::to_value(&active).map_err(SkillError::State)?;
    let (rules, of_agent) = (active.allowed_tools.clone(), agent.clone());
    let is_allowed = move |name: &str| {
        let by_skill = rules.is_empty() || rules.iter().any(|it| it.names(name));
        by_skill && name != LOAD_SKILL && of_agent.as_ref().is_none_or(|it| it.allows_tool(name))
    };
    let own_budget = agent.as_ref().and_then(|it| it.budget).unwrap_or_default();
    let child = Child::of(cx, format!("skill:{}", skill.name()))
        .keep_tools(is_allowed)
        .cap(&policy.fork)
        .cap(&own_budget)
        .max_depth(policy.max_depth);
    let begin = |state: AgentState| {
        let state = state.edit(Edit::Set(BOUND.slot(), Some(bound)));
        let state = agent.iter().fold(state, |state, it| as_agent(state, it));
        let state = match &active.model {
            Some(name) => {
                let llm = model::over(state.llm(), name);
                state.with_llm(llm)
            }
            None => state,
        };
        state.with_user_message(task)
    };
    let ended = child.run(task, begin).await?;
    let text = ended.answer()?.to_text();
    let text =
        if text.is_empty() { "(the skill ended without an answer)".to_owned() } else { text };
    Ok(ended.to_output(text))
}

/// Returns the agent that is to carry a skill out, if the skill names one and agents are known at all.
fn agent(
    skill: &Skill,
    agents: Option<&Arc<dyn Definitions>>,
) -> Result<Option<Arc<AgentDefinition>>, DefinitionError> {
    match (&skill.info.agent, agents) {
        (Some(name), Some(agents)) => agents.get(name.trim()).map(Some),
        _ => Ok(None),
    }
}

fn as_agent(state: AgentState, agent: &AgentDefinition) -> AgentState {
    let state = state.with_system_prompt(agent.system_prompt.as_str());
    match &agent.llm {
        Some(llm) => state.with_llm(llm.clone()),
        None => state,
    }
}
