//! Rows under each other.

use std::fmt::Write as _;

/// Writes rows under each other, columns two spaces apart.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..count).filter_map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Writes rows under each other, below the names of their columns.
pub(crate) fn table_with_head<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let head = head.map(str::to_owned).to_vec();
    table(&[head].into_iter().chain(rows).collect::<Vec<_>>())
}
