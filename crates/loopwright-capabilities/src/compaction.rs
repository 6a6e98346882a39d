//! Compaction of a conversation in one step: the newest exchanges stay, long tool outputs move to
//! files where they can be read again, and older turns are replaced by a summary.
//!
//! Compaction happens before a step when the conversation has reached a certain size, such as most
//! of the context window, or on demand. An event reports the saved tokens.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::{compaction::UseCompaction, files::UseFileTools};
//! use loopwright_testing::FakeModel;
//!
//! let directory = tempfile::tempdir()?;
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(FakeModel::echo()))
//!     .with(UseFileTools::in_dir(directory.path()))
//!     .with(UseCompaction::for_context_window(200_000).with_spill_dir(directory.path()))
//!     .build()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod capability;
mod compactor;
mod event;
mod gate;
mod hook;
mod known;
mod plan;
mod policy;
mod spill;
#[cfg(test)]
mod tests;

pub use self::{
    capability::UseCompaction,
    event::ConversationCompacted,
    gate::{CompactionGate, CompactionTrigger},
    policy::CompactionPolicy,
    spill::SPILL_DIR,
};
