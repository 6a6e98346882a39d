//! The macro seen from outside. One binary: a module below is one side of it.

mod behaviour;
mod messages;
mod schema;
