//! Models.

use std::{fmt, sync::Arc};

use loopwright_core::{
    ChatModel, FixedModel, LlmConfig, ModelProvider,
    messages::{InferenceOptions, ToolChoice},
};

use crate::{
    capabilities::capability,
    drivers::{ReActDriver, ToolCallingDriver},
};

/// Calls the models of a [`ModelProvider`], with their own tool calls.
///
/// `UseLlm` of `loopwright-capabilities` configures this. Use it in programs with their own
/// `ModelProvider`. For a model by name or by value, use `UseLlm`.
#[derive(Clone)]
#[must_use]
pub struct UseLlmConfig {
    models: Arc<dyn ModelProvider>,
    llm: LlmConfig,
    tool_choice: ToolChoice,
    parallel_tool_calls: Option<bool>,
}

impl UseLlmConfig {
    /// Calls one model.
    pub fn model(model: impl ChatModel + 'static) -> Self {
        Self::from_models(Arc::new(FixedModel(Arc::new(model))))
    }

    /// Calls the models that states select.
    pub fn from_models(models: Arc<dyn ModelProvider>) -> Self {
        Self {
            models,
            llm: LlmConfig::default(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: None,
        }
    }

    /// Sets provider, model and settings for states that select none.
    pub fn with_llm(mut self, llm: LlmConfig) -> Self {
        self.llm = llm;
        self
    }

    /// Sets whether the model may, must or must not call tools.
    pub fn with_tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Allows or forbids several calls at once; otherwise it is the provider's choice.
    pub fn with_parallel_tool_calls(mut self, parallel: bool) -> Self {
        self.parallel_tool_calls = Some(parallel);
        self
    }
}

capability!(UseLlmConfig, "use_llm_config", |it, agent| {
    let driver = ToolCallingDriver::from_models(Arc::clone(&it.models))
        .with_llm(it.llm.clone())
        .with_tool_choice(it.tool_choice.clone())
        .with_parallel_tool_calls(it.parallel_tool_calls);
    agent.driver.set(Arc::new(driver));
});

impl fmt::Debug for UseLlmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UseLlmConfig").field("llm", &self.llm).finish_non_exhaustive()
    }
}

/// Uses a model without native tool calls; see [`ReActDriver`].
#[derive(Clone, Debug)]
#[must_use]
pub struct UseReActConfig(ReActDriver);

impl UseReActConfig {
    /// Calls one model.
    pub fn model(model: impl ChatModel + 'static) -> Self {
        Self(ReActDriver::new(model))
    }

    /// Calls the models that states select.
    pub fn of(models: Arc<dyn ModelProvider>) -> Self {
        Self(ReActDriver::from_models(models))
    }

    /// Sets provider, model and settings for states that select none.
    pub fn with_llm(self, llm: LlmConfig) -> Self {
        Self(self.0.with_llm(llm))
    }

    /// Sets the maximum number of attempts for a decision, including the first; 3 by default.
    pub fn with_attempts(self, attempts: u32) -> Self {
        Self(self.0.with_attempts(attempts))
    }

    /// Adds a second call that writes the final answer, of another model if one is named.
    pub fn with_final_inference(self, model: Option<Arc<str>>, options: InferenceOptions) -> Self {
        Self(self.0.with_final_inference(model, options))
    }
}

capability!(UseReActConfig, "use_react_config", |it, agent| {
    agent.driver.set(Arc::new(it.0.clone()));
});
