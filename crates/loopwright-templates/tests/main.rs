//! Files that define agents, and the agents.

mod capability;
mod corpus;
mod discovery;
mod instructions;
mod store;
