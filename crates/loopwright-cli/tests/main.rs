//! The program as a shell sees it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the lints spare tests, but not what they share"
)]

mod agents;
mod background;
mod chat;
mod completions;
mod demo;
mod files;
mod models;
mod pages;
mod program;
mod run;
mod sandbox;
mod server;
mod sessions;
mod skills;
mod stopping;
mod worker;
mod world;
