//! The files that the settings of a project run, and a fingerprint of them.

mod run;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::project::plain;

pub(crate) use self::run::run_files;

/// The folders of a project whose files trust covers.
const FOLDERS: [&str; 3] = [".loopwright", ".agents", ".claude"];

/// Folders in them that change while agents work, and whose files run only if settings name them.
const EXCEPT: [&str; 3] = ["agent-memory", "agent-memory-local", "worktrees"];

/// The most files, and bytes, that trust covers.
const MAX_FILES: usize = 4000;
const MAX_BYTES: u64 = 64 << 20;

/// The most folders that are in each other in a folder whose files trust covers.
const MAX_DEPTH: usize = 64;

/// The most folders of a command line that the files after them are looked for in.
const MAX_FOLDERS: usize = 64;

/// Keys of settings below which commands are.
const COMMAND_KEYS: [&str; 4] = ["hooks", "mcpServers", "mcp", "statusLine"];

/// Programs that do not run the files that they read.
const READERS: [&str; 13] = [
    "[", "cat", "diff", "du", "echo", "grep", "head", "ls", "printf", "stat", "tail", "test", "wc",
];

/// The files are too many for trust to cover.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} contains too many files to trust: more than {} files or {} MiB, or folders nested more than {} deep; remove files that do not belong there",
    plain(path),
    MAX_FILES,
    MAX_BYTES >> 20,
    MAX_DEPTH
)]
pub(crate) struct TooManyFiles {
    path: PathBuf,
}

/// Returns the fingerprint of settings and of the files that they can run: those in the folders of settings, and the named
/// ones.
pub(crate) fn fingerprint(
    root: &Path,
    settings: &[(PathBuf, String)],
) -> Result<String, TooManyFiles> {
    fingerprint_of(root, settings, None)
}

/// Returns the fingerprint as if there were no such file.
pub(crate) fn fingerprint_without(
    root: &Path,
    settings: &[(PathBuf, String)],
    file: &Path,
) -> Result<String, TooManyFiles> {
    let others: Vec<_> = settings.iter().filter(|(path, _)| path != file).cloned().collect();
    fingerprint_of(root, &others, Some(file))
}

fn fingerprint_of(
    root: &Path,
    settings: &[(PathBuf, String)],
    without: Option<&Path>,
) -> Result<String, TooManyFiles> {
    let mut hash = Hash { without: without.map(Path::to_path_buf), ..Hash::default() };
    for (path, text) in settings {
        hash.add(path.to_string_lossy().as_bytes());
        hash.add(text.as_bytes());
    }
    for folder in FOLDERS {
        hash.folder(&root.join(folder), &EXCEPT, 0)?;
    }
    for path in named_files(root, settings) {
        hash.count(&path, 1, 0)?;
        hash.file(&path)?;
    }
    Ok(format!("{:x}", hash.digest.finalize()))
}

#[derive(Default)]
struct Hash {
    digest: Sha256,
    files: usize,
    bytes: u64,
    /// The devices and numbers of folders that were read, so that links between them come to an end.
    folders: BTreeSet<(u64, u64)>,
    /// A file that is left out.
    without: Option<PathBuf>,
}

impl Hash {
    fn add(&mut self, part: &[u8]) {
        self.digest.update((part.len() as u64).to_le_bytes());
        self.digest.update(part);
    }

    fn count(&mut self, path: &Path, files: usize, bytes: u64) -> Result<(), TooManyFiles> {
        self.files += files;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.files > MAX_FILES || self.bytes > MAX_BYTES {
            return Err(TooManyFiles { path: path.parent().unwrap_or(path).to_path_buf() });
        }
        Ok(())
    }

