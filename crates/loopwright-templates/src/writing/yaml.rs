//! Readable YAML output.

use std::fmt::Write as _;

use serde_json::Value;

/// Words that mean something else without quotes, here or to other readers.
const WORDS: [&str; 12] =
    ["false", "inf", "n", "nan", "no", "null", "off", "on", "true", "y", "yes", "infinity"];

pub(super) fn write(fields: &[(&'static str, Value)]) -> String {
    let mut text = String::new();
    for (key, value) in fields {
        entry(&mut text, key, value, 0);
    }
    text
}

fn entry(text: &mut String, key: &str, value: &Value, depth: usize) {
    indent(text, depth);
    text.push_str(&scalar(key));
    text.push(':');
    below(text, value, depth);
}

/// Writes what follows a key and its colon, or the dash of a list.
fn below(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            for (key, value) in map {
                entry(text, key, value, depth + 1);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            text.push('\n');
            for value in list {
                indent(text, depth + 1);
                text.push('-');
                below(text, value, depth + 1);
            }
        }
        Value::String(lines) if is_block(lines) => {
            text.push_str(if lines.ends_with('\n') { " |\n" } else { " |-\n" });
            for line in lines.lines() {
                if !line.is_empty() {
                    indent(text, depth + 1);
                }
                text.push_str(line);
                text.push('\n');
            }
        }
        Value::String(value) => line(text, &scalar(value)),
        // Empty lists and maps, numbers, switches and null are written as JSON is.
        value => line(text, &value.to_string()),
    }
}

fn line(text: &mut String, value: &str) {
    text.push(' ');
    text.push_str(value);
    text.push('\n');
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

/// Returns `true` if a text can be written line by line, as it is.
fn is_block(text: &str) -> bool {
    let is_plain =
        |line: &str| line.is_empty() || (!line.trim().is_empty() && !line.starts_with('\t'));
    text.contains('\n')
        && !text.starts_with(['\n', ' '])
        && !text.ends_with("\n\n")
        && !text.contains(|it: char| it != '\n' && it != '\t' && is_special(it))
        && text.lines().all(is_plain)
}

/// Writes a text on one line, between quotes if it needs them.
fn scalar(text: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || " _./@-".contains(it);
    let is_word = text.starts_with(char::is_alphabetic)
        && !text.ends_with(' ')
        && text.chars().all(is_plain)
        && !WORDS.contains(&text.to_lowercase().as_str());
    if is_word { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            it if is_special(it) => {
                // Writing into a text does not fail.
                let _ = write!(quoted, "\\U{:08x}", u32::from(it));
            }
            it => quoted.push(it),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns `true` if a character cannot stand in YAML as it is, or not be seen there.
fn is_special(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}
