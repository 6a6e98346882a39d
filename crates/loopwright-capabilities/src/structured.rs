//! Data extraction from text, as a tool for the model and as an agent's answer.
//!
//! [`UseStructuredOutputs`] adds a tool that extracts data from text according to a schema. With
//! [`RunTyped`], an agent answers with a value of a Rust type, and with [`AnswerSchema`] with JSON
//! of a schema that is known at run time. All validate the result, return errors to the model, and
//! fail after a few attempts.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::structured::{RunTyped as _, SchemaRegistry, UseStructuredOutputs};
//! use loopwright_core::AgentState;
//! use loopwright_testing::{FakeModel, block_on};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Lead {
//!     name: String,
//!     email: Option<String>,
//! }
//!
//! let schemas = SchemaRegistry::new().with_type::<Lead>("lead");
//! # let model = FakeModel::script([r#"{ "name": "Ann", "email": null }"#]);
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseStructuredOutputs::new(schemas))
//!     .build()?;
//! let state = AgentState::new().with_user_message("Who wrote? `Hello, I am Ann.`");
//! let answer = block_on(agent.run_typed::<Lead>(state)).unwrap();
//! assert_eq!((answer.value.name.as_str(), answer.value.email), ("Ann", None));
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod read;
mod shape;
mod strict;
mod schema;
mod policy;
mod extract;
mod tool;
mod capability;
mod answer;
mod answer_schema;
mod typed;
#[cfg(test)]
mod tests;

pub(crate) use self::extract::is_correction;
pub use self::{
    answer::ANSWER,
    answer_schema::{AnswerSchema, InvalidSchema},
    capability::UseStructuredOutputs,
    extract::{ExtractionError, Extractor},
    policy::{ExtractionOptions, OutputMode, StructuredOutputPolicy},
    schema::{OutputExample, SchemaDefinition, SchemaError, SchemaRegistry},
    tool::{StructuredOutput, StructuredOutputArgs},
    typed::{RunTyped, Typed, TypedError, TypedFailure, TypedOptions},
};
