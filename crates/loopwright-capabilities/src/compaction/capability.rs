//! The capability for compaction.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::{ChatModel, Priority};

use crate::{
    compaction::{
        CompactionGate, CompactionPolicy, CompactionTrigger,
        compactor::Compactor,
        hook::{Compacting, When},
    },
    files::WorkspaceRoot,
    summarization::{ApproximateCounter, Books, ModelSummarizer, Summarizer, TokenCounter},
};

/// Compacts conversations; see the [module](crate::compaction).
#[derive(Clone)]
#[must_use]
pub struct UseCompaction {
    when: When,
    policy: CompactionPolicy,
    summarizer: Option<Arc<dyn Summarizer>>,
    root: Option<WorkspaceRoot>,
    counter: Arc<dyn TokenCounter>,
    gate: Option<Arc<dyn CompactionGate>>,
}

impl UseCompaction {
    /// Compacts before a step when the conversation has reached this number of tokens, as counted
    /// by the provider in the last step, or otherwise estimated.
    pub fn at_tokens(tokens: u64) -> Self {
        Self::when(When::Reached(tokens))
    }

    /// Compacts when four fifths of a model's context window, in tokens, are used.
    pub fn for_context_window(tokens: u64) -> Self {
        Self::at_tokens(tokens / 5 * 4)
    }

    /// Compacts when an execution starts, and ends it without a step, as if the user had stopped
    /// it. For an agent with no other purpose: start it without a new message.
    pub fn now() -> Self {
        Self::when(When::Now)
    }

    fn when(when: When) -> Self {
        Self {
            when,
            policy: CompactionPolicy::default(),
            summarizer: Some(Arc::new(ModelSummarizer::default())),
            root: None,
            counter: Arc::new(ApproximateCounter),
            gate: None,
        }
    }

    /// Sets the policy.
    pub fn with_policy(mut self, policy: CompactionPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Moves long tool outputs to files in a directory, in [`SPILL_DIR`](super::SPILL_DIR). If it
    /// is the directory of the agent's file tools, the agent can read them again. Without this
    /// setting, outputs stay until they are summarized.
    pub fn with_spill_dir(mut self, root: impl Into<WorkspaceRoot>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// Writes no summaries: only moves outputs to files.
    pub fn without_summary(mut self) -> Self {
        self.summarizer = None;
        self
    }

    /// Uses one model for summaries, regardless of the agent's own model.
    pub fn with_model(self, model: impl ChatModel + 'static) -> Self {
        self.with_summarizer(ModelSummarizer::with_model(model))
    }

    /// Sets the summarizer.
    pub fn with_summarizer(mut self, summarizer: impl Summarizer + 'static) -> Self {
        self.summarizer = Some(Arc::new(summarizer));
        self
    }

    /// Sets what decides, each time, whether the conversation stays as it is.
    pub fn with_gate(mut self, gate: Arc<dyn CompactionGate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Sets the token counter.
    pub fn with_token_counter(mut self, counter: impl TokenCounter + 'static) -> Self {
        self.counter = Arc::new(counter);
        self
    }
}

impl Capability for UseCompaction {
    fn name(&self) -> Cow<'static, str> {
        "use_compaction".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        if let Some(root) = &self.root {
            root.checked(self.name())?;
        }
        let compactor = Compactor {
            policy: self.when.fitted(self.policy),
            summarizer: self.summarizer.clone(),
            root: self.root.clone(),
            counter: Arc::clone(&self.counter),
            gate: self.gate.clone(),
            trigger: match self.when {
                When::Reached(_) => CompactionTrigger::Auto,
                When::Now => CompactionTrigger::Manual,
            },
        };
        let (when, books) = (self.when, Books::default());
        agent.hooks.add_at(Priority::FINISH, Compacting { when, compactor, books });
        Ok(())
    }
}

impl fmt::Debug for UseCompaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UseCompaction")
            .field("when", &self.when)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
