//! Paths of files that are dropped on a terminal, or pasted.

use std::path::PathBuf;

use crate::config::in_home;
use crate::file_url;

/// Returns the paths that a pasted text consists of; empty if it is anything else. Terminals quote or escape paths in their
/// own ways: as for a shell, as `file://` URLs, or not at all.
pub(super) fn paths(pasted: &str) -> Vec<PathBuf> {
    let pasted = pasted.trim();
    // A path with spaces may be neither quoted nor escaped.
    if let Some(path) = path(pasted).filter(|it| it.is_file()) {
        return vec![path];
    }
    let words = words(pasted).unwrap_or_default();
    words.iter().map(|it| path(it)).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// Returns the path that a word names from the root or the home directory.
fn path(word: &str) -> Option<PathBuf> {
    if let Some(path) = file_url::path(word) {
        return Some(path.into());
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let path = in_home(word, home.as_deref()).unwrap_or_else(|| PathBuf::from(word));
    Some(path).filter(|it| it.is_absolute())
}

/// Splits a text into words as a shell does. Returns `None` if a quote is not closed.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            space if space.is_ascii_whitespace() => words.extend(word.take()),
            '\\' => word.get_or_insert_default().push(characters.next()?),
            quote @ ('\'' | '"') => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        it if it == quote => break,
                        '\\' if quote == '"' => word.push(characters.next()?),
                        it => word.push(it),
                    }
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_write_paths_in_several_ways() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("it's a b.png");
        std::fs::write(&path, "").unwrap();
        let shown = path.to_str().unwrap();
        let escaped = shown.replace(' ', "\\ ").replace('\'', "\\'");
        let url = format!("file://{}", shown.replace(' ', "%20").replace('\'', "%27"));
        let quoted = format!("'{}'", shown.replace('\'', "'\\''"));
        for pasted in
            [shown, &escaped, &url, &quoted, &format!("\"{shown}\""), &format!("{url}\r\n")]
        {
            assert_eq!(paths(pasted), std::slice::from_ref(&path), "{pasted}");
        }
        assert_eq!(paths(&format!("{quoted} {url}\n/b")), [path.clone(), path, "/b".into()]);
    }

    #[test]
    fn a_text_is_no_path() {
        for text in ["", "see /a.png", "a.png", "it's /a", "https://example.com/a.png"] {
            assert_eq!(paths(text), Vec::<PathBuf>::new(), "{text}");
        }
    }
}
