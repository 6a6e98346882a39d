//! Tools with their types erased.

use std::{borrow::Cow, fmt, future::ready, sync::Arc};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use loopwright_messages::ToolSpec;
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    file_changes::Writes,
    outcome::ToolOutput,
    pause::ToolPause,
    tool::{
        IntoToolOutput as _, SideEffects, StartedAgent, Tool, ToolApproval, ToolCx, ToolError,
        ToolOptions,
        schema::{Checker, shared_schema_of},
    },
};

/// Any tool. Cheap to clone.
#[derive(Clone)]
pub struct AnyTool(Arc<Inner>);

struct Inner {
    spec: ToolSpec,
    options: ToolOptions,
    checker: Checker,
    handler: Handler,
}

/// The handler of the calls.
#[derive(Clone)]
enum Handler {
    /// Reads its arguments as written by the model.
    Typed(Arc<dyn TypedHandler>),
    Dynamic(Arc<dyn ToolHandler>),
    /// Runs elsewhere; the value is the schema of its result.
    External(Option<Arc<Value>>),
    /// The source of this name no longer lists the tool.
    Withdrawn(Arc<str>),
}

/// Runs the calls of a tool whose schema is only known at run time.
#[async_trait]
pub trait ToolHandler: Send + Sync {
    /// Runs one call. The arguments match the schema.
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError>;

    /// Returns the files that a call can write, without running it; see [`Tool::writes`].
    fn writes(&self, _arguments: &Value, options: &ToolOptions) -> Writes {
        options.side_effects.into()
    }

    /// Returns the agent that a call starts, without running it; see [`Tool::starts`].
    async fn starts(&self, _arguments: &Value) -> Option<StartedAgent> {
        None
    }

    /// Returns the question to the user if a call needs approval; see [`Tool::approval`].
    fn approval(&self, _arguments: &Value) -> Option<String> {
        None
    }
}

/// The arguments of a call, which match the schema.
pub(crate) enum RawArgs<'a> {
    /// As written by the model, if no value was needed.
    Text(&'a str),
    /// As a value.
    Value(Value),
}

impl RawArgs<'_> {
    pub(crate) fn into_value(self) -> Result<Value, ToolError> {
        match self {
            Self::Text(text) => serde_json::from_str(text).map_err(|error| refused(&error)),
            Self::Value(value) => Ok(value),
        }
    }

    fn read<T: DeserializeOwned>(self) -> Result<T, ToolError> {
        if let Self::Text(text) = self
            && let Ok(arguments) = serde_json::from_str(text)
        {
            return Ok(arguments);
        }
        // A value takes more: of a name that is written twice, the last one counts.
        serde_json::from_value(self.into_value()?).map_err(|error| refused(&error))
    }
}

fn refused(error: &serde_json::Error) -> ToolError {
    ToolError::InvalidArguments(error.to_string())
}

#[async_trait]
trait TypedHandler: Send + Sync {
    async fn call(&self, arguments: RawArgs<'_>, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError>;

    fn writes(&self, arguments: &Value) -> Writes;

    fn is_repeatable(&self, arguments: &Value) -> bool;

    async fn starts(&self, arguments: &Value) -> Option<StartedAgent>;

    fn approval(&self, arguments: &Value) -> Option<String>;
}

struct Typed<T>(T);

#[async_trait]
impl<T: Tool> TypedHandler for Typed<T> {
    async fn call(&self, arguments: RawArgs<'_>, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let output = self.0.call(arguments.read()?, cx).await.map_err(Into::into)?;
        Ok(output.into_tool_output()?)
    }

    fn writes(&self, arguments: &Value) -> Writes {
        match T::Args::deserialize(arguments) {
            Ok(arguments) => self.0.writes(&arguments),
            Err(_) => Writes::Unknown,
        }
    }

    /// A call with arguments that the tool cannot read fails without an effect.
    fn is_repeatable(&self, arguments: &Value) -> bool {
        T::Args::deserialize(arguments).map_or(true, |arguments| self.0.is_repeatable(&arguments))
    }

    /// Arguments that the tool cannot read start no agent: the call fails.
    async fn starts(&self, arguments: &Value) -> Option<StartedAgent> {
        self.0.starts(T::Args::deserialize(arguments).ok()?).await
    }

    /// Arguments that the tool cannot read need no approval: the call fails.
    fn approval(&self, arguments: &Value) -> Option<String> {
        self.0.approval(&T::Args::deserialize(arguments).ok()?)
    }
}

impl AnyTool {
    /// Erases a tool's types, reading its schema once.
    pub fn new<T: Tool>(tool: T) -> Self {
        let spec = ToolSpec {
            name: tool.name().into(),
            description: tool.description().into(),
            parameters: shared_schema_of::<T::Args>(),
        };
        let options = tool.options();
        Self::of(spec, options, Handler::Typed(Arc::new(Typed(tool))))
    }

