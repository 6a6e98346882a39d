//! The extension point that selects the input of a model.

use async_trait::async_trait;
use loopwright_messages::Prompt;

use crate::{BoxError, state::AgentState};

/// Selects the part of a state that the model sees.
///
/// Compilers nest: a compiler can change the result of another one.
///
/// ```
/// use async_trait::async_trait;
/// use loopwright_core::{
///     AgentState, CompileError, ContextCompiler,
///     messages::{Prompt, SectionName, Selection},
/// };
///
/// /// Shows the model only turns without tool calls.
/// struct WithoutTools;
///
/// #[async_trait]
/// impl ContextCompiler for WithoutTools {
///     async fn compile(&self, state: &AgentState, previous: Option<Prompt>) -> Result<Prompt, CompileError> {
///         let turns = [(SectionName::MESSAGES, state.transcript())];
///         Ok(Selection::new("without tools", turns).select(previous, |turn| !turn.meta().is_trace))
///     }
/// }
/// ```
#[async_trait]
pub trait ContextCompiler: Send + Sync {
    /// Returns the conversation of the next request.
    ///
    /// `previous` is the result of this compiler for the previous step, if it is known. Continue it
    /// if the state only grew: then the cost of a step does not depend on the length of the
    /// conversation, and the provider's cache stays warm. See
    /// [`Selection`](loopwright_messages::Selection).
    async fn compile(
        &self,
        state: &AgentState,
        previous: Option<Prompt>,
    ) -> Result<Prompt, CompileError>;
}

/// A context that could not be compiled.
#[derive(Debug, thiserror::Error)]
#[error("the context could not be compiled")]
pub struct CompileError(#[from] pub BoxError);
