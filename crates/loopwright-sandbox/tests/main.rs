//! Commands in their sandboxes, seen from the host.

#![expect(clippy::unwrap_used, reason = "the lints spare tests, but not what they share")]

mod caches;
mod confinement;
mod containers;
mod ending;
mod files;
mod fuzzing;
mod growth;
mod inner_repositories;
mod later_commands;
mod memory;
mod network;
mod planted;
mod planted_tools;
mod running;
mod selection;
mod survivors;
mod transactions;
mod transactions_killed;
mod transactions_random;
mod tree;
mod watches;
mod world;
