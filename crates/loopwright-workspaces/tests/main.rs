//! Snapshots of folders.
#![cfg(target_os = "linux")]

mod cuts;
mod left_out;
mod limits;
mod refused;
mod storages;
mod support;
mod trees;
