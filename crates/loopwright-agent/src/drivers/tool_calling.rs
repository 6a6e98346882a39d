//! The driver for models with native tool calls.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, ChatModel, Driver, FixedModel, LlmConfig, ModelError, ModelProvider, StepError,
    StepResponse, ThinkCx,
    messages::{InferenceRequest, InferenceResponse, Message, Part, ResponseFormat, ToolChoice},
};
use serde_json::Value;

use crate::drivers::ModelSelection;

/// Calls a model with native tool calls. The default driver.
#[derive(Clone)]
pub struct ToolCallingDriver {
    asked: ModelSelection,
    tool_choice: ToolChoice,
    parallel_tool_calls: Option<bool>,
    response_format: Option<ResponseFormat>,
}

impl ToolCallingDriver {
    /// Calls one model, regardless of the provider that a state selects.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self::from_models(Arc::new(FixedModel(Arc::new(model))))
    }

    /// Calls the model that a state selects.
    pub fn from_models(models: Arc<dyn ModelProvider>) -> Self {
        Self {
            asked: ModelSelection { models, llm: LlmConfig::default() },
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: None,
            response_format: None,
        }
    }

    /// Sets provider, model and settings for states that select none.
    #[must_use]
    pub fn with_llm(mut self, llm: LlmConfig) -> Self {
        self.asked.llm = llm;
        self
    }

    /// Sets whether the model may, must or must not call tools.
    #[must_use]
    pub fn with_tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Allows or forbids several calls at once; otherwise it is the provider's choice.
    #[must_use]
    pub fn with_parallel_tool_calls(mut self, parallel: Option<bool>) -> Self {
        self.parallel_tool_calls = parallel;
        self
    }

    /// Sets the response format. It takes precedence over the agent's and the state's.
    #[must_use]
    pub fn with_response_format(mut self, format: ResponseFormat) -> Self {
        self.response_format = Some(format);
        self
    }
}

impl ToolCallingDriver {
    /// Finds the model of a request, and adds the settings of this driver.
    fn addressed(
        &self,
        state: &AgentState,
        mut request: InferenceRequest,
    ) -> Result<(Arc<dyn ChatModel>, InferenceRequest), ModelError> {
        let model = self.asked.resolve(state, &mut request)?;
        if !request.tools.is_empty() {
            request.tool_choice = self.tool_choice.clone();
            request.parallel_tool_calls = self.parallel_tool_calls;
        }
        if let Some(format) = &self.response_format {
            request.response_format = Some(format.clone());
        }
        Ok((model, request))
    }
}

#[async_trait]
impl Driver for ToolCallingDriver {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let request = cx.request().await?;
        let (model, request) = self.addressed(state, request)?;
        let response = cx.infer(&*model, request).await?;
        let message = without_leaked_arguments(response.message);
        Ok(StepResponse::from_response(InferenceResponse { message, ..response }))
    }

    fn name(&self) -> &'static str {
        "tool_calling"
    }

    fn models(&self) -> Option<Arc<dyn ModelProvider>> {
        Some(Arc::clone(&self.asked.models))
    }

    fn llm(&self) -> LlmConfig {
        self.asked.by_default()
    }
}

impl fmt::Debug for ToolCallingDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCallingDriver").field("llm", &self.asked.llm).finish_non_exhaustive()
    }
}

/// Drops text that only repeats the arguments of a call: some providers send them as content.
fn without_leaked_arguments(message: Message) -> Message {
    let written = |part: &Part| part.as_text().is_some_and(|it| it.trim_start().starts_with('{'));
    if !message.parts().iter().any(written) {
        return message;
    }
    let calls: Vec<Value> =
        message.tool_calls().filter_map(|call| call.parse_arguments().ok()).collect();
    let is_leaked = |part: &Part| {
        let value = part.as_text().and_then(|text| serde_json::from_str::<Value>(text).ok());
        value.is_some_and(|value| calls.contains(&value))
    };
    let kept: Vec<Part> = message.parts().iter().filter(|part| !is_leaked(part)).cloned().collect();
    message.with_parts(kept)
}
