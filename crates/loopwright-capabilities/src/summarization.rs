//! Summarization: older messages move to a buffer, and when the buffer is full, a summary replaces
//! them.
//!
//! After each step, the oldest exchanges beyond the conversation's limit move to the end of the
//! buffer. The model reads summary, buffer and conversation in this order, so moving turns does not
//! change the request. If the buffer exceeds its own limit, it is summarized together with the
//! previous summary. Only then does the beginning of the request change.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::summarization::{SummarizationPolicy, UseSummarization};
//! use loopwright_testing::FakeModel;
//!
//! let policy = SummarizationPolicy { max_message_tokens: 8192, ..SummarizationPolicy::default() };
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(FakeModel::echo()))
//!     .with(UseSummarization::new(policy))
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod backoff;
mod capability;
mod contained;
mod counter;
mod event;
mod hook;
mod ledger;
mod policy;
mod prompt;
mod summarizer;
mod verbatim;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use self::{
    backoff::Backoff,
    ledger::{Books, Ledger},
    prompt::{summary_of, summary_turn},
    summarizer::{Answer, ask, first_of},
    verbatim::{last_model_turn, stays},
};

pub use self::{
    capability::UseSummarization,
    counter::{ApproximateCounter, LazyCounter, TokenCounter, part_tokens, turn_tokens},
    event::{MessageBufferSummarized, MessagesMovedToBuffer, SummarizationFailed, TranscriptSize},
    policy::SummarizationPolicy,
    summarizer::{ModelSummarizer, Summarizer, SummaryInput},
};
