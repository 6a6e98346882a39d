//! Stores by their addresses.

use std::sync::Arc;

use loopwright_sessions::{FileStore, MemoryStore, SessionStore};

use crate::Failure;

/// Opens a store: `memory:`, `files:FOLDER`, `sqlite:FILE` or `postgres://…`.
///
/// # Errors
///
/// If there is no such kind of store, or it cannot be opened.
pub async fn open(url: &str) -> Result<Arc<dyn SessionStore>, Failure> {
    match url.split_once(':') {
        Some(("memory", _)) => Ok(Arc::new(MemoryStore::new())),
        Some(("files", folder)) => Ok(Arc::new(FileStore::open(folder)?)),
        _ => Ok(loopwright_store_sql::open(url).await?),
    }
}