    /// Adds the files below a folder, which is in this number of others, through links as well.
    fn folder(&mut self, folder: &Path, except: &[&str], depth: usize) -> Result<(), TooManyFiles> {
        let is_new = fs::metadata(folder).is_ok_and(|it| self.folders.insert((it.dev(), it.ino())));
        let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
        if !is_new {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            let outermost = folder.ancestors().nth(depth).unwrap_or(folder);
            return Err(TooManyFiles { path: outermost.to_path_buf() });
        }
        let mut paths = Vec::new();
        for path in entries.flatten().map(|it| it.path()) {
            self.count(&path, 1, 0)?;
            paths.push(path);
        }
        paths.sort();
        let is_left_out = |path: &Path| except.iter().any(|name| path.ends_with(name));
        for path in paths.iter().filter(|path| !is_left_out(path)) {
            match fs::metadata(path) {
                Ok(found) if found.is_dir() => self.folder(path, &[], depth + 1)?,
                Ok(found) if found.is_file() => self.file(path)?,
                // Opening a named pipe blocks until another process writes to it.
                _ => self.add(path.to_string_lossy().as_bytes()),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), TooManyFiles> {
        if self.without.as_deref() == Some(path) {
            return Ok(());
        }
        self.add(path.to_string_lossy().as_bytes());
        let Ok(file) = File::open(path) else {
            self.add(b"unreadable");
            return Ok(());
        };
        self.count(path, 0, file.metadata().as_ref().map_or(0, fs::Metadata::len))?;
        let mut content = Sha256::new();
        // A file that grows meanwhile has another content than the one that is hashed.
        if io::copy(&mut file.take(MAX_BYTES), &mut content).is_err() {
            content.update(b"unreadable");
        }
        self.add(&content.finalize());
        Ok(())
    }
}

/// Returns the files in a project that the commands of its settings name, in order.
pub(crate) fn named_files(root: &Path, settings: &[(PathBuf, String)]) -> BTreeSet<PathBuf> {
    let Ok(real) = root.canonicalize() else { return BTreeSet::new() };
    let lines = settings.iter().flat_map(|(path, text)| commands(path, text));
    let words: BTreeSet<String> = lines.flat_map(|line| words(&line)).collect();
    let files = words.iter().filter_map(|word| root.join(word).canonicalize().ok());
    files.filter(|it| it.starts_with(&real) && it.is_file()).collect()
}

/// Returns the commands in a file of settings: those of hooks and servers, and those in the text of a skill.
fn commands(path: &Path, text: &str) -> Vec<String> {
    let value: Option<Value> = match path.extension().and_then(|it| it.to_str()) {
        Some("json") => serde_json::from_str(text.trim_start_matches('\u{feff}')).ok(),
        Some("toml") => toml::from_str(text).ok(),
        _ => {
            let front = front_matter(text).lines().map(str::to_owned);
            return front.chain(skill_commands(text)).collect();
        }
    };
    let mut found = Vec::new();
    for key in COMMAND_KEYS {
        if let Some(value) = value.as_ref().and_then(|it| it.get(key)) {
            strings(value, &mut found);
        }
    }
    found
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|it| strings(it, found)),
        Value::Object(fields) => fields.values().for_each(|it| strings(it, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the part of a file between `---` that has the hooks and servers of an agent.
fn front_matter(text: &str) -> &str {
    let rest = text.trim_start_matches('\u{feff}').strip_prefix("---").unwrap_or_default();
    let front = rest.split("\n---").next().unwrap_or_default();
    if ["hooks", "mcpServers", "mcp_servers"].iter().any(|key| front.contains(key)) {
        front
    } else {
        ""
    }
}

/// Returns the commands in the text of a skill.
pub(crate) fn skill_commands(text: &str) -> impl Iterator<Item = String> {
    let between = |start: &'static str, end: &'static str| {
        text.split(start).skip(1).filter_map(move |it| it.split(end).next())
    };
    let found = between("!`", "`").chain(between("```!", "```")).map(str::trim);
    found.filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// What ends a pipeline in a command line.
const ENDS: [char; 6] = [';', '&', '\n', '(', ')', '`'];

/// Returns the words of a command line that can be files which it runs.
fn words(line: &str) -> Vec<String> {
    // A path with spaces is quoted, or it is the whole line.
    let quoted = line.split(['"', '\'']).map(str::trim);
    let quoted = quoted.filter(|it| it.contains(char::is_whitespace)).map(str::to_owned);
    let mut found: Vec<String> = quoted.collect();
    let line = line.replace("||", ";");
    let (mut depth, mut is_in_backticks) = (0_usize, false);
    // Folders that the line changes to.
    let mut folders: Vec<String> = Vec::new();
    for pipeline in line.split_inclusive(ENDS) {
        // What is printed in parentheses or backticks is part of another command.
        let mut is_run = depth > 0 || is_in_backticks;
        for command in pipeline.trim_end_matches(ENDS).split('|').rev() {
            let mut words = command_words(command).peekable();
            let program = words.peek().and_then(|it| it.rsplit('/').next());
            let is_reader = program.is_some_and(|it| READERS.contains(&it));
            let changes_folder = matches!(program, Some("cd" | "pushd"));
            is_run |= !is_reader;
            let mut paths: Vec<&str> = Vec::new();
            for word in words.take(if is_run { usize::MAX } else { 1 }) {
                // The part before it is a variable or the output of a command, which can be the root.
                let below = word.split_once('/').filter(|_| word.starts_with(['$', '/']));
                paths.extend(below.map(|(_, below)| below).into_iter().chain([word]));
            }
            let from = |folder: &String| -> Vec<String> {
                paths.iter().map(|path| format!("{folder}/{path}")).collect()
            };
            let moved: Vec<String> = folders.iter().flat_map(from).collect();
            found.extend(paths.iter().map(|&path| path.to_owned()));
            if changes_folder {
                folders.extend(paths.iter().map(|&path| path.to_owned()));
                folders.extend(moved.iter().cloned());
                folders.truncate(MAX_FOLDERS);
            }
            found.extend(moved);
        }
        match pipeline.chars().next_back() {
            Some('(') => depth += 1,
            Some(')') => depth = depth.saturating_sub(1),
            Some('`') => is_in_backticks = !is_in_backticks,
            _ => {}
        }
    }
    found
}

fn command_words(command: &str) -> impl Iterator<Item = &str> {
    let separates = |c: char| c.is_whitespace() || "\\\"'=<>,:[]{}!".contains(c);
    command.split(separates).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn of(root: &Path) -> String {
        let settings = [".claude/settings.json", ".mcp.json", ".claude/skills/s/SKILL.md"];
        let read = |name: &&str| Some((root.join(name), fs::read_to_string(root.join(name)).ok()?));
        let settings: Vec<_> = settings.iter().filter_map(read).collect();
        fingerprint(root, &settings).unwrap()
    }

    #[test]
    fn a_fingerprint_covers_the_files_that_settings_run() {
        let settings = r#"{ "hooks": { "Stop": [{ "hooks": [
            { "type": "command", "command": "cat notes.md; sh \"$CLAUDE_PROJECT_DIR/ci/guard.sh\" && ./tool" } ] }] },
            "permissions": { "deny": ["Read(./secret.env)"] } }"#;
        let servers =
            r#"{ "mcpServers": { "s": { "command": "node", "args": ["srv/main.js"] } } }"#;
        let skill = "---\nname: s\n---\nSee README.md.\n\n!`python3 gen.py --all`\n";
        let files = [
            (".claude/settings.json", settings),
            (".claude/hooks/lib/deep.sh", "exit 2"),
            (".claude/skills/s/SKILL.md", skill),
            (".agents/skills/x/run.sh", "x"),
            (".loopwright/a.txt", "x"),
            (".mcp.json", servers),
            ("ci/guard.sh", "exit 2"),
            ("tool", "exit 2"),
            ("srv/main.js", "x"),
            ("gen.py", "x"),
            ("notes.md", "x"),
            ("README.md", "x"),
            ("secret.env", "x"),
            ("src/main.rs", "x"),
            (".claude/agent-memory/a/notes.md", "x"),
            (".claude/worktrees/w/x", "x"),
        ];
        let covered = files.map(|(name, _)| {
            let root = project(&files);
            let before = of(root.path());
            assert_eq!(before, of(root.path()));
            let path = root.path().join(name);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(path, text + " ").unwrap();
            (name, before != of(root.path()))
        });
        let is_covered = |name: &str| {
            let others = ["notes.md", "README.md", "secret.env", "src/main.rs"];
            let is_left_out = name.contains("agent-memory") || name.contains("worktrees");
            !others.contains(&name) && !is_left_out
        };
        assert_eq!(covered, files.map(|(name, _)| (name, is_covered(name))));
    }

