//! Text replacements.

use memchr::memmem;

/// One piece of text and what takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) occurrences: Occurrences,
}

/// How often a piece may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurrences {
    /// Once, no more and no less.
    One,
    /// At least once; all of them are replaced.
    All,
}

/// Applies edits one after the other, each to what the ones before made of the text, and counts what
/// was replaced. The reason why one does not fit is written for the model.
pub(super) fn apply(content: &[u8], edits: &[Edit<'_>]) -> Result<(Vec<u8>, usize), String> {
    let mut text = content.to_vec();
    let mut replaced = 0;
    for (number, edit) in edits.iter().enumerate() {
        let (new, count) = edit.apply(&text).map_err(|reason| match edits {
            [_] => reason,
            _ => format!("edit {} of {}: {reason}", number + 1, edits.len()),
        })?;
        text = new;
        replaced += count;
    }
    if text == content {
        return Err("taken together, the edits change nothing".to_owned());
    }
    Ok((text, replaced))
}

impl Edit<'_> {
    fn apply(&self, text: &[u8]) -> Result<(Vec<u8>, usize), String> {
        if self.old == self.new {
            return Err("old_string and new_string are identical".to_owned());
        }
        if self.old.is_empty() {
            return Err("old_string cannot be empty; create files with `write_file`".to_owned());
        }
        let places: Vec<usize> = memmem::find_iter(text, self.old).collect();
        if places.is_empty() {
            return self.with_crlf(text);
        }
        self.replace(text, &places, self.old, self.new)
    }

    /// Tries again with the line ends of a file that has both characters.
    fn with_crlf(&self, text: &[u8]) -> Result<(Vec<u8>, usize), String> {
        let crlf = |it: &str| it.replace("\r\n", "\n").replace('\n', "\r\n");
        let (old, new) = (crlf(self.old), crlf(self.new));
        let places: Vec<usize> = memmem::find_iter(text, &old).collect();
        if places.is_empty() || old == self.old {
            return Err(format!("old_string was not found{}", hint(text, self.old)));
        }
        self.replace(text, &places, &old, &new)
    }

    fn replace(
        &self,
        text: &[u8],
        places: &[usize],
        old: &str,
        new: &str,
    ) -> Result<(Vec<u8>, usize), String> {
        if places.len() > 1 && self.occurrences == Occurrences::One {
            let lines: Vec<String> =
                places.iter().take(5).map(|at| line_of(text, *at).to_string()).collect();
            let more = if places.len() > 5 { ", …" } else { "" };
            return Err(format!(
                "old_string was found {} times (lines {}{more}); add lines around it until it is \
                 unique, or pass replace_all=true",
                places.len(),
                lines.join(", ")
            ));
        }
        let mut result = Vec::with_capacity(text.len() + new.len());
        let mut end = 0;
        for at in places {
            result.extend_from_slice(&text[end..*at]);
            result.extend_from_slice(new.as_bytes());
            end = at + old.len();
        }
        result.extend_from_slice(&text[end..]);
        Ok((result, places.len()))
    }
}

/// Points to a line that differs from the first one in white space only.
fn hint(text: &[u8], old: &str) -> String {
    const READ: &str = "; read the file again and copy the text exactly, without line numbers";
    let Some(wanted) = old.lines().map(str::trim).find(|it| !it.is_empty()) else {
        return READ.to_owned();
    };
    let similar =
        text.split(|byte| *byte == b'\n').position(|it| it.trim_ascii() == wanted.as_bytes());
    match similar {
        Some(line) => format!(
            "; line {} is similar to a line of old_string, but the whitespace or the surrounding lines \
                differ{READ}",
            line + 1
        ),
        None => READ.to_owned(),
    }
}

fn line_of(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..at]).count() + 1
}

#[cfg(test)]
mod tests;
