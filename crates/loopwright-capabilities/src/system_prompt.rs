//! A system prompt derived from the agent's tools.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::system_prompt::UseSystemPrompt;
//! # use loopwright_testing::FakeModel;
//! # let model = FakeModel::default();
//!
//! let prompt = UseSystemPrompt::new("You are a careful engineer.").with_guideline("Run the tests.");
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(prompt)
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod prompt;
mod capability;

pub use self::capability::UseSystemPrompt;

#[cfg(test)]
mod tests;
