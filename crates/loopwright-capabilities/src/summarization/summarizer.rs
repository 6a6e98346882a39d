//! Summarizers.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AgentState, ChatModel, HookCx, ModelProvider, StepError, StopReason, StopSignal,
    messages::{FinishReason, Turn},
};

use crate::{
    model_source::ModelSource,
    summarization::{contained::contained, counter::TokenCounter, prompt},
};

/// The input of a summary.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SummaryInput<'a> {
    /// The previous summary.
    pub earlier: Option<&'a str>,
    /// The turns, oldest first.
    pub turns: &'a [Arc<Turn>],
    /// The maximum number of tokens of the summary.
    pub max_tokens: u64,
}

impl SummaryInput<'_> {
    /// Formats the input as text, with all messages quoted.
    pub fn to_text(&self) -> String {
        prompt::question(self.earlier, self.turns, self.max_tokens)
    }
}

/// Summarizes conversations.
#[async_trait]
pub trait Summarizer: Send + Sync {
    /// Returns a summary of the previous summary and the turns.
    ///
    /// Model calls go through `cx`, so that they are charged to the run and cancelled with it.
    /// Dropping the future abandons the summary.
    ///
    /// # Errors
    ///
    /// Returns an error if no summary was written. The run continues, and tries again some steps
    /// later.
    async fn summarize(
        &self,
        material: SummaryInput<'_>,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<String, StepError>;
}

/// Summarizes with a model, by default the agent's own.
#[derive(Clone, Default)]
#[must_use]
pub struct ModelSummarizer(Option<ModelSource>);

impl ModelSummarizer {
    /// Uses one model, regardless of the agent's own model.
    pub fn with_model(model: impl ChatModel + 'static) -> Self {
        Self(Some(ModelSource::One(Arc::new(model))))
    }

    /// Uses the models that states select.
    pub fn from_models(models: Arc<dyn ModelProvider>) -> Self {
        Self(Some(ModelSource::OfState(models)))
    }

    fn asked(&self, cx: &HookCx<'_>) -> Result<ModelSource, StepError> {
        let own = || cx.agent().driver().models().map(|_| ModelSource::Own(None));
        self.0.clone().or_else(own).ok_or_else(|| {
            let text = "the agent's driver has no model to share; specify a model for summaries";
            StepError::Driver(text.into())
        })
    }
}

#[async_trait]
impl Summarizer for ModelSummarizer {
    async fn summarize(
        &self,
        material: SummaryInput<'_>,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<String, StepError> {
        let asked = self.asked(cx)?;
        let system = Some(prompt::SUMMARIZER.into());
        let (model, mut request) = asked.request(state, cx.agent(), system, material.to_text())?;
        request.options.max_output_tokens = Some(material.max_tokens);
        // No process is waiting for its first words.
        request.options.stream = Some(false);
        let response = cx.infer(state, &*model, request).await?;
        match response.finish_reason {
            FinishReason::ContentFilter | FinishReason::Refusal => {
                let text =
                    format!("the model wrote no summary: {}", response.finish_reason.as_str());
                Err(StepError::Invalid(text))
            }
            _ => Ok(response.message.text()),
        }
    }
}

impl fmt::Debug for ModelSummarizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSummarizer").field("own", &self.0.is_none()).finish_non_exhaustive()
    }
}

/// What came of asking for a summary.
pub(crate) enum Answer {
    Summary(String),
    /// There is none.
    Failed(String),
    /// A hook stops the run.
    Stopped(StopSignal),
    Cancelled,
}

/// Asks for a summary that fits.
pub(crate) async fn ask(
    summarizer: &dyn Summarizer,
    counter: &dyn TokenCounter,
    material: SummaryInput<'_>,
    state: &AgentState,
    cx: &HookCx<'_>,
) -> Answer {
    match contained(summarizer.summarize(material, state, cx)).await {
        Ok(Ok(text)) if text.trim().is_empty() => Answer::Failed("the summary is empty".into()),
        Ok(Ok(text)) => Answer::Summary(fitting(text.trim(), material.max_tokens, counter)),
        Ok(Err(StepError::Cancelled)) => Answer::Cancelled,
        Ok(Err(StepError::Stopped(signal))) if !is_of_account(&signal) => Answer::Stopped(signal),
        Ok(Err(error)) => Answer::Failed(error.to_string()),
        Err(panic) => Answer::Failed(panic),
    }
}

/// What the account does not allow is a summary less; whether it allows a step is found out by the loop.
fn is_of_account(signal: &StopSignal) -> bool {
    let reason = signal.reason;
    let is_money = matches!(reason, StopReason::TokenLimitReached | StopReason::CostLimitReached);
    is_money && signal.source.as_deref() == Some("budget")
}

/// Cuts a text until it has no more tokens than it may.
fn fitting(text: &str, most: u64, counter: &dyn TokenCounter) -> String {
    let mut text = text.to_owned();
    loop {
        let tokens = counter.count(&text);
        if tokens <= most || text.is_empty() {
            return text;
        }
        let share = u128::from(most) * text.len() as u128 / u128::from(tokens);
        let at = usize::try_from(share).unwrap_or(0).min(text.len() - 1);
        text.truncate(text.floor_char_boundary(at));
    }
}

/// Returns the number of turns, with these token counts, to summarize at once: at least one.
pub(crate) fn first_of(tokens: impl Iterator<Item = u64>, most: u64) -> usize {
    let mut sum = 0_u64;
    let fits = |tokens: &u64| {
        sum = sum.saturating_add(*tokens);
        sum <= most
    };
    tokens.take_while(fits).count().max(1)
}
