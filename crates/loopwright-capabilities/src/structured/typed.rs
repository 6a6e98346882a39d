//! Answers of a Rust type.

use std::any::type_name;
use std::sync::Arc;

use loopwright_core::{
    AgentLoop, AgentState, ExecutionStatus, Fragment, HookStack, Interceptor, Priority, RunOptions,
    StopReason, messages::ResponseFormat,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::structured::answer::{ANSWER, ANSWER_TOOL, AnswerHook, Form, answer_tool};
use crate::structured::policy::OutputMode;
use crate::structured::shape::{Absence, Shape, schema_of};

/// Runs of an agent that answers with a value of a Rust type.
///
/// The agent works as usual, with its tools and limits. Its final answer must match the schema of
/// the type: errors are returned to the model, which answers again.
pub trait RunTyped {
    /// Runs a state to its end, and parses the answer.
    ///
    /// # Errors
    ///
    /// Returns an error with the state if there is no valid answer.
    fn run_typed<T>(
        &self,
        state: AgentState,
    ) -> impl Future<Output = Result<Typed<T>, TypedError>> + Send
    where
        T: DeserializeOwned + JsonSchema + Send,
        Self: Sync,
    {
        self.run_typed_with(state, TypedOptions::default(), RunOptions::default())
    }

    /// Runs a state to its end with options, and parses the answer.
    ///
    /// # Errors
    ///
    /// Returns an error with the state if there is no valid answer.
    fn run_typed_with<T>(
        &self,
        state: AgentState,
        options: TypedOptions,
        run: RunOptions,
    ) -> impl Future<Output = Result<Typed<T>, TypedError>> + Send
    where
        T: DeserializeOwned + JsonSchema + Send;
}

/// A typed answer, with the state after the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed<T> {
    /// The answer.
    pub value: T,
    /// The state.
    pub state: AgentState,
}

/// Options for typed answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedOptions {
    /// The maximum number of retries after an answer that does not match the schema; 3 by default.
    pub max_retries: u32,
    /// The way of requesting the format; by schema by default. A format that the state itself sets
    /// takes precedence.
    pub mode: OutputMode,
}

impl Default for TypedOptions {
    fn default() -> Self {
        Self { max_retries: 3, mode: OutputMode::default() }
    }
}

/// A run without a valid typed answer.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct TypedError {
    /// The reason.
    pub reason: TypedFailure,
    /// The state.
    pub state: Box<AgentState>,
}

/// The reason for a missing typed answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypedFailure {
    /// The schema of the type cannot be used.
    #[error("the schema of `{name}` cannot be used: {error}")]
    Schema {
        /// The type.
        name: &'static str,
        /// The reason.
        error: String,
    },
    /// No answer is valid.
    #[error("{0}")]
    Invalid(String),
    /// The agent failed, was stopped, or is waiting.
    #[error("no answer: {0}")]
    Ended(String),
}

impl RunTyped for AgentLoop {
    async fn run_typed_with<T>(
        &self,
        state: AgentState,
        options: TypedOptions,
        run: RunOptions,
    ) -> Result<Typed<T>, TypedError>
    where
        T: DeserializeOwned + JsonSchema + Send,
    {
        let form = match form::<T>() {
            Ok(form) => Arc::new(form),
            Err(reason) => return Err(TypedError { reason, state: Box::new(state) }),
        };
        let agent = held_to(self, &form, &options);
        let state = agent.start(state, run).finish().await;
        let answer = state.get(&ANSWER).filter(|_| *state.status() == ExecutionStatus::Completed);
        match answer.map(serde_json::from_value::<T>) {
            Some(Ok(value)) => Ok(Typed { value, state }),
            Some(Err(error)) => {
                let reason = TypedFailure::Invalid(error.to_string());
                Err(TypedError { reason, state: Box::new(state) })
            }
            None => Err(TypedError { reason: failure_of(&state), state: Box::new(state) }),
        }
    }
}

fn failure_of(state: &AgentState) -> TypedFailure {
    match state.status() {
        ExecutionStatus::Stopped(signal) if signal.reason == StopReason::RetryLimitReached => {
            TypedFailure::Invalid(signal.message.clone())
        }
        _ => TypedFailure::Ended(state.explain_stop()),
    }
}

fn form<T: DeserializeOwned + JsonSchema>() -> Result<Form, TypedFailure> {
    let shape = Shape::new(&schema_of::<T>(), Absence::Denied)
        .map_err(|error| TypedFailure::Schema { name: type_name::<T>(), error })?;
    Ok(Form { shape, accepts: accepts::<T> })
}

fn accepts<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    T::deserialize(value).map(drop).map_err(|error| error.to_string())
}

/// The last of all that looks at a step, so that it passes over no hook when it ends the run.
const LAST: Priority = Priority(i16::MIN);

pub(super) fn held_to(agent: &AgentLoop, form: &Arc<Form>, options: &TypedOptions) -> AgentLoop {
    let hook =
        AnswerHook { form: Arc::clone(form), mode: options.mode, max_retries: options.max_retries };
    let words = match options.mode {
        OutputMode::Schema => None,
        OutputMode::Json | OutputMode::Text => Some(form.shape.in_words()),
        OutputMode::Tool => Some(format!("Give the final answer by calling `{ANSWER_TOOL}`.")),
    };
    agent.with(|parts| {
        match options.mode {
            OutputMode::Schema => parts.response_format = Some(form.shape.format("answer")),
            OutputMode::Json => parts.response_format = Some(ResponseFormat::JsonObject),
            OutputMode::Tool => parts.tools.add(answer_tool(form)),
            OutputMode::Text => (),
        }
        if let Some(words) = words {
            let words: Arc<str> = words.into();
            parts.instructions =
                parts.instructions.with_fragment("structured", Fragment::Fixed(words));
        }
        parts.interceptor = with_hook(&parts.interceptor, hook);
    })
}

fn with_hook(interceptor: &Interceptor, hook: AnswerHook) -> Interceptor {
    let mut hooks = HookStack::default();
    for it in interceptor.hooks() {
        hooks.register(it.name().into(), it.priority(), it.points(), Arc::clone(it.hook()));
    }
    hooks.add_at(LAST, hook);
    hooks.into_interceptor()
}
