//! Markdown into blocks of lines.

use std::ops::Range;

use anstyle::Style;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::code::Highlighter;
use super::line::{Broken, Flow, Line, Span, Stability};
use super::style::{BOLD, CODE, FAINT, ITALIC, LINK, PLAIN, STRUCK, TITLE, over};
use super::table::Table;
use super::{Block, Width};

/// Marks that may find a counterpart in what follows.
pub(super) const MARKS: &[char] = &['*', '_', '`', '[', '~', '<', '|', '&', '!'];

/// How far code stands from the margin.
const CODE_INDENT: &str = "  ";

/// Sets every block of a text.
pub(super) fn blocks(source: &str, room: Width) -> Vec<Block> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut setter = BlockBuilder::new(source, room);
    for (event, range) in Parser::new_ext(source, options).into_offset_iter() {
        setter.take(event, range);
    }
    setter.blocks
}

/// Sets lines as parts of the text come.
struct BlockBuilder<'a> {
    source: &'a str,
    room: Width,
    blocks: Vec<Block>,
    /// How many tags are open; a block has ended when there is none.
    depth: usize,
    lines: Vec<Line>,
    firm: usize,
    /// The free lines before the paragraph under way, which may become something else that has none.
    gap: usize,
    flow: Flow,
    styles: Vec<Style>,
    /// What begins each line: of quotes and of items.
    margins: Vec<Margin>,
    /// The numbers of the lists that are open; `None` for those without.
    lists: Vec<Option<u64>>,
    code: Option<(Highlighter, String)>,
    table: Option<Table>,
    /// Where links lead that are open, and where their texts begin.
    links: Vec<(String, usize)>,
}

/// What begins the lines of a quote or an item.
struct Margin {
    /// Of the first line, until it is there.
    first: Option<Span>,
    rest: Span,
}

