//! What models were asked and what they answered, on file, and answers from such a file.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::recording::{UseRecording, UseReplay};
//! # use loopwright_testing::FakeModel;
//! # let folder = tempfile::tempdir().unwrap();
//! # let (model, file) = (FakeModel::default(), folder.path().join("run.jsonl"));
//!
//! let recorded = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model.clone()))
//!     .with(UseRecording::to_file(&file))
//!     .build()?;
//! let replayed = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseReplay::from_file(&file))
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```
//!
//! A recording is JSON, line by line, that only its owner may read. Headers and fields of the
//! provider's own whose names speak of secrets are not in it; what was said is, so that it deserves the
//! same care as the conversation itself.

mod identity;
mod record;
mod replay;
mod capability;

pub use self::capability::{UseRecording, UseReplay};

#[cfg(test)]
mod tests;
