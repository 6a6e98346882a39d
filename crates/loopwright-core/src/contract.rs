//! The extension points: what programs implement, and what they receive.

pub(crate) mod compile;
pub(crate) mod driver;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod hook;
pub(crate) mod instructions;
pub(crate) mod journal;
pub(crate) mod layer;
pub(crate) mod model;
pub(crate) mod profile;
pub(crate) mod tool;
