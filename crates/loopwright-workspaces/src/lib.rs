//! Snapshots of working directories in object storage, from which another machine restores them.
//!
//! [`Snapshots::save`] stores a folder as a manifest and the blobs that it names. Both are addressed by their SHA-256
//! digests, so that only blobs that changed are sent. [`Snapshots::restore`] writes a snapshot to a new folder beside the
//! target, and replaces the target as a whole.
//!
//! The manifest is written after all its blobs, and no write changes an earlier snapshot. The caller decides which snapshot
//! is the current one: it records the [`SnapshotId`] where only one process can write at a time.
//!
//! | module | content |
//! |---|---|
//! | `snapshots` | the entry point, its options, and opening by URL |
//! | `save`, `scan`, `stamp` | saving: the entries of a folder, and files that need not be read again |
//! | `restore` | restoring |
//! | `manifest`, `name` | the list of entries, its checks, and names that are not text |
//! | `blobs` | blobs in the object store |
//! | `unused` | deletion of snapshots that are no longer needed |
//! | `limits`, `error` | limits, and errors |
//!
//! # Example
//!
//! ```
//! # #[cfg(target_os = "linux")]
//! # async fn example(storage: &std::path::Path, folder: &std::path::Path, other: &std::path::Path)
//! # -> Result<(), loopwright_workspaces::SnapshotError> {
//! use loopwright_workspaces::Snapshots;
//!
//! let snapshots = Snapshots::in_folder(storage)?;
//! let saved = snapshots.save(folder, None).await?;
//! let id = saved.snapshot.id();
//! snapshots.restore(&id, other).await?;
//! # Ok(())
//! # }
//! ```
#![cfg(target_os = "linux")]

mod blobs;
mod error;
mod limits;
mod manifest;
mod name;
mod restore;
mod save;
mod scan;
mod snapshots;
mod stamp;
mod unused;

pub use self::blobs::{BlobId, SnapshotId};
pub use self::error::SnapshotError;
pub use self::limits::SnapshotLimits;
pub use self::manifest::{Entry, EntryKind, Manifest, Modified};
pub use self::save::{Saved, Sent};
pub use self::scan::{LeftOut, LeftOutReason};
pub use self::snapshots::Snapshots;
pub use self::stamp::Snapshot;
pub use self::unused::Removed;
pub use object_store;
