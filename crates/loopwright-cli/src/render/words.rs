//! Texts of others, made fit for a line of a terminal.

use std::fmt::Write as _;
use std::time::Duration;

pub(crate) use loopwright_broadcast::text::{sanitize_terminal, single_line, truncate};
use serde::Serialize;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The width that lines keep to.
pub(crate) const WIDTH: usize = 80;

/// Writes a value as a line of JSON in which no character can move what a terminal shows: those that could are
/// written as `\u` and their number.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(value)?;
    if !text.chars().any(steers) {
        return Ok(text);
    }
    let mut harmless = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if steers(c) {
            // All of them have four digits. They stand in strings only.
            let _infallible = write!(harmless, "\\u{:04x}", u32::from(c));
        } else {
            harmless.push(c);
        }
    }
    Ok(harmless)
}

/// Returns `true` if a character is one of the controls that JSON leaves as they are, or changes the direction or the
/// line of a text.
fn steers(c: char) -> bool {
    matches!(
        c,
        '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Returns `true` if a terminal takes a character for a command, or if it changes the direction or the line of a text.
/// Line breaks and tabs do not count.
pub(crate) fn steers_terminal(c: char) -> bool {
    steers(c) || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Returns a text of at most this width. An ellipsis stands for what is left out at its end.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let taken = c.width().unwrap_or_default();
        let fits = taken <= left;
        left = left.saturating_sub(taken);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    kept.trim_end().to_owned() + "…"
}

/// Returns the end of a text in one line of at most this width. An ellipsis stands for the rest.
pub(super) fn end_of(text: &str, width: usize) -> String {
    let text = single_line(text, usize::MAX);
    if text.width() <= width {
        return text;
    }
    let mut left = width.saturating_sub(1);
    let fits = |(_, c): &(usize, char)| {
        let taken = c.width().unwrap_or_default();
        let fits = taken <= left;
        left = left.saturating_sub(taken);
        fits
    };
    let start = text.char_indices().rev().take_while(fits).last().map_or(text.len(), |it| it.0);
    format!("…{}", &text[start..])
}

/// Breaks a text between words into at most this number of lines.
pub(crate) fn wrap(text: &str, width: usize, most: usize) -> Vec<String> {
    let text = sanitize_terminal(text);
    let mut lines: Vec<String> = Vec::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let is_last = lines.len() == most;
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            Some(last) if is_last => {
                let rest = words.by_ref().fold(word.to_owned(), |rest, word| rest + " " + word);
                *last = truncate(&format!("{last} {rest}"), width);
            }
            _ => lines.push(truncate(word, width)),
        }
    }
    lines
}

/// Says in a few characters what a tool was asked.
pub(crate) fn summary(arguments: &str, most: usize) -> String {
    const TELLING: [&str; 7] = ["command", "path", "file", "pattern", "query", "url", "question"];
    let value: Value = match serde_json::from_str(arguments) {
        Ok(value) => value,
        Err(_) => return single_line(arguments, most),
    };
    let telling = TELLING.iter().find_map(|name| value.get(name)?.as_str());
    match (telling, &value) {
        (Some(telling), _) => single_line(telling, most),
        (None, Value::Object(map)) if map.is_empty() => String::new(),
        _ => single_line(&value.to_string(), most),
    }
}

/// Says how long something took.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

/// Groups the digits of a number.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let group = |(index, digit)| match index {
        0 => vec![digit],
        index if (digits.len() - index).is_multiple_of(3) => vec![',', digit],
        _ => vec![digit],
    };
    digits.chars().enumerate().flat_map(group).collect()
}

/// Puts a noun behind a number.
pub(crate) fn count(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(count))
}

/// Returns a fence of backticks that a text cannot end.
pub(crate) fn fence(text: &str) -> String {
    let runs = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(runs.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_between_words() {
        assert_eq!(wrap("one two three four five", 9, 2), ["one two", "three fo…"]);
        assert_eq!(wrap("one two three", 9, 2), ["one two", "three"]);
        assert_eq!(wrap("", 9, 2), Vec::<String>::new());
    }

    #[test]
    fn a_line_of_json_cannot_steer_a_terminal_and_says_the_same() {
        let text = "ä \u{1b}[2J \u{9b}2J \u{7f} \u{202e}txt\u{2066} \u{2028}";
        let written = json(&text).unwrap();
        let expect = r#""ä \u001b[2J \u009b2J \u007f \u202etxt\u2066 \u2028""#;
        assert_eq!(written, expect);
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }

    #[test]
    fn a_summary_is_the_telling_argument() {
        assert_eq!(summary(r#"{"command":"ls -l","x":1}"#, 80), "ls -l");
        assert_eq!(summary(r#"{"offset":2,"path":"a.txt"}"#, 80), "a.txt");
        assert_eq!(summary(r#"{"a":1}"#, 80), r#"{"a":1}"#);
        assert_eq!(summary("{}", 80), "");
        assert_eq!(summary("not json", 5), "not…");
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!([number(0), number(999), number(1000)], ["0", "999", "1,000"]);
        assert_eq!(number(12_345_678), "12,345,678");
        assert_eq!([count(1, "step"), count(2, "step")], ["1 step", "2 steps"]);
        let shown = [7, 999, 1500, 59_990, 61_000].map(Duration::from_millis).map(duration);
        assert_eq!(shown, ["7 ms", "999 ms", "1.5 s", "60.0 s", "1 min 01 s"]);
    }
}
