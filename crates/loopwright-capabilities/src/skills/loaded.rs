//! Loaded skills, whose instructions stay in force.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, CompileError, ContextCompiler, Key, ToolCx,
    messages::{ExecutionId, Message, Prompt, ToolResult, Turn, TurnBody},
};
use serde::{Deserialize, Serialize};

/// The skills that were loaded, the newest last. They outlive the execution that loaded them.
pub(super) const LOADED: Key<Vec<LoadedSkill>> = Key::session("skills", "loaded");

/// Stands before the instructions that are repeated.
const REPEATED: &str = "[skills] Loaded earlier in this conversation and still in force:";

/// Stands before the names of skills whose instructions are too long to be repeated.
const NAMED: &str =
    "[skills] Loaded earlier and no longer shown; load them again when you need them:";

/// The most bytes of instructions that are repeated. They are part of each request.
const MAX_BYTES: usize = 16 << 10;

/// The most skills whose instructions are kept.
const MAX: usize = 8;

/// The most places of turns that are remembered.
const PLACES: usize = 64;

/// A skill that was loaded, and where the conversation has its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoadedSkill {
    name: String,
    text: String,
    execution: ExecutionId,
    step: u32,
}

/// Returns the list of loaded skills with some more, of which the last one was loaded last.
pub(super) fn with(
    texts: impl IntoIterator<Item = (String, String)>,
    cx: &ToolCx<'_>,
) -> Vec<LoadedSkill> {
    let mut loaded = cx.state.get(&LOADED).unwrap_or_default();
    for (name, text) in texts {
        loaded.retain(|it| it.name != name);
        let execution = cx.key.execution.clone();
        loaded.push(LoadedSkill { name, text, execution, step: cx.key.step });
    }
    let old = loaded.len().saturating_sub(MAX);
    loaded.split_off(old)
}

/// Returns the list of loaded skills without one.
pub(super) fn without(name: &str, state: &AgentState) -> Vec<LoadedSkill> {
    let mut loaded = state.get(&LOADED).unwrap_or_default();
    loaded.retain(|it| it.name != name);
    loaded
}

/// Returns the name of the skill that was loaded last.
pub(super) fn newest(state: &AgentState) -> Option<String> {
    state.get(&LOADED)?.pop().map(|it| it.name)
}

/// Repeats the instructions of loaded skills at the end of a request that lacks them: because the
/// compiler hides earlier tool calls, or the conversation was compacted.
pub(super) struct Repeating {
    inner: Arc<dyn ContextCompiler>,
    /// Where turns were found, so that a long conversation is not searched at each step.
    places: Mutex<Vec<(ExecutionId, u32, usize)>>,
}

impl Repeating {
    pub(super) fn new(inner: Arc<dyn ContextCompiler>) -> Self {
        Self { inner, places: Mutex::default() }
    }

    /// Returns `true` if a prompt has the text of a skill.
    fn has(&self, prompt: &Prompt, skill: &LoadedSkill) -> bool {
        let is_it = |turn: &Turn| {
            let meta = turn.meta();
            meta.step == Some(skill.step) && meta.execution.as_ref() == Some(&skill.execution)
        };
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let known = places.iter().find(|it| it.1 == skill.step && it.0 == skill.execution);
        let there = known.map(|it| it.2).and_then(|at| prompt.turns.get(at));
        if let Some(turn) = there.filter(|turn| is_it(turn)) {
            return holds(turn, &skill.text);
        }
        let found = prompt.turns.iter().position(|turn| is_it(turn) && holds(turn, &skill.text));
        let Some(at) = found else { return false };
        places.retain(|it| it.1 != skill.step || it.0 != skill.execution);
        places.truncate(PLACES - 1);
        places.insert(0, (skill.execution.clone(), skill.step, at));
        true
    }
}

/// Returns `true` if a result of a turn is the text of a skill, and not what a compaction has left of it.
fn holds(turn: &Turn, text: &str) -> bool {
    let TurnBody::ToolExchange(exchange) = turn.body() else { return false };
    exchange.results().iter().map(ToolResult::to_text).any(|it| it.contains(text))
}

/// Repeats the newest instructions that there is room for, and names the skills of the others.
fn repeated(missing: &[LoadedSkill]) -> String {
    let mut left = MAX_BYTES;
    let mut fits = |skill: &&LoadedSkill| {
        let fits = skill.text.len() <= left;
        left -= if fits { skill.text.len() } else { 0 };
        fits
    };
    let (mut shown, mut without_room): (Vec<_>, Vec<_>) =
        missing.iter().rev().partition(|skill| fits(skill));
    shown.reverse();
    without_room.reverse();
    let mut parts: Vec<String> = Vec::new();
    if !shown.is_empty() {
        let texts: Vec<&str> = shown.iter().map(|it| it.text.as_str()).collect();
        parts.push(format!("{REPEATED}\n{}", texts.join("\n\n")));
    }
    if !without_room.is_empty() {
        let names: Vec<String> = without_room.iter().map(|it| format!("`{}`", it.name)).collect();
        parts.push(format!("{NAMED} {}", names.join(", ")));
    }
    parts.join("\n\n")
}

#[async_trait]
impl ContextCompiler for Repeating {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let mut prompt = self.inner.compile(state, previous).await?;
        let loaded = state.get(&LOADED).unwrap_or_default();
        let missing: Vec<LoadedSkill> =
            loaded.into_iter().filter(|it| !self.has(&prompt, it)).collect();
        if !missing.is_empty() {
            // First, wherever other compilers add what they have to say.
            prompt.tail.insert(0, Message::user(repeated(&missing)));
        }
        Ok(prompt)
    }
}
