//! Opening of a store by its URL.

use std::sync::Arc;

use loopwright_sessions::SessionStore;

use crate::error::SqlError;

#[cfg(test)]
mod tests;

/// Opens a store by its URL, and creates it if it does not exist: `sqlite:PATH`, or
/// `postgres://USER:PASSWORD@HOST/DATABASE`.
///
/// # Errors
///
/// Returns an error if the scheme of the URL is unknown, or the store cannot be opened.
pub async fn open(address: &str) -> Result<Arc<dyn SessionStore>, SqlError> {
    match address.split_once(':').map_or("", |(scheme, _)| scheme) {
        #[cfg(feature = "sqlite")]
        "sqlite" => {
            let path = address.strip_prefix("sqlite:").unwrap_or(address);
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path.starts_with(':') {
                return Err(SqlError::Address("the URL names no file"));
            }
            if path.contains('?') {
                return Err(SqlError::Address("the URL has options, which are not supported"));
            }
            Ok(Arc::new(crate::SqliteStore::open(path).await?))
        }
        #[cfg(not(feature = "sqlite"))]
        "sqlite" => Err(SqlError::NotBuilt { database: "SQLite", feature: "sqlite" }),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Arc::new(crate::PostgresStore::connect(address).await?)),
        #[cfg(not(feature = "postgres"))]
        "postgres" | "postgresql" => {
            Err(SqlError::NotBuilt { database: "PostgreSQL", feature: "postgres" })
        }
        _ => Err(SqlError::Address("the URL does not name a known kind of store")),
    }
}
