//! Snapshots of folders.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the lints spare tests, but not what they share")]

mod cuts;
mod left_out;
mod limits;
mod refused;
mod storages;
mod support;
mod trees;
