//! A model by name: a preset provider, a provider with a model, or the selection of a
//! configuration.
//!
//! ```
//! use loopwright_agent::AgentBuilder;
//! use loopwright_capabilities::llm::UseLlm;
//!
//! let agent = AgentBuilder::standard().with(UseLlm::new("ollama/qwen3")).build()?;
//! assert_eq!(agent.driver().llm().model.as_deref(), Some("qwen3"));
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod capability;
#[cfg(test)]
mod tests;

pub use self::capability::UseLlm;
