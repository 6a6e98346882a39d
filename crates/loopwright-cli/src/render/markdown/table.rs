//! Tables, whose columns are made narrower where there is no room for them.

use pulldown_cmark::Alignment;

use super::line::{Flow, Line};
use super::style::{FAINT, PLAIN};

/// The narrowest column that can be read.
const NARROWEST: usize = 6;

/// What stands between two columns.
const BETWEEN: &str = " │ ";

/// A table under way.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) alignments: Vec<Alignment>,
    /// The first one is the head.
    pub(super) rows: Vec<Vec<Flow>>,
}

impl Table {
    /// Formats the table in this number of columns: side by side or, if that is unreadable, as a
    /// list.
    pub(super) fn lines(&self, room: usize) -> Vec<Line> {
        let count = self.alignments.len();
        let between = 3 * count.saturating_sub(1);
        if count * NARROWEST + between > room {
            return self.as_list(room);
        }
        let widths = self.widths(room - between);
        let mut lines = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            lines.extend(self.row(row, &widths));
            if at == 0 {
                let rules = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>();
                lines.push(Line::of(rules.join("─┼─"), FAINT));
            }
        }
        lines
    }

    /// Gives each column what it needs, or takes from the widest until there is room.
    fn widths(&self, room: usize) -> Vec<usize> {
        let of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(Flow::width).max().unwrap_or(0).max(1)
        };
        let mut widths: Vec<usize> = (0..self.alignments.len()).map(of).collect();
        while widths.iter().sum::<usize>() > room
            && let Some(widest) = widths.iter_mut().max()
            && *widest > NARROWEST
        {
            *widest -= 1;
        }
        widths
    }

    fn row(&self, row: &[Flow], widths: &[usize]) -> Vec<Line> {
        let cells: Vec<Vec<Line>> =
            row.iter().zip(widths).map(|(cell, width)| cell.broken(*width).lines).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let empty = Line::default();
        let line = |at: usize| {
            let mut line = Line::default();
            let mut column = 0;
            for (index, width) in widths.iter().enumerate() {
                if index > 0 {
                    line.pad(column);
                    line.push(BETWEEN, FAINT);
                    column += 3;
                }
                let cell = cells.get(index).and_then(|it| it.get(at)).unwrap_or(&empty);
                let free = width.saturating_sub(cell.width());
                let before = match self.alignments.get(index) {
                    Some(Alignment::Right) => free,
                    Some(Alignment::Center) => free / 2,
                    _ => 0,
                };
                line.pad(column + before);
                line.0.extend(cell.0.iter().cloned());
                column += width;
            }
            line
        };
        (0..height).map(line).collect()
    }

    /// Writes each cell under the name of its column.
    fn as_list(&self, room: usize) -> Vec<Line> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                lines.push(Line::default());
            }
            for (name, cell) in head.iter().zip(row) {
                lines.extend(name.broken(room).lines);
                for cell in cell.broken(room.saturating_sub(2)).lines {
                    let mut line = Line::of("  ", PLAIN);
                    line.0.extend(cell.0);
                    lines.push(line);
                }
            }
        }
        lines
    }
}
