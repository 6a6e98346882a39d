//! Markdown as a terminal shows it, while it is written.
//!
//! What has been printed is never drawn again: a line is printed when nothing that is still to come can change it. The
//! line under way is shown meanwhile, and taken away before anything else is printed.

mod blocks;
mod code;
mod language;
mod line;
mod style;
mod table;

use std::ops::Range;

use self::blocks::blocks;
pub(super) use self::line::Line;
use super::words::sanitize_terminal;

/// The widest line of prose that is easy to read.
const WIDEST: usize = 100;

/// How much may be open before not every piece of it is looked at as it comes.
const LARGE: usize = 1 << 14;

/// Takes the line away that is under way.
const ERASE: &str = "\r\u{1b}[K";

/// How much room lines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width {
    /// Of prose.
    prose: usize,
    /// Of code and tables.
    whole: usize,
}

/// Markdown under way.
#[derive(Debug)]
pub(super) struct Markdown {
    /// What the open block is set in.
    room: Width,
    /// What there is now.
    now: Width,
    preview: Preview,
    /// What is open: the last block, and what was not looked at.
    source: String,
    /// How much of it has been looked at.
    looked_at: usize,
    /// How many of its lines have been printed.
    printed: usize,
    /// Whether blocks stand before it.
    position: Position,
    /// The width of the line under way, while it is shown.
    previewed: Option<usize>,
}

/// Whether the line under way is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preview {
    /// It is, and taken away again.
    Shown,
    /// It is not: for what cannot take anything away.
    Hidden,
}

/// Where a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    First,
    Later,
}

/// A block as it is printed.
#[derive(Debug)]
struct Block {
    /// Where it stands in the source.
    source: Range<usize>,
    lines: Vec<Line>,
    /// How many of the lines stay what they are, whatever follows.
    firm: usize,
}

impl Width {
    /// Leaves the last column free, where some terminals break lines of themselves.
    pub(super) fn of(columns: usize) -> Self {
        let whole = columns.saturating_sub(1).max(20);
        Self { prose: whole.min(WIDEST), whole }
    }

    /// Returns the width of the widest line.
    pub(super) fn whole(self) -> usize {
        self.whole
    }
}

impl Markdown {
    pub(super) fn new(room: Width, preview: Preview) -> Self {
        Self {
            room,
            now: room,
            preview,
            source: String::new(),
            looked_at: 0,
            printed: 0,
            position: Position::First,
            previewed: None,
        }
    }

    /// Has what begins from now on set in this room. The open block continues as it started, but no line under way is
    /// shown that is too wide: it could not be taken away.
    pub(super) fn resize(&mut self, room: Width) {
        self.now = room;
        if self.printed == 0 {
            self.room = room;
        }
    }

    /// Takes a piece, and returns what is to be printed.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.source += &sanitize_terminal(text);
        let length = self.source.len();
        // A mark may be the first of several.
        if self.source.ends_with(blocks::MARKS) {
            return String::new();
        }
        if length > LARGE && length - self.looked_at < length / 64 {
            return String::new();
        }
        let mut blocks = blocks(&self.source, self.room);
        // After a free line nothing joins what stands before it.
        if self.source.ends_with("\n\n")
            && let Some(last) = blocks.last_mut()
        {
            last.firm = last.lines.len();
        }
        let mut printed = self.erase();
        let last = blocks.last().and_then(|it| it.lines[it.firm..].last());
        let last = last.filter(|it| it.width() <= self.now.whole);
        let last = last.map(|it| (it.to_string(), it.width()));
        if self.may_join(&blocks) {
            blocks.pop();
        }
        let Some(open) = blocks.pop() else { return printed };
        for block in blocks {
            self.close(&block.lines, &mut printed);
        }
        self.print(&open.lines[..open.firm], &mut printed);
        // The indentation of code is not part of its block.
        self.source.drain(..line_start(&self.source, open.source.start));
        self.looked_at = self.source.len();
        if self.preview == Preview::Shown
            && let Some((last, width)) = last
        {
            printed += &last;
            self.previewed = Some(width);
        }
        printed
    }

    /// Returns `true` if the last block may yet become a part of the one before: its first line is not whole, or the
    /// rule that makes a table of it, and there is no free line between them, or it is a number that may be that of
    /// an item.
    fn may_join(&self, blocks: &[Block]) -> bool {
        let [.., before, last] = blocks else { return false };
        let (between, line) = self.source.split_at(line_start(&self.source, last.source.start));
        if let Some((_, rule)) = line.split_once('\n') {
            let may_grow = !rule.is_empty() && rule.bytes().all(|it| b"|-: ".contains(&it));
            return may_grow && !between.ends_with("\n\n") && before.firm < before.lines.len();
        }
        let is_number =
            line.trim_end_matches(['.', ')']).trim().bytes().all(|it| it.is_ascii_digit());
        is_number || (!between.ends_with("\n\n") && before.firm < before.lines.len())
    }

    /// Returns what is left to be printed. What follows is another text.
    pub(super) fn finish(&mut self) -> String {
        let mut printed = self.erase();
        for block in blocks(&std::mem::take(&mut self.source), self.room) {
            self.close(&block.lines, &mut printed);
        }
        self.position = Position::First;
        self.looked_at = 0;
        printed
    }

    fn erase(&mut self) -> String {
        if self.previewed.take().is_some() { ERASE.to_owned() } else { String::new() }
    }

    /// Returns the column of the cursor; `None` if the line under way is never shown, and nothing can be taken away.
    pub(super) fn column(&self) -> Option<usize> {
        (self.preview == Preview::Shown).then(|| self.previewed.unwrap_or_default())
    }

    /// Prints what is left of a block that has ended.
    fn close(&mut self, lines: &[Line], printed: &mut String) {
        self.print(lines, printed);
        self.printed = 0;
        self.room = self.now;
        self.position = Position::Later;
    }

    /// Prints those lines of the open block that have not been printed, with a free line before the block.
    fn print(&mut self, lines: &[Line], printed: &mut String) {
        if lines.len() <= self.printed {
            return;
        }
        if self.printed == 0 && self.position == Position::Later {
            printed.push('\n');
        }
        for line in &lines[self.printed..] {
            *printed += &line.to_string();
            printed.push('\n');
        }
        self.printed = lines.len();
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

#[cfg(test)]
mod tests;
