//! Files that are data, unless their content makes a program run something.

use std::ffi::OsStr;
use std::path::Path;

use super::{EntryKind, FolderView, LOOKED_AT, Reason, named, obeyed};

const LINTER: Reason = Reason::new(
    "would make pylint, mypy or flake8 run code at startup (`init-hook`, plugins in files; changes to other settings \
     are allowed)",
);

/// Judges a file by its content. `None` means that it is data.
pub(super) fn judge(path: &Path, what: EntryKind, after: &dyn FolderView) -> Option<Reason> {
    chooser(path, what, after)
        .or_else(|| linter(path, what, after))
        .or_else(|| variables(path, what, after))
}

/// Returns `true` if files of this name, in lower case, may be refused for their content.
pub(super) fn is_read(name: &OsStr) -> bool {
    CHOOSERS.iter().any(|it| name == it.0)
        || LINTED.iter().any(|it| name == *it)
        || name.to_str().is_some_and(|it| it.starts_with(".env"))
}

const RUST: Reason =
    Reason::new("names a folder whose programs would run instead of the Rust toolchain");
const VERSIONS: Reason = Reason::new(
    "names a folder or a command, not only versions, so it chooses which programs run in this folder",
);
const BAZEL: Reason = Reason::new("chooses where Bazel is downloaded from, not only its version");
const PNPM: Reason = Reason::new("names code that pnpm runs with every command");

/// Files that choose versions or packages are data, unless they hold one of these: signs in lower case.
const CHOOSERS: [(&str, &[&str], Reason); 5] = [
    ("rust-toolchain", &["path", "\\"], RUST),
    ("rust-toolchain.toml", &["path", "\\"], RUST),
    (".tool-versions", &["path:", "{{", "{%"], VERSIONS),
    (".bazelversion", &["/"], BAZEL),
    ("pnpm-workspace.yaml", &["pnpmfile", "\\"], PNPM),
];

fn chooser(path: &Path, what: EntryKind, after: &dyn FolderView) -> Option<Reason> {
    let name = path.file_name()?.to_ascii_lowercase();
    let (_, signs, reason) = CHOOSERS.iter().find(|it| name == it.0)?;
    if what == EntryKind::Folder || !after.is_decided(path) {
        return None;
    }
    let is_data = |content: &Vec<u8>| {
        let text = String::from_utf8_lossy(content).to_lowercase();
        what == EntryKind::File
            && (content.len() as u64) < LOOKED_AT
            && !signs.iter().any(|sign| text.contains(sign))
    };
    (!after.content(path).as_ref().is_some_and(is_data)).then_some(*reason)
}

/// Judges names, in lower case, of which a part is free: settings of mise for one environment, of lefthook and husky in any format, and
/// projects of editors.
pub(super) fn pattern(name: &OsStr) -> Option<Reason> {
    let name = name.to_str()?;
    let plain = name.strip_prefix('.').unwrap_or(name);
    let (stem, format) = plain.rsplit_once('.').unwrap_or((plain, ""));
    let is_shown = plain.len() == name.len();
    let reason = match (stem, format) {
        (stem, "toml") if stem.starts_with("mise.") => obeyed::DIRECTORY,
        ("lefthook" | "lefthook-local" | "huskyrc" | "husky.config", _) => obeyed::HOOK,
        (_, "code-workspace" | "sublime-project") if is_shown => obeyed::EDITOR,
        _ => return None,
    };
    Some(Reason::new(reason))
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

/// Files in which pylint, mypy and flake8 look for their settings.
const LINTED: [&str; 10] = [
    "pylintrc",
    ".pylintrc",
    "pylintrc.toml",
    ".pylintrc.toml",
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "mypy.ini",
    ".mypy.ini",
    ".flake8",
];

/// The setting whose value pylint runs.
const HOOK: &str = "init-hook";

/// Settings of these are data, but for those that are code or name it: they stay as they are.
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
    let code = |content: &[u8]| [hooks(content), plugins(content)].concat();
    let new = code(&new);
    let old = || after.content_before(path).map(|it| code(&it)).unwrap_or_default();
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

/// Returns the lines that name files which mypy and flake8 load as plugins. Names of modules are those of programs that are
/// installed.
fn plugins(content: &[u8]) -> Vec<String> {
    const KEY: &str = "plugins";
    let is_key = |line: &str| {
        line.match_indices(KEY).any(|(at, _)| {
            line[at + KEY.len()..]
                .trim_start_matches(['"', '\'', ' ', '\t'])
                .starts_with(['=', ':'])
        })
    };
    let text = String::from_utf8_lossy(content).to_lowercase();
    let mut plugins = Vec::new();
    // Whether lines belong to the section in which flake8 has its plugins, to a value, and to a list that is not closed.
    let (mut is_section, mut is_value, mut is_list) = (false, false, false);
    for line in text.lines() {
        if !is_list && line.trim_start().starts_with('[') {
            is_section = line.contains("local-plugins");
        }
        let begins = is_key(line);
        is_value = begins || is_list || (is_value && line.starts_with([' ', '\t']));
        is_list = is_value && !line.contains(']') && (is_list || line.contains('['));
        if is_section || (is_value && (line.contains('/') || line.contains(".py"))) {
            plugins.push(line.to_owned());
        }
    }
    plugins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_linters_load_are_found() {
        let check =
            |text: &str, expect: &[&str]| assert_eq!(plugins(text.as_bytes()), expect, "{text}");
        check("[mypy]\nplugins = pydantic.mypy\nstrict = true\n", &[]);
        check("[mypy]\nplugins = a,\n  ./b.py\nfiles = c/d\n", &["  ./b.py"]);
        check("[tool.mypy]\nplugins = [\n\"./a.py\",\n]\nfiles = \"b/\"\n", &["\"./a.py\","]);
        check(
            "[tool]\nmypy = { \"plugins\" = [\"a.py\"] }\n",
            &["mypy = { \"plugins\" = [\"a.py\"] }"],
        );
        check("testpaths = plugins/a\n", &[]);
        check(
            "[flake8:local-plugins]\npaths = .\n[flake8]\nignore = a/b\n",
            &["[flake8:local-plugins]", "paths = ."],
        );
    }

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
