//! A schema for the final answer of an agent, known at run time.

use std::fmt;
use std::sync::Arc;

use loopwright_core::{AgentLoop, AgentState, StopReason};
use serde_json::Value;

use crate::structured::answer::{Form, NAME};
use crate::structured::read::json_in;
use crate::structured::shape::{Absence, Shape};
use crate::structured::typed::{TypedOptions, held_to};

/// A JSON Schema that the final answer of an agent has to match. Cheap to clone.
///
/// The agent works as always, with its tools and limits. An answer that does not match is returned to the model with
/// the errors. After [`TypedOptions::max_retries`] corrections, the run stops.
///
/// ```
/// use loopwright_agent::{AgentBuilder, UseLlmConfig};
/// use loopwright_capabilities::structured::{ANSWER, AnswerSchema, TypedOptions};
/// use loopwright_core::AgentState;
/// use loopwright_testing::{FakeModel, block_on};
/// use serde_json::json;
///
/// let schema = AnswerSchema::new(&json!({
///     "type": "object",
///     "properties": { "files": { "type": "integer" } },
///     "required": ["files"],
/// }))?;
/// # let model = FakeModel::script([r#"{ "files": 3 }"#]);
/// let agent = AgentBuilder::base().with(UseLlmConfig::model(model)).build()?;
/// let agent = schema.apply(&agent, &TypedOptions::default());
/// let state = AgentState::new().with_user_message("How many files are here?");
/// let state = block_on(agent.execute(state));
/// assert_eq!(state.get(&ANSWER), Some(json!({ "files": 3 })));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AnswerSchema {
    schema: Arc<Value>,
    form: Arc<Form>,
}

/// A value is not a JSON Schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON Schema: {0}")]
pub struct InvalidSchema(String);

impl AnswerSchema {
    /// Creates an answer schema from a JSON Schema.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not a JSON Schema, refers to a schema that is not in it, or applies too many schemas to one
    /// value.
    pub fn new(schema: &Value) -> Result<Self, InvalidSchema> {
        if !(schema.is_object() || schema.is_boolean()) {
            return Err(InvalidSchema("the schema must be an object".to_owned()));
        }
        let shape = Shape::new(schema, Absence::Denied).map_err(InvalidSchema)?;
        let form = Form { shape, accepts: |_| Ok(()) };
        Ok(Self { schema: Arc::new(schema.clone()), form: Arc::new(form) })
    }

    /// Returns an agent whose final answer has to match. The matching answer of an execution is the value of
    /// [`ANSWER`](crate::structured::ANSWER) in its state.
    pub fn apply(&self, agent: &AgentLoop, options: &TypedOptions) -> AgentLoop {
        held_to(agent, &self.form, options)
    }

    /// Reads an answer from the final text of an agent without this schema. Returns `None` if the text does not match.
    pub fn read(&self, text: &str) -> Option<Value> {
        json_in(text).ok().and_then(|value| self.form.read(value).ok())
    }

    /// Returns `true` if an answer matches, such as the value of [`ANSWER`](crate::structured::ANSWER) in the state of an agent
    /// that may have another schema.
    pub fn matches(&self, answer: &Value) -> bool {
        self.form.shape.admits(answer)
    }

    /// Returns the schema.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns `true` if the run stopped because no answer matched.
    pub fn is_unmet(state: &AgentState) -> bool {
        state.stop_signal().is_some_and(|it| {
            it.reason == StopReason::RetryLimitReached && it.source.as_deref() == Some(NAME)
        })
    }
}

impl PartialEq for AnswerSchema {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

impl fmt::Debug for AnswerSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnswerSchema").field(&self.schema).finish()
    }
}
