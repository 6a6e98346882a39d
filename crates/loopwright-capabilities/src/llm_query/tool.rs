//! `llm_query`.

use std::fmt;
use std::sync::Arc;

use loopwright_core::{
    BoxError, ChatModel, FixedModel, LlmConfig, ModelProvider, Reach, StepError, Tool, ToolCx,
    ToolError, ToolOptions,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::model_source::ModelSource;

/// Asks a model a question, without the conversation.
///
/// By default, this is the agent's own model.
#[derive(Clone, Default)]
#[must_use]
pub struct LlmQueryTool {
    /// The source of the models, or `None` for the agent's own.
    models: Option<Arc<dyn ModelProvider>>,
    llm: LlmConfig,
    system: Option<Arc<str>>,
}

/// The arguments of the tool `llm_query`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlmQueryArgs {
    /// The question, with everything needed to answer it.
    pub query: String,
}

impl LlmQueryTool {
    /// Uses one model.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self::from_models(Arc::new(FixedModel(Arc::new(model))))
    }

    /// Uses a model of these providers: the default one, or the one that
    /// [`with_llm`](Self::with_llm) selects.
    pub fn from_models(models: Arc<dyn ModelProvider>) -> Self {
        Self { models: Some(models), ..Self::default() }
    }

    /// Selects provider, model and settings.
    pub fn with_llm(mut self, llm: LlmConfig) -> Self {
        self.llm = llm;
        self
    }

    /// Sets the system prompt.
    pub fn with_system_prompt(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.system = Some(prompt.into());
        self
    }
}

impl Tool for LlmQueryTool {
    type Args = LlmQueryArgs;
    type Output = String;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "llm_query"
    }

    fn description(&self) -> &'static str {
        "Asks a language model a question about general knowledge, reasoning or wording. That \
            model sees nothing of this conversation. Each question costs a model call, so answer \
            it yourself if you can."
    }

    fn options(&self) -> ToolOptions {
        let reach = if self.models.is_none() { Reach::Agent } else { Reach::World };
        ToolOptions { reach, ..ToolOptions::default() }
    }

    async fn call(&self, args: LlmQueryArgs, cx: &ToolCx<'_>) -> Result<String, BoxError> {
        let query = args.query.trim();
        if query.is_empty() {
            let text = "the query cannot be empty";
            return Err(ToolError::InvalidArguments(text.to_owned()).into());
        }
        let llm = Some(self.llm.clone());
        let asked = match &self.models {
            Some(models) => ModelSource::These(Arc::clone(models), llm),
            None => ModelSource::Own(llm),
        };
        let (system, query) = (self.system.clone(), query.to_owned());
        let (model, request) = asked.request(cx.state, cx.agent, system, query)?;
        let response = match cx.infer(&*model, request).await {
            // A limit that is reached here is the limit of the run.
            Err(StepError::Stopped(signal)) => return Err(ToolError::Stop(signal).into()),
            answer => answer?,
        };
        let text = response.message.text();
        Ok(if text.trim().is_empty() { "(no answer)".to_owned() } else { text })
    }
}

impl fmt::Debug for LlmQueryTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmQueryTool").field("model", &self.llm.model).finish_non_exhaustive()
    }
}