    /// Creates a tool whose schema is only known at run time.
    pub fn dynamic(spec: ToolSpec, options: ToolOptions, handler: Arc<dyn ToolHandler>) -> Self {
        Self::of(spec, options, Handler::Dynamic(handler))
    }

    pub(super) fn external(
        spec: ToolSpec,
        options: ToolOptions,
        result: Option<Arc<Value>>,
    ) -> Self {
        Self::of(spec, options, Handler::External(result))
    }

    fn of(spec: ToolSpec, options: ToolOptions, handler: Handler) -> Self {
        let checker = Checker::new(Arc::clone(&spec.parameters));
        Self(Arc::new(Inner { spec, options, checker, handler }))
    }

    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.spec.name
    }

    /// Returns the specification that the model sees.
    pub fn spec(&self) -> &ToolSpec {
        &self.0.spec
    }

    /// Returns the options for its calls.
    pub fn options(&self) -> &ToolOptions {
        &self.0.options
    }

    /// Returns the description for browsing tools.
    pub fn descriptor(&self) -> ToolDescriptor<'_> {
        ToolDescriptor(&self.0)
    }

    /// Returns the same tool with other options.
    #[must_use]
    pub fn with_options(&self, options: ToolOptions) -> Self {
        Self::of(self.0.spec.clone(), options, self.0.handler.clone())
    }

    /// Returns the same tool under another name.
    #[must_use]
    pub fn with_name(&self, name: impl Into<Arc<str>>) -> Self {
        let spec = ToolSpec { name: name.into(), ..self.0.spec.clone() };
        Self::of(spec, self.0.options.clone(), self.0.handler.clone())
    }

    /// Returns `true` if the tool [runs elsewhere](crate::ExternalTool).
    pub fn is_external(&self) -> bool {
        matches!(self.0.handler, Handler::External(_))
    }

    /// Returns `true` if the [source](crate::ToolSource) of the tool no longer lists it. Such a tool stays in requests
    /// until the run ends, and its calls fail.
    pub fn is_withdrawn(&self) -> bool {
        matches!(self.0.handler, Handler::Withdrawn(_))
    }

    /// Returns the same tool for the model, with calls that fail.
    pub(crate) fn withdrawn(&self, source: &str) -> Self {
        let (spec, options) = (self.0.spec.clone(), self.0.options.clone());
        Self::of(spec, options, Handler::Withdrawn(source.into()))
    }

    /// Returns the reason why calls of the tool fail, or `None` if it can be called.
    pub(crate) fn withdrawal_reason(&self) -> Option<String> {
        match &self.0.handler {
            Handler::Withdrawn(source) => Some(self.withdrawal(source)),
            _ => None,
        }
    }

    fn withdrawal(&self, source: &str) -> String {
        let name = self.name();
        format!("tool `{name}` is no longer available: `{source}` has removed it; use another tool")
    }

    /// Returns the first violation of the schema, with path and rule, or `None` if the arguments
    /// match it.
    #[cfg(feature = "engine")]
    pub fn violation(&self, arguments: &Value) -> Option<String> {
        self.0.checker.violation(arguments)
    }

    /// Returns the first keyword of the schema that only the feature `json-schema` checks; `None` if every build checks
    /// the whole schema. Without that feature, calls of a tool with such a keyword fail.
    #[cfg(feature = "engine")]
    pub fn keyword_for_validator(&self) -> Option<&str> {
        self.0.checker.keyword_beyond()
    }

    /// Returns the files that a call can write, without running it. Arguments that the tool cannot
    /// read can write any file.
    pub fn writes(&self, arguments: &Value) -> Writes {
        match &self.0.handler {
            Handler::Typed(handler) => handler.writes(arguments),
            Handler::Dynamic(handler) => handler.writes(arguments, &self.0.options),
            Handler::External(_) => self.0.options.side_effects.into(),
            Handler::Withdrawn(_) => Writes::Nothing,
        }
    }

    /// Returns `true` if a call may run again after an interruption. The tool's side effects decide, unless a call [must
    /// not](Tool::is_repeatable). The arguments are only read if that depends on them.
    pub fn is_repeatable<'a>(&self, arguments: impl FnOnce() -> Cow<'a, Value>) -> bool {
        match (self.0.options.side_effects, &self.0.handler) {
            (SideEffects::AtMostOnce, _) => false,
            (SideEffects::Resumable, Handler::Typed(handler)) => {
                handler.is_repeatable(&arguments())
            }
            _ => true,
        }
    }

    /// Returns the agent that a call starts, without running it. May read files, such as that of a skill, on another thread.
    /// Returns `None` if the call starts no agent, or the tool runs elsewhere.
    pub async fn starts(&self, arguments: &Value) -> Option<StartedAgent> {
        match &self.0.handler {
            Handler::Typed(handler) => handler.starts(arguments).await,
            Handler::Dynamic(handler) => handler.starts(arguments).await,
            Handler::External(_) | Handler::Withdrawn(_) => None,
        }
    }

    /// Returns the question to the user if the tool declares that a call needs approval. The
    /// arguments are only read if that depends on them.
    pub fn approval<'a>(&self, arguments: impl FnOnce() -> Cow<'a, Value>) -> Option<String> {
        match (&self.0.options.approval, &self.0.handler) {
            (ToolApproval::Always(text), _) => Some(text.to_string()),
            (ToolApproval::PerCall, Handler::Typed(handler)) => handler.approval(&arguments()),
            (ToolApproval::PerCall, Handler::Dynamic(handler)) => handler.approval(&arguments()),
            (ToolApproval::Never, _)
            | (ToolApproval::PerCall, Handler::External(_) | Handler::Withdrawn(_)) => None,
        }
    }

    /// Runs one call. The arguments must match the schema.
    ///
    /// # Errors
    ///
    /// Returns an error if the tool fails or stops the agent.
    pub async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        self.run(RawArgs::Value(arguments), cx).await
    }

    /// Returns `true` if the arguments match the schema and the tool takes them as written by the
    /// model.
    pub(crate) fn takes(&self, text: &str) -> bool {
        // `null` and nothing at all stand for an empty object.
        let is_object = text.trim_start().starts_with('{');
        let is_typed = matches!(self.0.handler, Handler::Typed(_));
        is_object && is_typed && self.0.checker.plainly_takes(text)
    }

    pub(crate) fn run<'a>(
        &'a self,
        arguments: RawArgs<'a>,
        cx: &'a ToolCx<'_>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        match &self.0.handler {
            Handler::Typed(handler) => handler.call(arguments, cx),
            Handler::Dynamic(handler) => match arguments.into_value() {
                Ok(value) => handler.call(value, cx),
                Err(error) => Box::pin(ready(Err(error))),
            },
            Handler::External(schema) => Box::pin(ready(match cx.answer() {
                Some(result) => Ok(ToolOutput::json(result.clone())),
                None => Err(ToolPause::external(self.name(), schema.clone()).into()),
            })),
            Handler::Withdrawn(source) => {
                let error = self.withdrawal(source);
                Box::pin(ready(Err(ToolError::Failed(error.into()))))
            }
        }
    }
}

