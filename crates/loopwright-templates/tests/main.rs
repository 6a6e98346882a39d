//! Files that define agents, and the agents.

#![expect(clippy::unwrap_used, reason = "the lints spare tests, but not what they share")]

mod capability;
mod corpus;
mod discovery;
mod instructions;
mod store;
