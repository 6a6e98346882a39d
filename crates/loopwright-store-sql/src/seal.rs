//! The checksum of a session's row.
//!
//! It covers the columns that writes change, but not the lease, which is renewed frequently and has
//! no value after its end. A row without a checksum is of an earlier version, and gets one when it
//! is next written.

use loopwright_sessions::stored::checksum;

use crate::{
    database::Transaction,
    error::Failure,
    row::{Cell, Row, Value},
};

/// The columns that a checksum covers.
pub(crate) const SEALED: &str = "id, format, status, version, branch, length, parent, call, workdir, \
    agent_name, agent_label, title, created_at, updated_at, last, missing";

/// The number of these columns.
pub(crate) const WIDTH: usize = 16;

/// The finding about a row that does not match its checksum.
const ALTERED: &str = "the session's metadata was altered";

/// The maximum number of rows in a statement.
const AT_ONCE: usize = 250;

/// A column of [`SEALED`] that a write changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    Status = 2,
    Version = 3,
    Length = 5,
    Parent = 6,
    Workdir = 8,
    Title = 11,
    UpdatedAt = 13,
    Last = 14,
    Missing = 15,
}

/// The columns of a row that its checksum covers.
#[derive(Clone, Debug)]
pub(crate) struct Sealed(Vec<Cell>);

impl Sealed {
    /// Creates the columns from the values of the first ones. The others are `NULL`.
    pub(crate) fn of(first: &[Value<'_>]) -> Self {
        let mut cells: Vec<_> = first.iter().map(Cell::from).collect();
        cells.resize(WIDTH, Cell::Null);
        Self(cells)
    }

    /// Splits the columns off a row, starting at a position.
    pub(crate) fn split_off(row: &mut Row, at: usize) -> Self {
        Self(row.0.split_off(at.min(row.0.len())))
    }

    /// Returns the cells as a row, to be read separately.
    pub(crate) fn row(&self) -> Row {
        Row(self.0.clone())
    }

    /// Changes a column.
    pub(crate) fn set<'a>(&mut self, column: Column, value: impl Into<Value<'a>>) {
        if let Some(cell) = self.0.get_mut(column as usize) {
            *cell = Cell::from(&value.into());
        }
    }

    /// Returns the checksum.
    pub(crate) fn sum(&self) -> u32 {
        sum(self.0.iter())
    }

    /// Checks the columns against the stored checksum.
    pub(crate) fn check(&self, found: Option<i64>) -> Result<(), Failure> {
        check(self.0.iter(), found)
    }
}

/// Checks the columns of a row, in the order of [`SEALED`], against its checksum.
pub(crate) fn check<'a>(
    cells: impl Iterator<Item = &'a Cell>,
    found: Option<i64>,
) -> Result<(), Failure> {
    match found {
        Some(found) if found != i64::from(sum(cells)) => Err(Failure::Form(ALTERED.to_owned())),
        _ => Ok(()),
    }
}

fn sum<'a>(cells: impl Iterator<Item = &'a Cell>) -> u32 {
    let mut bytes = Vec::new();
    for cell in cells {
        let mut put = |kind: u8, value: &[u8]| {
            bytes.push(kind);
            bytes.extend((value.len() as u64).to_le_bytes());
            bytes.extend(value);
        };
        match cell {
            Cell::Null => put(0, &[]),
            Cell::Int(value) => put(1, &value.to_le_bytes()),
            // PostgreSQL cannot store this character.
            Cell::Text(value) => put(2, value.replace('\0', "\u{fffd}").as_bytes()),
            Cell::Bytes(value) => put(3, value),
        }
    }
    checksum(&bytes)
}

/// Updates the checksums of rows.
pub(crate) async fn seal(transaction: &mut dyn Transaction, keys: &[i64]) -> Result<(), Failure> {
    for keys in keys.chunks(AT_ONCE) {
        let places = (1..=keys.len()).map(|it| format!("${it}")).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT key, {SEALED} FROM sessions WHERE key IN ({places})");
        let values: Vec<_> = keys.iter().map(|key| Value::from(*key)).collect();
        let mut sums = Vec::new();
        for mut row in transaction.rows(&sql, &values).await? {
            let sealed = Sealed::split_off(&mut row, 1);
            sums.extend([Value::from(row.int(0)?), Value::from(sealed.sum())]);
        }
        if sums.is_empty() {
            continue;
        }
        let pairs = (1..=sums.len()).step_by(2).map(|it| format!("(${it}, ${})", it + 1));
        let sql = format!(
            "WITH found (key, sum) AS (VALUES {})
            UPDATE sessions SET sum = found.sum FROM found WHERE sessions.key = found.key",
            pairs.collect::<Vec<_>>().join(", ")
        );
        transaction.run_later(&sql, &sums).await?;
    }
    Ok(())
}
