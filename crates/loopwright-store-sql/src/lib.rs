//! Sessions in a database: SQLite for one machine, PostgreSQL for many.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # async fn example(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! use loopwright_sessions::{SessionQuery, SessionStore as _};
//!
//! let store = loopwright_store_sql::SqliteStore::open(folder.join("sessions.db")).await?;
//! let latest = store.list(&SessionQuery::first(50)).await?;
//! println!("{} sessions", latest.len());
//! # Ok(())
//! # }
//! ```
//!
//! Both databases have the same tables, which `docs/storage.md` describes. Each checkpoint is one
//! transaction, and acknowledged writes are on the disk. All calls must run inside a tokio runtime.

mod database;
mod error;
mod schema;
mod seal;
mod row;
mod store;
mod head;
mod listing;
mod appending;
mod batches;
mod loading;
mod decoding;
mod writing;
mod leasing;
mod ledger;
mod notes;
mod maintenance;
mod claiming;
mod jobs;
mod schedules;
mod queue;
mod quiet;
mod open;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "postgres")]
pub use crate::postgres::{Postgres, PostgresStore};
#[cfg(feature = "sqlite")]
pub use crate::sqlite::{Sqlite, SqliteStore};
pub use crate::{error::SqlError, open::open, store::SqlStore};
