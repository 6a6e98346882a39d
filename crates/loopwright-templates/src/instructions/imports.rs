//! Imports in instructions: `@path`.

use std::path::{Path, PathBuf};

/// What ends a sentence behind a path.
const ENDS: [char; 7] = ['.', ',', ';', ':', '!', '?', ')'];

/// Extensions of files that are meant even if they do not exist.
const TEXTS: [&str; 3] = ["md", "mdc", "txt"];

/// A word `@path` outside of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Import<'a> {
    pub(super) line: usize,
    pub(super) path: &'a str,
}

impl Import<'_> {
    /// Returns the paths that the word can mean, relative to a directory: as written, and without the end of a sentence. A
    /// path below `~` requires a home directory.
    pub(super) fn targets(self, directory: &Path, home: Option<&Path>) -> Vec<PathBuf> {
        let whole = self.path;
        let mut texts = vec![whole];
        let short = self.name();
        if short != whole {
            texts.push(short);
        }
        let target = |text: &&str| match text.strip_prefix("~/") {
            Some(below) => home.map(|home| home.join(below)),
            None => Some(directory.join(text)),
        };
        texts.iter().filter_map(target).collect()
    }

    /// Returns the path without the end of a sentence.
    pub(super) fn name(&self) -> &str {
        self.path.trim_end_matches(ENDS)
    }

    /// Returns `true` if the word names a text file, and not a user or a package.
    pub(super) fn names_text(&self) -> bool {
        let extension = Path::new(self.name()).extension().and_then(|it| it.to_str());
        extension.is_some_and(|it| TEXTS.contains(&it))
    }
}

/// Finds the imports of a text. What stands in code is none.
pub(super) fn imports(text: &str) -> Vec<Import<'_>> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|it| trimmed.starts_with(it));
        match (fence, mark) {
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, Some(mark)) => fence = Some(mark),
            (None, None) => of_line(line, number + 1, &mut found),
            (Some(_), _) => {}
        }
    }
    found
}

fn of_line<'a>(line: &'a str, number: usize, found: &mut Vec<Import<'a>>) {
    let mut rest = line;
    let mut is_start = true;
    while let Some(next) = rest.chars().next() {
        if next == '`' {
            let ticks = rest.len() - rest.trim_start_matches('`').len();
            let after = &rest[ticks..];
            rest = closing(after, ticks).unwrap_or(after);
            is_start = false;
            continue;
        }
        if next == '@' && is_start {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            if end > 1 {
                found.push(Import { line: number, path: &rest[1..end] });
            }
            rest = &rest[end..];
            continue;
        }
        is_start = next.is_whitespace();
        rest = &rest[next.len_utf8()..];
    }
}

/// Returns what follows the run of as many backticks that ends a code span.
fn closing(text: &str, ticks: usize) -> Option<&str> {
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let from = &rest[at..];
        let run = from.len() - from.trim_start_matches('`').len();
        rest = &from[run..];
        if run == ticks {
            return Some(rest);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, &str)> {
        imports(text).into_iter().map(|it| (it.line, it.path)).collect()
    }

    #[test]
    fn imports_are_words_outside_of_code() {
        let text = "See @a.md and\n- @docs/b.md, not mail@c.md or `@d.md` or ``a ` @e.md``.\n```\n@f.md\n```\n~~~ rust\n```\n@g.md\n~~~\n@~/h.md @";
        assert_eq!(found(text), [(1, "a.md"), (2, "docs/b.md,"), (10, "~/h.md")]);
        assert_eq!(found("an open ` before @a.md"), [(1, "a.md")]);
    }

    #[test]
    fn a_sentence_may_end_behind_a_path() {
        let import = Import { line: 1, path: "docs/a.md)." };
        let directory = Path::new("/p");
        let expect = ["/p/docs/a.md).", "/p/docs/a.md"].map(PathBuf::from);
        assert_eq!(import.targets(directory, None), expect);
        let own = Import { line: 1, path: "~/a.md" };
        assert_eq!(own.targets(directory, None), Vec::<PathBuf>::new());
        assert_eq!(own.targets(directory, Some(Path::new("/h"))), [PathBuf::from("/h/a.md")]);
        assert!(import.names_text());
        assert!(!Import { line: 1, path: "types/node" }.names_text());
    }
}
