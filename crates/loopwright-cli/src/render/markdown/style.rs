//! The styles, of the colours that every terminal has and that are legible on light and on dark.

use anstyle::{AnsiColor, Style};

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const FAINT: Style = Style::new().dimmed();
pub(super) const TITLE: Style = Style::new().bold().underline();
pub(super) const ITALIC: Style = Style::new().italic();
pub(super) const STRUCK: Style = Style::new().strikethrough();
pub(super) const LINK: Style = Style::new().underline();
pub(super) const CODE: Style = AnsiColor::Cyan.on_default();
pub(super) const KEYWORD: Style = AnsiColor::Magenta.on_default();
pub(super) const LITERAL: Style = AnsiColor::Green.on_default();
pub(super) const NUMBER: Style = AnsiColor::Cyan.on_default();
pub(super) const ADDED: Style = AnsiColor::Green.on_default();
pub(super) const REMOVED: Style = AnsiColor::Red.on_default();

/// Lays one style over another: its colour counts, and the effects of both.
pub(super) fn over(upper: Style, lower: Style) -> Style {
    upper
        .fg_color(upper.get_fg_color().or(lower.get_fg_color()))
        .effects(upper.get_effects() | lower.get_effects())
}
