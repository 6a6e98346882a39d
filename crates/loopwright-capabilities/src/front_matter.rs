//! Text files that start with YAML: the format of skills and agent definitions.
//!
//! Such files come from many authors and programs, so the reader does not trust them: complete
//! values only, no aliases, limited depth and size, and no links that lead outside a directory.
//!
//! ```
//! use loopwright_capabilities::front_matter::{plain, read, split};
//!
//! let text = plain("---\r\nname: ada\r\n---\r\nYou count.\r\n");
//! let (front, body) = split(&text).unwrap();
//! assert_eq!((read(front)?.yaml.values["name"].as_str(), body), (Some("ada"), "You count.\n"));
//! # Ok::<_, loopwright_capabilities::front_matter::YamlError>(())
//! ```

mod file;
mod yaml;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use self::{
    file::{MAX_BYTES, TextError, is_foreign, read_file, read_within},
    yaml::{Lines, MAX_DEPTH, Repeated, Yaml, YamlError},
};

/// The line that front matter begins and ends with.
const FENCE: &str = "---";

/// What front matter says, and how it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontMatter {
    /// What it says.
    pub yaml: Yaml,
    /// Whether it could only be read with quotes around values that hold a colon.
    pub is_quoted: bool,
}

/// Returns a text without the mark that some editors put at its beginning, and with plain ends of
/// lines.
pub fn plain(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\r') { text.replace("\r\n", "\n").into() } else { text.into() }
}

/// Parts the front matter of a plain text from what follows it. Returns `None` if it does not begin
/// with a line `---`, or no such line ends it.
pub fn split(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != FENCE {
        return None;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// Reads front matter. If it is no YAML, it is read with quotes around the values at the left edge that
/// hold a colon, which people often forget, and around hints such as `[one] [two]`.
///
/// # Errors
///
/// Returns an error if it is no YAML then either; the error is that of the text as it is.
pub fn read(front: &str) -> Result<FrontMatter, YamlError> {
    let quoted_as = |only_hints| Yaml::read(&quoted(front, only_hints)).ok();
    let is_valid = |yaml| FrontMatter { yaml, is_quoted: false };
    Yaml::read(front).map(is_valid).or_else(|error| {
        let read = quoted_as(true).map(is_valid);
        let read = read.or_else(|| Some(FrontMatter { yaml: quoted_as(false)?, is_quoted: true }));
        read.ok_or(error)
    })
}

/// Puts quotes around hints, and around other values unless `only_hints` are wanted.
fn quoted(front: &str, only_hints: bool) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some(("argument-hint", value)) if value.trim_start().starts_with('[') => {
            format!("argument-hint: '{}'\n", value.trim().replace('\'', "''"))
        }
        Some((key, value))
            if !only_hints
                && value.contains(':')
                && !key.starts_with([' ', '-', '#'])
                && !value.trim_start().starts_with(['"', '\'', '[', '{', '|', '>']) =>
        {
            format!("{key}: '{}'\n", value.trim().replace('\'', "''"))
        }
        _ => format!("{line}\n"),
    };
    front.lines().map(line).collect()
}
