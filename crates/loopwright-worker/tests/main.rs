//! Workers over a store in a database.

#![expect(clippy::unwrap_used, reason = "the lints spare tests, but not what they share")]

mod deliveries;
mod event_log;
#[cfg(all(feature = "workspaces", target_os = "linux"))]
mod folders;
mod held;
mod kept;
mod schedules;
mod worker;
