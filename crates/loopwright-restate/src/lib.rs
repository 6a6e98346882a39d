//! Jobs of sessions on [Restate](https://restate.dev), which delivers them to workers on many machines.
//!
//! A [`RestateScheduler`] is a [`Scheduler`](loopwright_sessions::Scheduler): it records each job in the queue of the session store, and
//! then sends its ID to Restate. A [`RestateWorker`] receives the IDs and runs the jobs. The session store stays the only
//! truth: Restate's journal contains IDs, claim numbers, delays and statuses, and never a word of a conversation.
//!
//! | in Restate | here |
//! |---|---|
//! | virtual object | a session: its ID is the key, so that one job of a session runs at a time |
//! | invocation of `turn` | one job, which is one turn of the session |
//! | idempotency key | the ID of the job, the time of its creation and the number of its claims |
//! | delayed invocation | a job that waits for its start, or for the deadline of a request |
//! | sleep | the delay before the next attempt |
//! | terminal error | a job that failed; its record has the reason |
//! | cancellation | the run is stopped, as with `Cancel` |
//!
//! A job whose session waits for a decision has ended its invocation: the session has the request, and the decision sends the
//! job again. So nothing in Restate grows with the number of sessions that wait, and a decision is valid only where it is recorded, in the
//! session.
//!
//! Restate retries an invocation as long as no worker accepts it, as a queue keeps its jobs. Attempts of a job are bounded by
//! its record: after [`max_attempts`](loopwright_worker::WorkerOptions::max_attempts) transient failures, or
//! [`max_crashes`](loopwright_worker::WorkerOptions::max_crashes) dead workers, the job fails and its invocation ends.
//!
//! Labels, priorities and turns of principals have no counterpart in Restate. Jobs that need a label or have a priority are
//! refused. For other machines, use another [service name](RestateService) and its own workers.

mod error;
mod ingress;
mod register;
mod scheduler;
mod service;
mod store;
mod turns;
mod worker;

pub use crate::{
    error::RestateError,
    register::register,
    scheduler::RestateScheduler,
    service::{InvalidRestateKey, InvalidRestateService, RestateKey, RestateService},
    store::RestateStore,
    worker::{RestateWorker, listen},
};