    #[test]
    fn a_file_is_named_if_a_command_runs_it_and_not_if_a_command_only_reads_it() {
        let root = project(&[("x.sh", ""), ("a b/x.sh", ""), ("ci/in/y.sh", "")]);
        let real = root.path().canonicalize().unwrap();
        let named = |command: &str| -> Vec<String> {
            let settings = serde_json::json!({ "hooks": [command] }).to_string();
            let named = named_files(&real, &[(PathBuf::from("s.json"), settings)]);
            let below = named.iter().map(|it| it.strip_prefix(&real).unwrap());
            below.map(|it| it.to_string_lossy().into_owned()).collect()
        };
        for command in [
            "./x.sh",
            "\"$CLAUDE_PROJECT_DIR/x.sh\"",
            "\"$CLAUDE_PROJECT_DIR\"/x.sh",
            "${CLAUDE_PROJECT_DIR}/x.sh --all",
            "$(git rev-parse --show-toplevel)/x.sh",
            "cat x.sh | sh",
            "cat x.sh | head -n 5 | sh",
            "cat x.sh | (sh)",
            "sh -c \"$(cat x.sh)\"",
            ". <(cat x.sh; true)",
            "eval `cat x.sh`",
            "git -c alias.x='!./x.sh' x",
            "rg --pre ./x.sh a",
        ] {
            assert_eq!(named(command), ["x.sh"], "{command}");
        }
        assert_eq!(named("sh 'a b/x.sh'"), ["a b/x.sh"]);
        assert_eq!(named("cd ci/in && ./y.sh"), ["ci/in/y.sh"]);
        assert_eq!(named("cd \"$CLAUDE_PROJECT_DIR/ci\"; cd in; ./y.sh"), ["ci/in/y.sh"]);
        for command in ["cat x.sh", "grep -q a x.sh || exit 0", "cat x.sh | head; echo ok"] {
            assert_eq!(named(command), [""; 0], "{command}");
        }
    }

