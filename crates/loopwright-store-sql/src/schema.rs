//! The tables, and the migration of older ones.

use crate::{database::Transaction, error::SqlError};

/// The version of the tables that this program writes.
pub(crate) const VERSION: i64 = 9;

/// The steps from an empty database to the current tables. Each one creates the version of its position.
pub(crate) type Steps = [&'static str; 9];

/// Migrates tables to the current version. Returns `true` if there was anything to do.
///
/// # Errors
///
/// Returns an error if the version is newer, or the database fails.
pub(crate) async fn upgrade(
    transaction: &mut dyn Transaction,
    steps: &Steps,
    found: i64,
) -> Result<bool, SqlError> {
    for (_, step) in (1..).zip(steps).filter(|(version, _)| *version > found) {
        transaction.script(step).await?;
    }
    Ok(found < VERSION)
}
