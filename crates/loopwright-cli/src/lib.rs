//! The parts of the program `loopwright`: what was typed, what is configured, and how it ends.
//!
//! `main.rs` joins them; each of them can be read and tested without the others, except that [`args`]
//! speaks in the value types of [`config`].

pub mod args;
pub mod completions;
pub mod config;
pub mod exit;
pub mod prompt;
