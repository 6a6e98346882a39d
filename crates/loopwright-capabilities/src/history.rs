//! A history of executions.
//!
//! ```
//! use std::sync::Arc;
//!
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::history::{MemoryHistory, UseExecutionHistory};
//! # use loopwright_testing::FakeModel;
//! # let model = FakeModel::default();
//!
//! let history = Arc::new(MemoryHistory::new());
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseExecutionHistory::with_store(history.clone()))
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod summary;
mod store;
mod file;
mod hook;
mod capability;

pub use self::{
    capability::UseExecutionHistory,
    file::FileHistory,
    hook::history_of,
    store::{HistoryStore, MemoryHistory},
    summary::ExecutionSummary,
};

#[cfg(test)]
mod tests;
