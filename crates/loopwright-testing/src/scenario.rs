//! The response of a scripted model or driver at one step.

use std::sync::Arc;

use loopwright_core::{
    BoxError, ModelError, ModelErrorKind, StepError, StepResponse,
    messages::{
        Content, Cost, FinishReason, InferenceResponse, Message, Part, Role, ToolCall, Usage,
    },
};
use serde_json::{Value, json};

use crate::tool::SCRIPTED_TOOL;

/// The response of a scripted model or driver at one step.
///
/// ```
/// use loopwright_testing::{FakeDriver, ScenarioStep};
/// use serde_json::json;
///
/// let driver = FakeDriver::steps([
///     ScenarioStep::tool_call("add", json!({ "a": 1, "b": 2 })).with_text("Let me see."),
///     ScenarioStep::final_answer("3"),
/// ]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct ScenarioStep {
    text: Option<Arc<str>>,
    calls: Vec<ToolCall>,
    error: Option<String>,
    usage: Usage,
    cost: Option<Cost>,
    finish: Option<FinishReason>,
}

impl ScenarioStep {
    /// Creates a final answer without tool calls: the loop ends unless another step is requested.
    pub fn final_answer(text: impl Into<Arc<str>>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Creates a response with text and a call of [`SCRIPTED_TOOL`] without arguments, so that the
    /// loop continues.
    ///
    /// [`test_loop`](crate::test_loop) has that tool, and other agents can add
    /// [`MockTool::scripted`](crate::MockTool::scripted). Without it, the call fails like any call
    /// of an unknown tool, and the loop continues.
    pub fn tool(text: impl Into<Arc<str>>) -> Self {
        Self::tool_call(SCRIPTED_TOOL, json!({})).with_text(text)
    }

    /// Creates a response that calls one tool.
    pub fn tool_call(name: impl Into<Arc<str>>, arguments: Value) -> Self {
        Self::tool_calls([(name, arguments)])
    }

    /// Creates a response that calls several tools. Their IDs are `call_0`, `call_1` and so on.
    pub fn tool_calls<N: Into<Arc<str>>>(calls: impl IntoIterator<Item = (N, Value)>) -> Self {
        let texts = calls.into_iter().map(|(name, value)| (name, value.to_string()));
        Self::raw_tool_calls(texts)
    }

    /// Creates a response that calls several tools with arguments that need not be JSON.
    pub fn raw_tool_calls<N: Into<Arc<str>>, A: Into<Arc<str>>>(
        calls: impl IntoIterator<Item = (N, A)>,
    ) -> Self {
        let call = |(index, (name, arguments)): (usize, (N, A))| {
            ToolCall::new(format!("call_{index}"), name, arguments)
        };
        Self { calls: calls.into_iter().enumerate().map(call).collect(), ..Self::default() }
    }

    /// Creates a failed step: an error of the driver, or for a model an unavailable provider.
    pub fn error(text: impl Into<String>) -> Self {
        Self { error: Some(text.into()), ..Self::default() }
    }

    /// Adds text.
    pub fn with_text(mut self, text: impl Into<Arc<str>>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Sets the tokens.
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the cost.
    pub fn with_cost(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Sets another finish reason.
    pub fn with_finish(mut self, finish: FinishReason) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Returns the step as a model's response.
    ///
    /// # Errors
    ///
    /// Returns the error if the step is an error.
    pub fn to_response(&self) -> Result<InferenceResponse, ModelError> {
        if let Some(text) = &self.error {
            let error = ModelError::new(ModelErrorKind::Unavailable, text.clone());
            return Err(ModelError { usage: self.usage, ..error });
        }
        let text = self.text.iter().cloned().map(Part::text);
        let calls = self.calls.iter().cloned().map(|it| Part::new(Content::ToolCall(it)));
        let message = Message::new(Role::Assistant, text.chain(calls));
        let mut response = InferenceResponse::new(message, self.usage);
        response.cost = self.cost;
        if let Some(finish) = &self.finish {
            response.finish_reason = finish.clone();
        }
        Ok(response)
    }

    /// Returns the step as a driver's response.
    ///
    /// # Errors
    ///
    /// Returns the error if the step is an error.
    pub fn to_thought(&self) -> Result<StepResponse, StepError> {
        match &self.error {
            Some(text) => Err(StepError::Driver(BoxError::from(text.clone()))),
            None => Ok(StepResponse::from_response(self.to_response()?)),
        }
    }
}

impl From<&str> for ScenarioStep {
    fn from(answer: &str) -> Self {
        Self::final_answer(answer)
    }
}

impl From<String> for ScenarioStep {
    fn from(answer: String) -> Self {
        Self::final_answer(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_step_says_its_text_and_really_calls_a_tool() {
        let thought = ScenarioStep::tool("look").to_thought().unwrap();
        assert_eq!(thought.message.text(), "look");
        let names: Vec<_> = thought.message.tool_calls().map(|it| &*it.name).collect();
        assert_eq!(names, [SCRIPTED_TOOL]);
        assert_eq!(thought.finish_reason, FinishReason::ToolCalls);
    }

    #[test]
    fn an_error_step_keeps_what_it_consumed() {
        let step = ScenarioStep::error("down").with_usage(Usage::new(5, 0));
        assert_eq!(step.to_response().unwrap_err().usage, Usage::new(5, 0));
        assert_eq!(
            step.to_thought().unwrap_err().to_failure().to_string(),
            "the driver failed: down"
        );
    }
}
