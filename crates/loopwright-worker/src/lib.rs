//! Workers: processes that run the queued jobs of sessions, on any machine.
//!
//! A [`Job`](loopwright_sessions::Job) contains only a session ID and a task: the session holds the
//! conversation and its agent's definition. So any process with the same agents can take any job,
//! and continue where another one was killed.
//!
//! ```
//! use std::sync::Arc;
//!
//! use loopwright_agent::LoopFactory;
//! use loopwright_sessions::{SessionStore, StoreError};
//! use loopwright_worker::Worker;
//! use tokio_util::sync::CancellationToken;
//!
//! /// Works until it is told to drain.
//! async fn work(
//!     store: Arc<dyn SessionStore>,
//!     agents: impl LoopFactory + 'static,
//!     drain: CancellationToken,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let tally = Worker::new(store, agents)?.run(&drain).await;
//!     println!("{} completed, {} need input", tally.completed, tally.needs_input);
//!     Ok(())
//! }
//! ```
//!
//! A job is delivered at least once and takes effect once. The session remembers the job whose
//! message it received, and durable outcomes are used again. A call that was interrupted and must
//! not happen twice makes the session wait for a decision. The job is then *parked*, and resumes
//! once every call is decided.
//!
//! A worker claims jobs from the queue of its store, or a workflow engine [delivers](JobDeliveries) them.

mod agents;
mod cron;
mod deliver;
mod deliveries;
mod event;
#[cfg(all(feature = "workspaces", target_os = "linux"))]
mod folders;
mod options;
mod parked;
mod place;
mod signal;
mod runner;
mod schedules;
mod upkeep;
mod verdict;
mod worker;

#[cfg(all(feature = "workspaces", target_os = "linux"))]
pub use crate::folders::{FolderError, SessionFolders};
pub use crate::{
    agents::AgentResolver,
    cron::{CronTimes, InvalidCron},
    deliveries::{JobDeliveries, JobDelivery},
    event::{JobCounts, WorkerEvent, WorkerListener},
    options::{Backoff, OnIdle, WorkerOptions},
    signal::JobSignal,
    worker::{NoQueue, Worker},
};
