//! Parameters and results of statements.

use loopwright_core::Timestamp;

use crate::error::Failure;

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A number.
    Int(Option<i64>),
    /// A text.
    Text(Option<&'a str>),
    /// Bytes.
    Bytes(Option<&'a [u8]>),
}

/// The value of a column in a row.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// `NULL`.
    Null,
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// A row of a result.
#[derive(Debug)]
pub struct Row(pub(crate) Vec<Cell>);

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

/// Databases store signed numbers, so this limits larger values, which are as good as never.
impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        i64::try_from(value).unwrap_or(i64::MAX).into()
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        i64::from(value).into()
    }
}

impl From<usize> for Value<'_> {
    fn from(value: usize) -> Self {
        (value as u64).into()
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(value: Timestamp) -> Self {
        value.millis().into()
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(Some(value))
    }
}

impl<'a> From<&'a Cell> for Value<'a> {
    fn from(cell: &'a Cell) -> Self {
        match cell {
            Cell::Null => Self::Int(None),
            Cell::Int(value) => Self::Int(Some(*value)),
            Cell::Text(value) => Self::Text(Some(value)),
            Cell::Bytes(value) => Self::Bytes(Some(value)),
        }
    }
}

impl From<&Value<'_>> for Cell {
    fn from(value: &Value<'_>) -> Self {
        match *value {
            Value::Int(Some(value)) => Self::Int(value),
            Value::Text(Some(value)) => Self::Text(value.to_owned()),
            Value::Bytes(Some(value)) => Self::Bytes(value.to_vec()),
            Value::Int(None) | Value::Text(None) | Value::Bytes(None) => Self::Null,
        }
    }
}

/// Creates a list of parameters.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::row::Value::from($value)),*] };
}
pub(crate) use values;

impl Row {
    fn cell(&mut self, column: usize) -> Cell {
        self.0.get_mut(column).map_or(Cell::Null, |cell| std::mem::replace(cell, Cell::Null))
    }

    pub(crate) fn maybe_int(&mut self, column: usize) -> Result<Option<i64>, Failure> {
        match self.cell(column) {
            Cell::Null => Ok(None),
            Cell::Int(value) => Ok(Some(value)),
            other => Err(is_no("number", column, &other)),
        }
    }

    pub(crate) fn int(&mut self, column: usize) -> Result<i64, Failure> {
        self.maybe_int(column)?.ok_or_else(|| is_no("number", column, &Cell::Null))
    }

    /// Takes a number that must not be negative.
    pub(crate) fn number<T: TryFrom<i64>>(&mut self, column: usize) -> Result<T, Failure> {
        let value = self.int(column)?;
        T::try_from(value).map_err(|_| is_no("number within its bounds", column, &Cell::Int(value)))
    }

    pub(crate) fn moment(&mut self, column: usize) -> Result<Timestamp, Failure> {
        self.number(column).map(Timestamp::from_millis)
    }

    pub(crate) fn maybe_text(&mut self, column: usize) -> Result<Option<String>, Failure> {
        match self.cell(column) {
            Cell::Null => Ok(None),
            Cell::Text(value) => Ok(Some(value)),
            other => Err(is_no("text", column, &other)),
        }
    }

    pub(crate) fn text(&mut self, column: usize) -> Result<String, Failure> {
        self.maybe_text(column)?.ok_or_else(|| is_no("text", column, &Cell::Null))
    }

    pub(crate) fn maybe_bytes(&mut self, column: usize) -> Result<Option<Vec<u8>>, Failure> {
        match self.cell(column) {
            Cell::Null => Ok(None),
            Cell::Bytes(value) => Ok(Some(value)),
            other => Err(is_no("bytes", column, &other)),
        }
    }

    pub(crate) fn bytes(&mut self, column: usize) -> Result<Vec<u8>, Failure> {
        self.maybe_bytes(column)?.ok_or_else(|| is_no("bytes", column, &Cell::Null))
    }
}

fn is_no(kind: &str, column: usize, cell: &Cell) -> Failure {
    Failure::Form(format!("column {column} of a row contains {cell:?} instead of a {kind}"))
}