impl<'a> BlockBuilder<'a> {
    fn new(source: &'a str, room: Width) -> Self {
        Self {
            source,
            room,
            blocks: Vec::new(),
            depth: 0,
            lines: Vec::new(),
            firm: 0,
            gap: 0,
            flow: Flow::default(),
            styles: Vec::new(),
            margins: Vec::new(),
            lists: Vec::new(),
            code: None,
            table: None,
            links: Vec::new(),
        }
    }

    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => {
                self.depth += 1;
                self.start(tag);
            }
            Event::End(tag) => {
                self.depth -= 1;
                self.end(tag, range.end);
            }
            Event::Text(text) | Event::Html(text) => self.text(&text),
            Event::Code(text) => self.push(&text, CODE, Stability::Final),
            Event::InlineHtml(text) => self.push(&text, PLAIN, Stability::Final),
            Event::SoftBreak => self.push(" ", PLAIN, Stability::Final),
            Event::HardBreak => self.flow.end_line(),
            Event::Rule => {
                let rule = "─".repeat(self.room.prose.min(40));
                self.set(vec![Line::of(rule, FAINT)], 0);
            }
            Event::TaskListMarker(is_done) => {
                self.push(if is_done { "☑ " } else { "☐ " }, PLAIN, Stability::Final);
            }
            _ => {}
        }
        if self.depth == 0 {
            let (lines, firm) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.firm));
            self.blocks.push(Block { source: range, lines, firm });
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph if self.has_company() => {
                self.set(vec![Line::default()], 1);
                self.gap = 1;
            }
            Tag::Heading { level: HeadingLevel::H1, .. } => self.styles.push(TITLE),
            Tag::Heading { .. } | Tag::Strong | Tag::TableHead => {
                if matches!(tag, Tag::TableHead)
                    && let Some(table) = &mut self.table
                {
                    table.rows.push(Vec::new());
                }
                self.styles.push(BOLD);
            }
            Tag::BlockQuote(_) => {
                self.end_flow();
                let bar = Span::new("│ ", FAINT);
                self.margins.push(Margin { first: Some(bar.clone()), rest: bar });
            }
            Tag::List(first) => {
                self.end_flow();
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::CodeBlock(kind) => {
                self.end_flow();
                let info = match &kind {
                    CodeBlockKind::Fenced(info) => info,
                    CodeBlockKind::Indented => "",
                };
                self.code = Some((Highlighter::new(info), String::new()));
            }
            Tag::HtmlBlock => self.code = Some((Highlighter::new("html"), String::new())),
            Tag::Table(alignments) => {
                self.table = Some(Table { alignments, rows: Vec::new() });
            }
            Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::Emphasis => self.styles.push(ITALIC),
            Tag::Strikethrough => self.styles.push(STRUCK),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.flow.len()));
                self.styles.push(LINK);
            }
            _ => {}
        }
    }

    fn start_item(&mut self) {
        self.end_flow();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number += 1;
                marker
            }
            _ => "• ".to_owned(),
        };
        let rest = Span::new(" ".repeat(marker.chars().count()), PLAIN);
        self.margins.push(Margin { first: Some(Span::new(marker, BOLD)), rest });
    }

    fn end(&mut self, tag: TagEnd, at: usize) {
        match tag {
            TagEnd::Paragraph => self.end_flow(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_flow();
                let is_whole = self.source[..at].ends_with('\n');
                self.firm = if is_whole { self.lines.len() } else { 0 };
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.end_flow();
                let is_empty = self.margins.last().is_some_and(|it| it.first.is_some());
                // What follows may be in it.
                let is_over = !self.source[at..].trim().is_empty();
                if is_empty && is_over {
                    self.set(vec![Line::default()], 0);
                }
                self.margins.pop();
            }
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::CodeBlock | TagEnd::HtmlBlock => self.end_code(at),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.flow);
                if let Some(row) = self.table.as_mut().and_then(|it| it.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines = table.lines(self.space(self.room.whole));
                    self.set(lines, 0);
                }
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::TableHead => {
                self.styles.pop();
            }
            _ => {}
        }
    }

    /// Names the address after the text, unless the text is the address.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((url, from)) = self.links.pop() else { return };
        let text = self.flow.text_from(from);
        if !url.is_empty() && url != text && url.strip_prefix("mailto:") != Some(&text) {
            self.push(" ", PLAIN, Stability::Final);
            self.push(&format!("({url})"), FAINT, Stability::Final);
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((_, code)) = &mut self.code {
            *code += text;
            return;
        }
        let hold = if text.contains(MARKS) { Stability::Tentative } else { Stability::Final };
        self.push(text, PLAIN, hold);
    }

    fn push(&mut self, text: &str, style: Style, hold: Stability) {
        let style = self.styles.iter().rev().fold(style, |style, lower| over(style, *lower));
        self.flow.push(text, style, hold);
    }

    /// Returns `true` if something stands before a paragraph in its quote. Items have no free lines: whether the
    /// author wants them is known when the whole list is.
    fn has_company(&self) -> bool {
        self.lists.is_empty() && !self.margins.is_empty() && !self.lines.is_empty()
    }

    fn end_flow(&mut self) {
        if self.flow.is_empty() {
            return;
        }
        let flow = std::mem::take(&mut self.flow);
        let Broken { lines, loose } = flow.broken(self.space(self.room.prose));
        // What follows may continue with the last line; and a word that gets shorter joins the line before.
        let last = lines.len().saturating_sub(1);
        let firm = loose.map_or(last, |loose| loose.saturating_sub(1).min(last));
        self.set(lines, firm);
    }

    fn end_code(&mut self, at: usize) {
        let Some((mut colourist, code)) = self.code.take() else { return };
        let room = self.space(self.room.whole);
        let (mut lines, mut firm) = (Vec::new(), 0);
        for text in code.lines() {
            firm = lines.len();
            let mut line = Line::of(CODE_INDENT, PLAIN);
            line.0.extend(colourist.line(&text.replace('\t', "    ")).0);
            lines.extend(line.broken(room, 2 * CODE_INDENT.len()));
        }
        // What stands behind the last line end is not whole yet.
        let is_whole = self.source[..at].ends_with('\n') || at < self.source.len();
        let firm = if is_whole { lines.len() } else { firm };
        self.set(lines, firm);
    }

    /// Counts the columns that margins leave.
    fn space(&self, room: usize) -> usize {
        let taken: usize = self.margins.iter().map(|it| it.rest.text.chars().count()).sum();
        room.saturating_sub(taken).max(10)
    }

    /// Adds lines behind their margins; this number of them is final.
    fn set(&mut self, lines: Vec<Line>, firm: usize) {
        let gap = std::mem::take(&mut self.gap);
        self.firm = self.lines.len() + firm - if firm == 0 { gap } else { 0 };
        for line in lines {
            let mut set = Line::default();
            for margin in &mut self.margins {
                let Span { text, style } =
                    margin.first.take().unwrap_or_else(|| margin.rest.clone());
                set.push(&text, style);
            }
            set.0.extend(line.0);
            self.lines.push(set);
        }
    }
}
