//! Rules, held against calls.

#![expect(clippy::unwrap_used, reason = "the lints spare tests, but not what they share")]

mod fuzzing;
mod support;
mod table;
mod trees;
