//! Recording of model calls to a file, and replay from such a file.
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
//! A recording is a file of JSON lines that only its owner can read. It omits headers and
//! provider-specific fields whose names suggest secrets. It contains the messages, so it needs the
//! same protection as the conversation itself.

mod identity;
mod record;
mod replay;
mod capability;

pub use self::capability::{UseRecording, UseReplay};

#[cfg(test)]
mod tests;
