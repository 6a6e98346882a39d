//! Lines of styled text, and breaking them between words.

use std::fmt;

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::PLAIN;

/// Text in one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::render) struct Span {
    pub(in crate::render) text: String,
    pub(in crate::render) style: Style,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::render) struct Line(pub(in crate::render) Vec<Span>);

/// What runs over lines: words, and breaks that the author wants.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(Span, Stability),
    Break,
}

/// Whether what follows can make something else of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stability {
    /// It stays as it is.
    Final,
    /// It has a mark that may find its counterpart.
    Tentative,
}

/// Lines that a flow was broken into.
#[derive(Debug, Default)]
pub(super) struct Broken {
    pub(super) lines: Vec<Line>,
    /// The first line that may become another one.
    pub(super) loose: Option<usize>,
}

impl Span {
    pub(in crate::render) fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl Line {
    pub(in crate::render) fn of(text: impl Into<String>, style: Style) -> Self {
        Self(vec![Span::new(text, style)])
    }

    /// Counts columns.
    pub(in crate::render) fn width(&self) -> usize {
        self.0.iter().map(|span| span.text.width()).sum()
    }

    /// Adds a text; what has the same style becomes one.
    pub(in crate::render) fn push(&mut self, text: &str, style: Style) {
        match self.0.last_mut() {
            Some(last) if last.style == style => last.text += text,
            _ => self.0.push(Span::new(text, style)),
        }
    }

    /// Adds spaces up to a column.
    pub(super) fn pad(&mut self, columns: usize) {
        let missing = columns.saturating_sub(self.width());
        if missing > 0 {
            self.push(&" ".repeat(missing), PLAIN);
        }
    }

    /// Breaks a line where the room ends, wherever that is; what follows is indented.
    pub(in crate::render) fn broken(self, room: usize, indent: usize) -> Vec<Self> {
        if self.width() <= room {
            return vec![self];
        }
        let (mut lines, mut line, mut width) = (Vec::new(), Self::default(), 0);
        for span in self.0 {
            for c in span.text.chars() {
                let wide = c.width().unwrap_or(0);
                if width + wide > room {
                    lines.push(std::mem::take(&mut line));
                    line.push(&" ".repeat(indent), PLAIN);
                    width = indent;
                }
                line.push(c.encode_utf8(&mut [0; 4]), span.style);
                width += wide;
            }
        }
        lines.push(line);
        lines
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Span { text, style } in &self.0 {
            write!(f, "{style}{text}{style:#}")?;
        }
        Ok(())
    }
}

/// A word, which may be in several styles.
#[derive(Debug)]
struct Word {
    line: Line,
    hold: Stability,
    /// The style of the space before it.
    space: Style,
}

impl Flow {
    pub(super) fn push(&mut self, text: &str, style: Style, hold: Stability) {
        self.pieces.push(Piece::Text(Span::new(text, style), hold));
    }

    pub(super) fn end_line(&mut self) {
        self.pieces.push(Piece::Break);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the text of the pieces from one on.
    pub(super) fn text_from(&self, piece: usize) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text(span, _) => span.text.clone(),
            Piece::Break => "\n".to_owned(),
        };
        self.pieces.iter().skip(piece).map(text).collect()
    }

    /// Counts the columns of the longest line, if nothing is broken.
    pub(super) fn width(&self) -> usize {
        let broken = self.broken(usize::MAX);
        broken.lines.iter().map(Line::width).max().unwrap_or(0)
    }

    /// Breaks it into lines of at most this number of columns. A longer word is cut.
    pub(super) fn broken(&self, room: usize) -> Broken {
        let mut broken = Broken::default();
        let mut line = Line::default();
        let mut width: usize = 0;
        for paragraph in self.words() {
            for word in paragraph {
                let wide = word.line.width();
                if width > 0 && width + 1 + wide > room {
                    broken.lines.push(std::mem::take(&mut line));
                    width = 0;
                }
                if width > 0 {
                    line.push(" ", word.space);
                    width += 1;
                }
                if word.hold == Stability::Tentative {
                    broken.loose.get_or_insert(broken.lines.len());
                }
                let mut parts = word.line.broken(room, 0);
                let last = parts.pop().unwrap_or_default();
                broken.lines.append(&mut parts);
                width += last.width();
                for Span { text, style } in last.0 {
                    line.push(&text, style);
                }
            }
            broken.lines.push(std::mem::take(&mut line));
            width = 0;
        }
        broken
    }

    /// Returns the words of each line that the author wants.
    fn words(&self) -> Vec<Vec<Word>> {
        let mut lines = vec![Vec::new()];
        let mut word: Option<Word> = None;
        for piece in &self.pieces {
            let line = lines.last_mut();
            match (piece, line) {
                (Piece::Text(span, hold), Some(line)) => {
                    for (at, part) in span.text.split([' ', '\n', '\t']).enumerate() {
                        if at > 0 {
                            line.extend(word.take());
                        }
                        if part.is_empty() {
                            continue;
                        }
                        let space = if at > 0 { span.style } else { PLAIN };
                        let word = word.get_or_insert_with(|| Word {
                            line: Line::default(),
                            hold: Stability::Final,
                            space,
                        });
                        word.line.push(part, span.style);
                        if *hold == Stability::Tentative {
                            word.hold = Stability::Tentative;
                        }
                    }
                }
                (_, line) => {
                    if let Some(line) = line {
                        line.extend(word.take());
                    }
                    lines.push(Vec::new());
                }
            }
        }
        if let Some(line) = lines.last_mut() {
            line.extend(word);
        }
        lines
    }
}
