//! `llm_query`.

use std::fmt;
use std::sync::Arc;

use loopwright_core::{
    BoxError, ChatModel, LlmConfig, Models, OneModel, StepError, Tool, ToolCx, ToolError,
    messages::{InferenceRequest, Message, Prompt, Transcript},
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Asks a model a question. The conversation is not part of it.
#[derive(Clone)]
#[must_use]
pub struct LlmQueryTool {
    models: Arc<dyn Models>,
    llm: LlmConfig,
    system: Option<Arc<str>>,
}

/// What the model passes to `llm_query`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlmQueryArgs {
    /// The question, with all that it takes to answer it.
    pub query: String,
}

impl LlmQueryTool {
    /// Asks one model.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self::of(Arc::new(OneModel(Arc::new(model))))
    }

    /// Asks a model of these: the default one, or the one that [`with_llm`](Self::with_llm) selects.
    pub fn of(models: Arc<dyn Models>) -> Self {
        Self { models, llm: LlmConfig::default(), system: None }
    }

    /// Selects provider, model and settings.
    pub fn with_llm(mut self, llm: LlmConfig) -> Self {
        self.llm = llm;
        self
    }

    /// Sets what the model is told first.
    pub fn with_system_prompt(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    fn request(&self, query: &str) -> Result<InferenceRequest, BoxError> {
        let mut turns = Transcript::new();
        turns.say(Message::user(query))?;
        Ok(InferenceRequest {
            model: self.llm.model.clone(),
            system: self.system.clone(),
            prompt: Prompt::of(turns),
            options: self.llm.options.clone(),
            ..InferenceRequest::default()
        })
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
        "Asks a language model a question about general knowledge, reasoning or wording. It sees nothing \
         of this conversation. Each question costs a model call: answer yourself where you can."
    }

    async fn call(&self, args: LlmQueryArgs, cx: &ToolCx<'_>) -> Result<String, BoxError> {
        let query = args.query.trim();
        if query.is_empty() {
            let text = "the query cannot be empty";
            return Err(ToolError::InvalidArguments(text.to_owned()).into());
        }
        let is_chosen = self.llm.provider.is_some() || self.llm.model.is_some();
        let model = self.models.resolve(Some(&self.llm).filter(|_| is_chosen))?;
        let response = match cx.infer(&*model, self.request(query)?).await {
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
