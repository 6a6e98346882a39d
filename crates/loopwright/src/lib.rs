//! An agent runtime: a loop over immutable state, composed from capabilities.

pub use loopwright_agent as agent;
pub use loopwright_core as core;
pub use loopwright_core::messages;
pub use loopwright_models as models;

#[doc(hidden)]
pub use loopwright_core::__private;
