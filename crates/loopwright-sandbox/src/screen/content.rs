//! Files that are data, unless their content makes a program run something.

use std::path::Path;

use super::{EntryKind, FolderView, LOOKED_AT, Reason, named};

const LINTER: Reason = Reason::new(
    "would make pylint run code when it starts (`init-hook`); other settings may be changed",
);

/// Judges a file by its content. `None` means that it is data.
pub(super) fn judge(path: &Path, what: EntryKind, after: &dyn FolderView) -> Option<Reason> {
    toolchain(path, what, after)
        .or_else(|| linter(path, what, after))
        .or_else(|| variables(path, what, after))
}

/// A file that chooses the Rust toolchain is data, unless it names a folder with programs.
fn toolchain(path: &Path, what: EntryKind, after: &dyn FolderView) -> Option<Reason> {
    let name = path.file_name()?.to_ascii_lowercase();
    if what == EntryKind::Folder || (name != "rust-toolchain" && name != "rust-toolchain.toml") {
        return None;
    }
    let is_data = |content: &Vec<u8>| {
        what == EntryKind::File
            && (content.len() as u64) < LOOKED_AT
            && !content.windows(4).any(|part| part == b"path")
            && !content.contains(&b'\\')
    };
    let names_path = after.is_decided(path) && !after.content(path).as_ref().is_some_and(is_data);
    names_path.then_some(Reason::new("names a folder whose programs run instead of Rust's"))
}

/// A file of variables is data, unless the `.envrc` beside it loads it.
fn variables(path: &Path, what: EntryKind, after: &dyn FolderView) -> Option<Reason> {
    let name = path.file_name()?.to_ascii_lowercase().into_string().ok()?;
    if what == EntryKind::Folder || !name.starts_with(".env") {
        return None;
    }
    let beside = after.content_before(&path.with_file_name(".envrc"))?;
    let beside = String::from_utf8_lossy(&beside).to_lowercase();
    let loads = |word: &str| word.trim_start_matches("./") == name;
    beside.lines().flat_map(named::loaded).any(loads).then_some(named::DIRENV)
}

/// Files in which pylint looks for its settings.
const LINTED: [&str; 7] = [
    "pylintrc",
    ".pylintrc",
    "pylintrc.toml",
    ".pylintrc.toml",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
];

/// The setting whose value pylint runs.
const HOOK: &str = "init-hook";

/// Settings of pylint are data, but for the one that is code: it stays as it is.
fn linter(path: &Path, what: EntryKind, after: &dyn FolderView) -> Option<Reason> {
    let name = path.file_name()?.to_ascii_lowercase();
    if what == EntryKind::Folder || !LINTED.iter().any(|it| name == *it) || !after.is_decided(path)
    {
        return None;
    }
    // What a link leads to is judged where it is, if it has one of the names.
    let new =
        after.content(path).filter(|it| what == EntryKind::File && (it.len() as u64) < LOOKED_AT);
    let Some(new) = new else { return Some(LINTER) };
    let new = hooks(&new);
    let old = || after.content_before(path).map(|it| hooks(&it)).unwrap_or_default();
    (!new.is_empty() && new != old()).then_some(LINTER)
}

/// Returns the lines that say what pylint runs, and those that may say it in another way.
fn hooks(content: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(content).to_lowercase();
    let mut hooks = Vec::new();
    // The value continues up to this, or as long as lines are indented.
    let mut until: Option<&str> = None;
    let mut is_value = false;
    for line in text.lines() {
        let continues = until.is_some() || (is_value && line.starts_with([' ', '\t']));
        // Names in TOML may be written with escapes.
        is_value = continues || line.contains(HOOK) || line.contains("\\u");
        if is_value {
            hooks.push(line.to_owned());
        }
        let is_open = |quotes: &&&str| line.matches(**quotes).count() % 2 == 1;
        until = match until {
            Some(quotes) if line.contains(quotes) => None,
            Some(quotes) => Some(quotes),
            None if is_value => ["\"\"\"", "'''"].iter().find(is_open).copied(),
            None => None,
        };
    }
    // Its value may stand elsewhere.
    if hooks.iter().any(|it| it.contains("%(")) {
        return vec![text];
    }
    hooks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_that_pylint_runs_are_found() {
        let check =
            |text: &str, expect: &[&str]| assert_eq!(hooks(text.as_bytes()), expect, "{text}");
        check("[MASTER]\njobs=2\n", &[]);
        check("[MASTER]\nInit-Hook=a\n  b\njobs=2\n", &["init-hook=a", "  b"]);
        check(
            "init-hook = \"\"\"\na\nb\n\"\"\"\nc = 1\n",
            &["init-hook = \"\"\"", "a", "b", "\"\"\""],
        );
        check("\"init\\u002dhook\" = 1\n", &["\"init\\u002dhook\" = 1"]);
        check("init-hook=%(a)s\na=b\n", &["init-hook=%(a)s\na=b\n"]);
    }
}
