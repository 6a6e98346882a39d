//! A conversation made short at once: the newest exchanges stay, long outputs of tools go to files where
//! they can be read again, and what is older is replaced by a summary.
//!
//! It happens before a step when the conversation has grown to a certain size, such as most of what the
//! model takes, or on demand. What it saved is told by an event.
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
mod hook;
mod known;
mod plan;
mod policy;
mod spill;
#[cfg(test)]
mod tests;

pub use self::{
    capability::UseCompaction, event::ConversationCompacted, policy::CompactionPolicy,
    spill::SPILL_DIR,
};
