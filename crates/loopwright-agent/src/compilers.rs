//! What of a conversation a model is shown.

use async_trait::async_trait;
use loopwright_core::{
    AgentState, CompileError, ContextCompiler,
    messages::{Prompt, SectionName, Selection, Turn},
};

/// Shows all sections, but of tool turns only those of the current execution.
///
/// Of earlier executions the model sees what the user said and what it answered, and not how it got there:
/// requests are shorter, and a model that needs a file again has to read it again. An execution that
/// [resumes](AgentState::is_resumable) is the current one.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConversationWithCurrentToolTrace;

#[async_trait]
impl ContextCompiler for ConversationWithCurrentToolTrace {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let current = state.execution().map(loopwright_core::Execution::id);
        let shown =
            |turn: &Turn| !turn.meta().is_trace || turn.meta().execution.as_ref() == current;
        let sections = state.context().sections().in_order();
        let selection = Selection::new("current_trace", sections).for_execution(current);
        Ok(selection.select(previous, shown))
    }
}

/// Shows everything, the tool calls of earlier executions and their results included. The default.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllSections;

#[async_trait]
impl ContextCompiler for AllSections {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let sections = state.context().sections().in_order();
        Ok(Selection::new("all_sections", sections).select(previous, |_| true))
    }
}

/// Shows the sections of these names, in this order. Sections that do not exist are left out.
#[derive(Clone, Debug)]
pub struct SelectedSections {
    names: Vec<SectionName>,
}

impl SelectedSections {
    /// Names the sections; of a repeated name the first place counts. Without any name it is the
    /// conversation itself.
    pub fn new<N: Into<SectionName>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut selected: Vec<SectionName> = Vec::new();
        for name in names.into_iter().map(Into::into) {
            if !selected.contains(&name) {
                selected.push(name);
            }
        }
        if selected.is_empty() {
            selected.push(SectionName::MESSAGES.into());
        }
        Self { names: selected }
    }
}

impl Default for SelectedSections {
    /// Names summary, buffer and conversation.
    fn default() -> Self {
        Self::new([SectionName::SUMMARY, SectionName::BUFFER, SectionName::MESSAGES])
    }
}

#[async_trait]
impl ContextCompiler for SelectedSections {
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError> {
        let sections = state.context().sections();
        let found = |name: &SectionName| Some((name.clone(), sections.get(name.as_str())?));
        let chosen = self.names.iter().filter_map(found);
        Ok(Selection::new("selected_sections", chosen).select(previous, |_| true))
    }
}
