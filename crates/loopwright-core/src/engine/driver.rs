//! The seam that makes an answer of a state.

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

/// Makes an answer of a state: compiles the context and asks a model.
///
/// A driver never changes the state and never runs a tool: the loop records the thought it returns
/// and runs the calls in it. Everything it needs comes in `cx`, so a driver has nothing to be bound
/// to and can be shared between agents.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Makes one answer. Dropping the future gives up what it asked for.
    ///
    /// # Errors
    ///
    /// If there is no answer, or a hook stops the run.
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError>;

    /// Names the driver for those who look at an agent.
    fn name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// Returns `true` if the text of an answer is what the model says to the user. Text of an answer that
    /// is interrupted then stays in the conversation; a driver whose models write decisions in a form of
    /// its own returns `false`.
    fn answers_in_text(&self) -> bool {
        true
    }

    /// Returns the models it chooses from, for tools and hooks that ask one too; `None` if it has none
    /// to share.
    fn models(&self) -> Option<Arc<dyn ModelProvider>> {
        None
    }

    /// Returns which model it asks where the state does not say, as far as it knows.
    fn llm(&self) -> LlmConfig {
        LlmConfig::default()
    }
}

/// What a driver may use.
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

    /// Returns the tools on offer.
    pub fn tools(&self) -> &ToolSet {
        self.agent().tools()
    }

    /// Returns the number of the step, counted from one.
    pub fn step(&self) -> u32 {
        self.inference.step
    }

    /// Returns where to tell what happens.
    pub fn events(&self) -> &EventBus {
        &self.inference.events
    }

    /// Returns time and ids.
    pub fn env(&self) -> &RunEnv {
        &self.inference.env
    }

    /// Compiles the conversation that the model is shown.
    ///
    /// # Errors
    ///
    /// If the compiler fails.
    pub async fn prompt(&self) -> Result<Prompt, CompileError> {
        let previous = lock(self.memory).prompt.take();
        let mut prompt = self.agent().compiler().compile(self.state, previous).await?;
        lock(self.memory).prompt = Some(prompt.clone());
        prompt.head = self.agent().preamble().clone();
        Ok(prompt)
    }

    /// Makes a request of everything the agent and the state say: the prompt, the instructions, the
    /// tools, and the form of answers. The driver adds its own settings.
    ///
    /// # Errors
    ///
    /// If the compiler fails.
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

    /// Returns the instructions, which are made once as long as the session's own stay the same.
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

    /// Asks a model. Hooks see the request and the answer, fragments become events, the account is
    /// charged, and cancelling the run cancels the request.
    ///
    /// # Errors
    ///
    /// If the model does not respond, a hook fails or stops the run, or the budget does not allow it.
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

    /// Tells that a model's decision could not be read.
    pub fn emit_extraction_failed(&self, error: &str, attempt: u32, max_attempts: u32) {
        let (step, error) = (self.step(), error.to_owned());
        self.events().emit(|| DecisionExtractionFailed { step, error, attempt, max_attempts });
    }

    /// Tells that a model's answer does not have the form it must have.
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
