//! Conversations that stay short: older messages wait in a buffer, and when that is full they are replaced
//! by a summary.
//!
//! After each step, what does not fit into the conversation's limit is moved, whole exchanges at a time,
//! to the end of the buffer. The model reads summary, buffer and conversation in this order, so that it
//! reads the same as before. A buffer that exceeds its own limit is summarised together with the summary
//! there is: only then the beginning of the request changes.
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
