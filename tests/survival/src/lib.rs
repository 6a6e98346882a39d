//! Proofs over all session stores: workers that are killed, many writers at once, faults, and what a
//! checkpoint costs.
//!
//! A worker is a process of its own that runs a [`Task`](task::Task), most often a scripted agent in a
//! session. Whatever it does to the world, and whatever its store acknowledges, it writes to a
//! [`Ledger`](ledger::Ledger) outside, one line at a time. [`audit`] compares that with what is stored.

pub mod audit;
pub mod bank;
pub mod clock;
pub mod fleet;
pub mod ledger;
pub mod numbers;
pub mod open;
pub mod payer;
pub mod postgres;
pub mod saboteur;
pub mod script;
pub mod task;
pub mod watched;
pub mod worker;

/// An error of any kind: what is here reports, and decides nothing by it.
pub type Failure = loopwright_core::BoxError;
