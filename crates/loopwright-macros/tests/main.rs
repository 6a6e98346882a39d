//! The macro seen from outside. One binary: a module below is one side of it.

mod behaviour;
mod calls;
mod messages;
mod schema;
