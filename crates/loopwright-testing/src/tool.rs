//! Tools that record their calls, and faulty tools.

use std::{
    fmt,
    future::pending,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use loopwright_core::{
    AnyTool, BoxError, IdempotencyKey, IntoTool, IntoToolOutput, ToolCx, ToolError, ToolHandler,
    ToolOptions, ToolOutput, messages::ToolSpec,
};
use serde_json::{Value, json};

/// The name of the harmless tool that [`ScenarioStep::tool`](crate::ScenarioStep::tool) calls.
pub const SCRIPTED_TOOL: &str = "scripted";

type Handler = dyn for<'a> Fn(Value, &'a ToolCx<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>>
    + Send
    + Sync;

/// A tool that records its calls. Clones share the record: keep one, and give another to the agent.
///
/// By default, its schema is an object without properties.
#[derive(Clone)]
#[must_use]
pub struct MockTool {
    name: Arc<str>,
    description: Arc<str>,
    schema: Arc<Value>,
    options: ToolOptions,
    handler: Arc<Handler>,
    notes: Arc<Mutex<Vec<(IdempotencyKey, Value)>>>,
}

impl MockTool {
    /// Creates a tool that returns this value: strings as text, other values as JSON.
    pub fn returning(name: &str, description: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        Self::new(name, description, move |_| Ok::<_, BoxError>(value.clone()))
    }

    /// Creates a tool that returns the result of a closure over the arguments.
    pub fn new<O, E>(
        name: &str,
        description: &str,
        handler: impl Fn(Value) -> Result<O, E> + Send + Sync + 'static,
    ) -> Self
    where
        O: IntoToolOutput,
        E: Into<BoxError>,
    {
        let handler = Arc::new(handler);
        Self::with_cx(name, description, move |arguments, _| {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let output = handler(arguments).map_err(Into::into)?;
                Ok(output.into_tool_output()?)
            })
        })
    }

    /// Creates a tool that returns the result of an async closure over the arguments and the call's
    /// context.
    pub fn with_cx(
        name: &str,
        description: &str,
        handler: impl for<'a> Fn(Value, &'a ToolCx<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            schema: Arc::new(json!({ "type": "object", "properties": {} })),
            options: ToolOptions::default(),
            handler: Arc::new(handler),
            notes: Arc::default(),
        }
    }

    /// Creates the harmless tool that [`ScenarioStep::tool`](crate::ScenarioStep::tool) calls.
    pub fn scripted() -> Self {
        Self::returning(SCRIPTED_TOOL, "Does nothing.", "done")
    }

    /// Creates a tool that panics at every call.
    #[expect(clippy::panic, reason = "that is what it is for")]
    pub fn panicking(name: &str) -> Self {
        Self::with_cx(name, "Panics.", |_, _| Box::pin(async { panic!("the tool lost its head") }))
    }

    /// Creates a tool that never returns.
    pub fn hanging(name: &str) -> Self {
        Self::with_cx(name, "Never answers.", |_, _| Box::pin(pending()))
    }

    /// Creates a tool that fails at every call.
    pub fn failing(name: &str, error: &'static str) -> Self {
        Self::new(name, "Fails.", move |_| Err::<(), _>(BoxError::from(error)))
    }

    /// Creates a tool that returns this number of bytes of text.
    pub fn huge(name: &str, bytes: usize) -> Self {
        Self::new(name, "Says a lot.", move |_| Ok::<_, BoxError>("x".repeat(bytes)))
    }

    /// Sets the schema of the arguments.
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.schema = Arc::new(schema);
        self
    }

    /// Sets the options for its calls.
    pub fn with_options(mut self, options: ToolOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the arguments of each started call, in order of start.
    pub fn calls(&self) -> Vec<Value> {
        self.notes().into_iter().map(|(_, arguments)| arguments).collect()
    }

    /// Returns the key of each started call, in order of start.
    pub fn keys(&self) -> Vec<IdempotencyKey> {
        self.notes().into_iter().map(|(key, _)| key).collect()
    }

    fn notes(&self) -> Vec<(IdempotencyKey, Value)> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl ToolHandler for MockTool {
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let note = (cx.key.clone(), arguments.clone());
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        (self.handler)(arguments, cx).await
    }
}

impl IntoTool for MockTool {
    fn into_tool(self) -> AnyTool {
        let spec = ToolSpec {
            name: Arc::clone(&self.name),
            description: Arc::clone(&self.description),
            parameters: Arc::clone(&self.schema),
        };
        AnyTool::dynamic(spec, self.options.clone(), Arc::new(self))
    }
}

impl fmt::Debug for MockTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MockTool").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::AgentState;

    use super::*;
    use crate::{FakeDriver, ScenarioStep, block_on, test_loop};

    #[test]
    fn a_mock_tool_notes_its_calls_under_their_keys() {
        let add = MockTool::new("add", "Adds.", |it| {
            Ok::<_, BoxError>(it["a"].as_i64().unwrap_or(0) + it["b"].as_i64().unwrap_or(0))
        });
        let arguments = json!({ "a": 1, "b": 2 });
        let steps = [ScenarioStep::tool_call("add", arguments.clone()), "three".into()];
        let agent = test_loop(FakeDriver::steps(steps)).with_tool(add.clone());
        let state = block_on(agent.execute(AgentState::new()));
        assert_eq!(add.calls(), [arguments]);
        assert_eq!((add.keys()[0].step, add.keys()[0].call), (1, Some(0)));
        let step = state.step_at(0).unwrap();
        let outcomes: Vec<_> = step.tool_executions().map(|(_, it)| it.to_result()).collect();
        assert_eq!(outcomes[0].to_text(), "3");
    }
    #[test]
    fn a_mock_tool_that_returns_a_value_is_described_and_answers_with_it() {
        let weather = MockTool::returning("weather", "Tells the weather.", json!({ "sun": true }));
        let steps = [ScenarioStep::tool_call("weather", json!({})), "sunny".into()];
        let agent = test_loop(FakeDriver::steps(steps)).with_tool(weather);
        let spec = agent.tools().get("weather").unwrap().spec();
        assert_eq!((&*spec.name, &*spec.description), ("weather", "Tells the weather."));
        let state = block_on(agent.execute(AgentState::new()));
        let (_, outcome) = state.step_at(0).unwrap().tool_executions().next().unwrap();
        let value = outcome.output().unwrap().value.as_deref();
        assert_eq!(value, Some(&json!({ "sun": true })));
    }
}
