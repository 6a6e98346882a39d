//! A scratchpad: values that the model stores by key, for later calls and turns.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::metadata::{MetadataPolicy, UseMetadataTools};
//! # use loopwright_testing::FakeModel;
//! # let model = FakeModel::default();
//!
//! let notes = UseMetadataTools::new(MetadataPolicy { max_keys: 20, ..Default::default() });
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(notes)
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod policy;
mod preview;
mod tool;
mod capability;

pub use self::{
    capability::UseMetadataTools,
    policy::{MetadataError, MetadataPolicy},
    tool::{ListMetadata, ReadMetadata, ReadMetadataArgs, StoreMetadata, StoreMetadataArgs},
};

#[cfg(test)]
mod tests;