impl fmt::Debug for AnyTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyTool").field(self.name()).finish()
    }
}

/// The description of a tool for browsing, in two levels: metadata to select it, instructions to
/// use it.
#[derive(Clone, Copy)]
pub struct ToolDescriptor<'a>(&'a Inner);

/// Summaries longer than this are cut.
const SUMMARY_CHARS: usize = 80;

impl<'a> ToolDescriptor<'a> {
    /// Returns the name.
    pub fn name(&self) -> &'a str {
        &self.0.spec.name
    }

    /// Returns what the tool does, written for the model.
    pub fn description(&self) -> &'a str {
        &self.0.spec.description
    }

    /// Returns the group: the namespace if set, or the dotted name without its last part.
    pub fn namespace(&self) -> Option<&'a str> {
        let dotted = || self.name().rsplit_once('.').map(|(space, _)| space);
        self.0.options.namespace.as_deref().or_else(dotted)
    }

    /// Returns the first sentence of the description, or its first line, cut to 80 characters.
    pub fn summary(&self) -> String {
        let text = self.description();
        let line = text.lines().next().unwrap_or_default();
        let sentence = line.split_inclusive('.').next().unwrap_or_default();
        if sentence.chars().count() <= SUMMARY_CHARS {
            return sentence.to_owned();
        }
        sentence.chars().take(SUMMARY_CHARS - 3).chain("...".chars()).collect()
    }

    /// Returns the schema of the arguments.
    pub fn parameters(&self) -> &'a Value {
        &self.0.spec.parameters
    }

    /// Returns the instructions for use if set, or the description.
    pub fn instructions(&self) -> &'a str {
        self.0.options.instructions.as_deref().unwrap_or(self.description())
    }
}

impl fmt::Debug for ToolDescriptor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolDescriptor")
            .field("name", &self.name())
            .field("summary", &self.summary())
            .finish_non_exhaustive()
    }
}

/// Converts into a tool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    note = "implement `Tool`, put `#[tool]` on an `async fn`, or wrap a closure with `tool_fn`"
)]
pub trait IntoTool {
    /// Performs the conversion.
    fn into_tool(self) -> AnyTool;
}

impl<T: Tool> IntoTool for T {
    fn into_tool(self) -> AnyTool {
        AnyTool::new(self)
    }
}

impl IntoTool for AnyTool {
    fn into_tool(self) -> AnyTool {
        self
    }
}