    #[test]
    fn a_new_file_and_one_behind_a_link_are_covered_and_links_in_a_circle_end() {
        let root = project(&[(".claude/a", "x"), ("shared/skills/run.sh", "x")]);
        let before = of(root.path());
        std::os::unix::fs::symlink("../shared/skills", root.path().join(".claude/skills")).unwrap();
        std::os::unix::fs::symlink("..", root.path().join(".claude/up")).unwrap();
        let linked = of(root.path());
        assert_ne!(before, linked);
        fs::write(root.path().join("shared/skills/run.sh"), "y").unwrap();
        let changed = of(root.path());
        assert_ne!(linked, changed);
        fs::write(root.path().join(".claude/b"), "").unwrap();
        assert_ne!(changed, of(root.path()));
    }

    #[test]
    fn a_folder_with_too_many_files_has_no_fingerprint() {
        let root = project(&[(".claude/hooks/a", "x")]);
        let hooks = root.path().join(".claude/hooks");
        let large = File::create(hooks.join("large")).unwrap();
        large.set_len(MAX_BYTES).unwrap();
        let told = fingerprint(root.path(), &[]).unwrap_err();
        assert_eq!(told, TooManyFiles { path: hooks });
    }

    #[test]
    fn a_file_in_the_deepest_folder_is_covered_and_deeper_folders_have_no_fingerprint() {
        let deepest = [&[".claude"][..], &["d"; MAX_DEPTH]].concat().join("/");
        let file = format!("{deepest}/run.sh");
        let root = project(&[(file.as_str(), "x")]);
        let before = of(root.path());
        fs::write(root.path().join(&file), "y").unwrap();
        assert_ne!(before, of(root.path()));
        fs::create_dir(root.path().join(deepest).join("d")).unwrap();
        let told = fingerprint(root.path(), &[]).unwrap_err();
        assert_eq!(told, TooManyFiles { path: root.path().join(".claude") });
        let name = plain(&root.path().join(".claude"));
        let text = "contains too many files to trust: more than 4000 files or 64 MiB, or folders nested more than 64 deep; \
                    remove files that do not belong there";
        assert_eq!(told.to_string(), format!("{name} {text}"));
    }
}
