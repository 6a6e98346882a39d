//! Context compilers, which select the input of the model.

use async_trait::async_trait;
use loopwright_core::{
    AgentState, CompileError, ContextCompiler,
    messages::{Prompt, SectionName, Selection, Turn},
};

/// Includes all sections, but tool turns only of the current execution.
///
/// Of earlier executions, the model sees only the user's messages and its own answers. Requests are
/// shorter, but a model that needs a file again has to read it again. An execution that
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

/// Includes all turns, with the tool calls and results of earlier executions. The default.
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

/// Includes the sections with these names, in this order. Ignores missing sections.
#[derive(Clone, Debug)]
pub struct SelectedSections {
    names: Vec<SectionName>,
}

impl SelectedSections {
    /// Creates a compiler from section names. A repeated name keeps its first position. Without
    /// names, it selects the conversation.
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
    /// Selects summary, buffer and conversation.
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
