//! The extension points: the traits that programs implement, and their arguments.

pub(crate) mod agent;
pub(crate) mod compile;
pub(crate) mod event;
pub(crate) mod event_bus;
pub(crate) mod handle;
pub(crate) mod hook;
pub(crate) mod host;
pub(crate) mod instructions;
pub(crate) mod journal;
pub(crate) mod layer;
pub(crate) mod model;
pub(crate) mod profile;
pub(crate) mod step_error;
pub(crate) mod tool;
