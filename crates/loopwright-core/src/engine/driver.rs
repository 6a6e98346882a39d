//! The extension point that produces a response from a state.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_messages::{InferenceRequest, InferenceResponse, Prompt};

use crate::{
    agent::AgentLoop,
    clock::RunEnv,
    compile::CompileError,
    event::{DecisionExtractionFailed, ValidationFailed},
    event_bus::EventBus,
    infer::{ComposedPrompt, Inference, SharedMemory, check_prompt},
    llm::LlmConfig,
    model::{ChatModel, ModelProvider},
    shared::lock,
    state::AgentState,
    step::StepResponse,
    step_error::StepError,
    tool::ToolSet,
};

/// Produces a response from a state: compiles the context and calls a model.
///
/// A driver never changes the state and never runs a tool: the loop records the returned response
/// and runs its calls. A driver gets everything that it needs from `cx`, so agents can share it.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Produces one response. Dropping the future cancels its requests.
    ///
    /// # Errors
    ///
    /// Returns an error if the model does not respond, or a hook stops the run.
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError>;

    /// Returns the name of the driver, for descriptions of an agent.
    fn name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// Returns `true` if the text of a response is the message to the user. Text of an interrupted
    /// response then stays in the conversation. A driver whose models write decisions in its own
    /// format returns `false`.
    fn answers_in_text(&self) -> bool {
        true
    }

    /// Returns the model provider, for tools and hooks that also call a model, or `None` if it has
    /// none to share.
    fn models(&self) -> Option<Arc<dyn ModelProvider>> {
        None
    }

    /// Returns the default model, as far as the driver knows it.
    fn llm(&self) -> LlmConfig {
        LlmConfig::default()
    }
}

/// The context of a driver.
pub struct ThinkCx<'a> {
    pub(crate) state: &'a AgentState,
    pub(crate) inference: &'a Inference,
    pub(crate) memory: &'a SharedMemory,
}

impl ThinkCx<'_> {
    /// Returns the loop.
    pub fn agent(&self) -> &AgentLoop {
        &self.inference.agent
    }

    /// Returns the available tools.
    pub fn tools(&self) -> &ToolSet {
        self.agent().tools()
    }

    /// Returns the number of the step, counted from one.
    pub fn step(&self) -> u32 {
        self.inference.step
    }

    /// Returns the event bus.
    pub fn events(&self) -> &EventBus {
        &self.inference.events
    }

    /// Returns time and IDs.
    pub fn env(&self) -> &RunEnv {
        &self.inference.env
    }

    /// Compiles the conversation for the model.
    ///
    /// # Errors
    ///
    /// Returns an error if the compiler fails.
    pub async fn prompt(&self) -> Result<Prompt, CompileError> {
        let previous = lock(self.memory).prompt.take();
        let mut prompt = self.agent().compiler().compile(self.state, previous).await?;
        lock(self.memory).prompt = Some(prompt.clone());
        prompt.head = self.agent().preamble().clone();
        Ok(prompt)
    }

    /// Creates a request from the agent and the state: the prompt, the instructions, the tools, and
    /// the response format. The driver adds its own settings.
    ///
    /// # Errors
    ///
    /// Returns an error if the compiler fails.
    pub async fn request(&self) -> Result<InferenceRequest, CompileError> {
        let prompt = self.prompt().await?;
        let llm = self.state.llm();
        let context = self.state.context();
        let format = context.response_format().or(self.agent().response_format());
        Ok(InferenceRequest {
            model: llm.and_then(|it| it.model.clone()),
            system: self.system(),
            tools: self.tools().specs().clone(),
            response_format: format.cloned(),
            prompt,
            options: llm.map(|it| it.options.clone()).unwrap_or_default(),
            ..InferenceRequest::default()
        })
    }

    /// Returns the instructions, which are built once as long as the session's own stay the same.
    fn system(&self) -> Option<Arc<str>> {
        let session = self.state.context().system_prompt();
        let mut memory = lock(self.memory);
        match &memory.system {
            Some(made) if made.session.as_ref() == session => made.whole.clone(),
            _ => {
                let whole = self.agent().instructions().compose(session, self.agent());
                memory.system =
                    Some(ComposedPrompt { session: session.cloned(), whole: whole.clone() });
                whole
            }
        }
    }

    /// Calls a model. Hooks see the request and the response, fragments become events, the account
    /// is charged, and cancelling the run cancels the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the model does not respond, a hook fails or stops the run, or the budget
    /// does not allow the call.
    pub fn infer<'b>(
        &'b self,
        model: &'b dyn ChatModel,
        request: InferenceRequest,
    ) -> impl Future<Output = Result<InferenceResponse, StepError>> + Send + 'b {
        // What is large is not part of the future, which stays small enough to be made quickly.
        let mut request = Box::new(request);
        async move {
            check_prompt(&request.prompt)?;
            self.inference.infer(self.state, model, &mut request, Some(self.memory)).await
        }
    }

    /// Reports that a model's decision could not be read.
    pub fn emit_extraction_failed(&self, error: &str, attempt: u32, max_attempts: u32) {
        let (step, error) = (self.step(), error.to_owned());
        self.events().emit(|| DecisionExtractionFailed { step, error, attempt, max_attempts });
    }

    /// Reports that a model's answer does not have the required form.
    pub fn emit_validation_failed(&self, subject: &'static str, errors: Vec<String>) {
        let step = self.step();
        self.events().emit(|| ValidationFailed { step, subject: subject.into(), errors });
    }
}

impl fmt::Debug for ThinkCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThinkCx").field("step", &self.step()).finish_non_exhaustive()
    }
}
