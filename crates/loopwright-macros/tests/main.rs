//! The macro seen from outside. One binary: a module below is one side of it.

pub mod accepted;
mod behaviour;
mod calls;
mod messages;
mod schema;
