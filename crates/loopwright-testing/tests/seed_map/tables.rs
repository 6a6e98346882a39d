//! The tables of a Markdown page.

/// A table of a page.
pub(super) struct Table {
    pub(super) line: usize,
    pub(super) columns: Vec<String>,
    /// Whether the line after the columns is what makes them a table.
    pub(super) is_ruled: bool,
    pub(super) rows: Vec<Row>,
}

/// A row of a table.
pub(super) struct Row {
    pub(super) line: usize,
    pub(super) cells: Vec<String>,
}

impl Table {
    /// Reads the lines of a block, from the one that begins with `|`.
    fn parse(block: &[(usize, &str)]) -> Option<Self> {
        let start = block.iter().position(|(_, line)| line.starts_with('|'))?;
        let mut rows = block[start..].iter().map(|&(line, text)| Row { line, cells: cells(text) });
        let Row { line, cells: columns } = rows.next()?;
        let is_ruled =
            rows.next().is_some_and(|rule| rule.is_rule() && rule.cells.len() == columns.len());
        Some(Self { line, columns, is_ruled, rows: rows.collect() })
    }

    pub(super) fn is(&self, columns: &[&str]) -> bool {
        self.columns == columns
    }
}

impl Row {
    fn is_rule(&self) -> bool {
        self.cells.iter().all(|cell| cell.contains('-') && cell.chars().all(|it| "-:".contains(it)))
    }
}

/// Finds the tables of a page: each from a line that begins with `|` to the next empty line.
pub(super) fn tables(markdown: &str) -> Vec<Table> {
    let mut in_code = false;
    let lines: Vec<(usize, &str)> = (1..)
        .zip(markdown.lines().map(|line| {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            if in_code || is_fence { "" } else { line.trim() }
        }))
        .collect();
    lines.split(|(_, line)| line.is_empty()).filter_map(Table::parse).collect()
}

/// Splits a row at its bars, but not at `\|`.
fn cells(row: &str) -> Vec<String> {
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').unwrap_or(row);
    row.replace("\\|", "\0").split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}
