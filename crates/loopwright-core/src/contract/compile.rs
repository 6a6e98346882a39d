//! The seam that chooses what a model sees.

use async_trait::async_trait;
use loopwright_messages::Prompt;

use crate::{BoxError, state::AgentState};

/// Chooses what the model sees of a state.
///
/// Compilers nest: a compiler may change what another one made.
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
    /// `previous` is what this compiler returned for the step before, if it is known. Continuing it
    /// where the state only grew keeps the cost of a step independent of the conversation's length,
    /// and the provider's cache warm; see [`Selection`](loopwright_messages::Selection).
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
