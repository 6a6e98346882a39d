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

/// Has an agent answer with a value of a Rust type.
///
/// The agent works as always, with its tools and limits. Its last word is held to the schema of the type:
/// what does not fit is told to the model, which answers again.
pub trait RunTyped {
    /// Runs a state to its end, and reads the answer.
    ///
    /// # Errors
    ///
    /// If there is no answer, or none that fits. The state comes with the error.
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

    /// Runs a state to its end under options, and reads the answer.
    ///
    /// # Errors
    ///
    /// If there is no answer, or none that fits. The state comes with the error.
    fn run_typed_with<T>(
        &self,
        state: AgentState,
        options: TypedOptions,
        run: RunOptions,
    ) -> impl Future<Output = Result<Typed<T>, TypedError>> + Send
    where
        T: DeserializeOwned + JsonSchema + Send;
}

/// An answer of a type, and the state that the agent came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed<T> {
    /// The answer.
    pub value: T,
    /// All that the agent remembers.
    pub state: AgentState,
}

/// How an answer of a type is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedOptions {
    /// How often the model is asked again when its answer does not fit; 3 by default.
    pub max_retries: u32,
    /// How the form of the answer is asked for; by its schema by default. A form that the state itself
    /// sets counts before it.
    pub mode: OutputMode,
}

impl Default for TypedOptions {
    fn default() -> Self {
        Self { max_retries: 3, mode: OutputMode::default() }
    }
}

/// There is no answer of the type.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct TypedError {
    /// Why.
    pub reason: TypedFailure,
    /// All that the agent remembers.
    pub state: Box<AgentState>,
}

/// Why there is no answer of a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypedFailure {
    /// The type has no schema that can be checked.
    #[error("the schema of `{name}` cannot be used: {error}")]
    Schema {
        /// The type.
        name: &'static str,
        /// Why.
        error: String,
    },
    /// No answer fits.
    #[error("{0}")]
    Invalid(String),
    /// The agent failed, was stopped, or waits.
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
