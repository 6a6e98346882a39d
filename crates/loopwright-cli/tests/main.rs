//! The program as a shell sees it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the lints spare tests, but not what they share"
)]

mod demo;
mod program;
mod run;
mod server;
mod stopping;
mod world;
