//! Cancellation of runs from outside.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::cancellation::{Cancellation, UseCooperativeCancellation};
//! # use loopwright_testing::FakeModel;
//! # let model = FakeModel::default();
//!
//! let stop = Cancellation::new();
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseCooperativeCancellation::new(stop.clone()))
//!     .build()?;
//! stop.cancel("the user closed the window");
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod source;
mod hook;
mod capability;

pub use self::{
    capability::UseCooperativeCancellation,
    source::{Cancellation, CancellationSource},
};

#[cfg(test)]
mod tests;
