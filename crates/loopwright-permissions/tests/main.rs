//! Rules, held against calls.

#![expect(clippy::unwrap_used, reason = "the lints spare tests, but not what they share")]

mod allocations;
mod fuzzing;
mod linting;
mod needs;
mod policies;
mod settings;
mod suggestions;
mod support;
mod table;
mod trees;
