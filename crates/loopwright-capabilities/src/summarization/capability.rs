//! The capability for summarization.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::{ChatModel, Priority};

use crate::summarization::{
    ApproximateCounter, Books, ModelSummarizer, SummarizationPolicy, Summarizer, TokenCounter,
    hook::{MoveMessagesToBuffer, SummarizeBuffer, Work},
};

/// Keeps conversations within limits; see the [module](crate::summarization).
#[derive(Clone)]
#[must_use]
pub struct UseSummarization {
    policy: SummarizationPolicy,
    summarizer: Arc<dyn Summarizer>,
    counter: Arc<dyn TokenCounter>,
}

impl Default for UseSummarization {
    fn default() -> Self {
        Self::new(SummarizationPolicy::default())
    }
}

impl UseSummarization {
    /// Creates the capability with these limits. By default, the agent's own model writes
    /// summaries, and tokens are estimated.
    pub fn new(policy: SummarizationPolicy) -> Self {
        Self {
            policy,
            summarizer: Arc::new(ModelSummarizer::default()),
            counter: Arc::new(ApproximateCounter),
        }
    }

    /// Uses one model for summaries, regardless of the agent's own model.
    pub fn with_model(self, model: impl ChatModel + 'static) -> Self {
        self.with_summarizer(ModelSummarizer::with_model(model))
    }

    /// Sets the summarizer.
    pub fn with_summarizer(mut self, summarizer: impl Summarizer + 'static) -> Self {
        self.summarizer = Arc::new(summarizer);
        self
    }

    /// Sets the token counter.
    pub fn with_token_counter(mut self, counter: impl TokenCounter + 'static) -> Self {
        self.counter = Arc::new(counter);
        self
    }
}

/// Comes after the stage before it.
const SUMMARIZE: Priority = Priority(Priority::FINISH.0 - 10);

impl Capability for UseSummarization {
    fn name(&self) -> Cow<'static, str> {
        "use_summarization".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let work = Arc::new(Work {
            policy: self.policy.clone(),
            summarizer: Arc::clone(&self.summarizer),
            counter: Arc::clone(&self.counter),
            books: Books::default(),
        });
        agent.hooks.add_at(Priority::FINISH, MoveMessagesToBuffer(Arc::clone(&work)));
        agent.hooks.add_at(SUMMARIZE, SummarizeBuffer(work));
        Ok(())
    }
}

impl fmt::Debug for UseSummarization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UseSummarization").field("policy", &self.policy).finish_non_exhaustive()
    }
}
