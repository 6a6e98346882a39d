//! The driver for models without native tool calls.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, ChatModel, Driver, FixedModel, LlmConfig, ModelProvider, StepError, StepResponse,
    ThinkCx, ToolSet,
    messages::{
        InferenceOptions, InferenceRequest, InferenceResponse, Message, ResponseFormat,
        ToolCallFormat, ToolSpecs,
    },
};
use serde_json::{Value, json};

use crate::{
    drivers::{
        ModelSelection,
        react_decision::{Decision, extract, schema},
    },
    on_demand::shown,
};

/// Asks a model to think, to decide on one action, and to read its result, all as text.
///
/// A decision that cannot be read, or is invalid, is sent back with the error until the attempts
/// are used up. Then the step fails like any other. The conversation has the same form as with any
/// other driver: only the model sees thought, action and observation as text.
///
/// Decisions have their own format. If the state or the agent sets a response format, a second
/// model call writes the final answer in that format.
#[derive(Clone)]
pub struct ReActDriver {
    asked: ModelSelection,
    attempts: u32,
    format: Option<ResponseFormat>,
    final_inference: Option<FinalInference>,
}

/// A second model call that writes the final answer.
#[derive(Clone, Debug, Default)]
struct FinalInference {
    model: Option<Arc<str>>,
    options: InferenceOptions,
}

impl ReActDriver {
    /// Calls one model, regardless of the provider that a state selects.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self::from_models(Arc::new(FixedModel(Arc::new(model))))
    }

    /// Calls the model that a state selects.
    pub fn from_models(models: Arc<dyn ModelProvider>) -> Self {
        Self {
            asked: ModelSelection { models, llm: LlmConfig::default() },
            attempts: 3,
            format: Some(ResponseFormat::JsonObject),
            final_inference: None,
        }
    }

    /// Sets provider, model and settings for states that select none.
    #[must_use]
    pub fn with_llm(mut self, llm: LlmConfig) -> Self {
        self.asked.llm = llm;
        self
    }

    /// Sets the maximum number of attempts for a decision, including the first; 3 by default.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Lets the provider enforce the decision's schema, for providers that support it.
    #[must_use]
    pub fn with_enforced_schema(mut self) -> Self {
        self.format = Some(ResponseFormat::json_schema("decision", schema()));
        self
    }

    /// Requests plain text and extracts the decision from it, for providers without JSON.
    #[must_use]
    pub fn without_response_format(mut self) -> Self {
        self.format = None;
        self
    }

    /// Adds a second call that writes the final answer, of another model if one is named.
    #[must_use]
    pub fn with_final_inference(
        mut self,
        model: Option<Arc<str>>,
        options: InferenceOptions,
    ) -> Self {
        self.final_inference = Some(FinalInference { model, options });
        self
    }

    /// Creates a request in which tools are only text, and returns it with the format of final
    /// answers.
    async fn request(
        &self,
        state: &AgentState,
        cx: &ThinkCx<'_>,
    ) -> Result<(Arc<dyn ChatModel>, InferenceRequest, Option<ResponseFormat>), StepError> {
        let mut request = cx.request().await?;
        let model = self.asked.resolve(state, &mut request)?;
        request.tools = ToolSpecs::default();
        let form = std::mem::replace(&mut request.response_format, self.format.clone());
        request.prompt.dialect = ToolCallFormat::Text;
        let own = request.system.as_deref().unwrap_or_default();
        let tools = shown(state, cx.tools());
        request.system = Some(format!("{}\n\n{own}", rules(&tools)).trim_end().into());
        Ok((model, request, form))
    }

    async fn decide(
        &self,
        model: &dyn ChatModel,
        mut request: InferenceRequest,
        tools: &ToolSet,
        cx: &ThinkCx<'_>,
    ) -> Result<(Decision, InferenceResponse), StepError> {
        let mut wrong = String::new();
        for attempt in 1..=self.attempts {
            let response = cx.infer(model, request.clone()).await?;
            let text = response.message.text();
            let read = extract(&text).inspect_err(|error| {
                cx.emit_extraction_failed(error, attempt, self.attempts);
            });
            let checked = read.and_then(|value| {
                Decision::check(value, tools).inspect_err(|error| {
                    cx.emit_validation_failed("decision", vec![error.clone()]);
                })
            });
            match checked {
                Ok(decision) => return Ok((decision, response)),
                Err(error) => wrong = error,
            }
            request.prompt.tail.push(Message::assistant(text));
            request.prompt.tail.push(Message::user(format!(
                "Your last decision is invalid: {wrong}. Reply with one JSON object that matches \
                    the schema."
            )));
        }
        Err(StepError::Invalid(format!("no valid decision in {} attempts: {wrong}", self.attempts)))
    }

    async fn word_answer(
        &self,
        model: &dyn ChatModel,
        mut request: InferenceRequest,
        cx: &ThinkCx<'_>,
        form: Option<ResponseFormat>,
    ) -> Result<InferenceResponse, StepError> {
        if let Some(wording) = &self.final_inference {
            request.model = wording.model.clone().or(request.model);
            request.options = wording.options.with_defaults(&request.options);
        }
        let ask = if form.is_some() {
            "Now give the final answer to the user in the requested format, and nothing else."
        } else {
            "Now give the final answer to the user, as plain text and nothing else."
        };
        request.response_format = form;
        request.prompt.tail.push(Message::user(ask));
        cx.infer(model, request).await
    }
}

#[async_trait]
impl Driver for ReActDriver {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let (model, request, form) = self.request(state, cx).await?;
        let tools = shown(state, cx.tools());
        let (decision, mut response) = self.decide(&*model, request.clone(), &tools, cx).await?;
        let is_worded_again = self.final_inference.is_some() || form.is_some();
        if is_worded_again && matches!(decision, Decision::Answer { .. }) {
            return Ok(StepResponse::from_response(
                self.word_answer(&*model, request, cx, form).await?,
            ));
        }
        (response.message, response.finish_reason) = decision.into_message(cx.step());
        Ok(StepResponse::from_response(response))
    }

    /// The model writes decisions, as JSON.
    fn answers_in_text(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "react"
    }

    fn models(&self) -> Option<Arc<dyn ModelProvider>> {
        Some(Arc::clone(&self.asked.models))
    }

    fn llm(&self) -> LlmConfig {
        self.asked.by_default()
    }
}

/// Returns the instructions about decisions, with the available tools.
fn rules(tools: &ToolSet) -> String {
    let catalogue: Vec<Value> = tools
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            json!({"name": &*spec.name, "description": &*spec.description, "parameters": &*spec.parameters})
        })
        .collect();
    format!(
        "You work in a loop of thought, action and observation.\nEach time, reply with exactly \
            one JSON object that matches this schema, and nothing else:\n{}\n- To use a tool, \
            set `type` to call_tool, `tool` to its name and `args` to an object with its \
            arguments.\n- Do not guess what a tool can find out; call it and wait for the \
            observation.\n- Use only the tools listed here, one at a time, until you know the \
            answer.\n- When you know the answer, set `type` to final_answer and `answer` to the \
            complete answer.\n- Keep `thought` short.\nTools:\n{}",
        schema(),
        Value::Array(catalogue)
    )
}

impl fmt::Debug for ReActDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReActDriver")
            .field("llm", &self.asked.llm)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}
