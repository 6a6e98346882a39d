//! The files that command lines run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use loopwright_permissions::{CommandText, CommandWord, SimpleCommand};

use super::{ENDS, MAX_FOLDERS, command_words};

/// Words that can stand before the name of a program.
const BEFORE: [&str; 7] = ["do", "elif", "else", "if", "then", "until", "while"];

/// Programs that run the first file among their arguments.
const RUNNERS: [&str; 15] = [
    ".", "bash", "bun", "dash", "deno", "node", "perl", "php", "python", "python3", "ruby", "sh",
    "source", "tsx", "zsh",
];

/// Programs that run the command in their arguments.
const WRAPPERS: [&str; 7] = ["command", "env", "exec", "nice", "nohup", "time", "timeout"];

/// The name of the project's folder while a command line is read. Its real name may have characters that a shell takes apart.
const ROOT: &str = "/loopwright-project-root";

/// Returns the files in a project that command lines run: programs, scripts that an interpreter is given, and files that it reads as
/// its input, also after `cd` and in `sh -c '…'`. Files that commands only read or format are not among them.
pub(crate) fn run_files<'l>(
    root: &Path,
    lines: impl IntoIterator<Item = &'l str>,
) -> BTreeSet<PathBuf> {
    let Ok(root) = root.canonicalize() else { return BTreeSet::new() };
    let project = Project { root };
    let mut found = BTreeSet::new();
    for line in lines {
        let mut named = line.to_owned();
        for variable in ["${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"] {
            named = named.replace(variable, ROOT);
        }
        let text = CommandText::of(&named, ROOT);
        let folders = project.folders(&text.commands);
        found.extend(text.commands.iter().flat_map(|it| project.run_by(it, &folders)));
        if text.unreadable.is_some() {
            found.extend(project.by_words(line));
        }
    }
    found
}

/// The folder of a project, without links.
struct Project {
    root: PathBuf,
}

impl Project {
    /// Returns the folders in which commands may run of which this is unknown: the root, and those that `cd` names.
    fn folders(&self, commands: &[SimpleCommand]) -> Vec<PathBuf> {
        let mut folders = vec![self.root.clone()];
        for command in commands {
            let (Some(program), rest) = (command.words.first(), &command.words[1..]) else {
                continue;
            };
            if !matches!(program.known(), Some("cd" | "pushd")) {
                continue;
            }
            let known = folders.clone();
            folders.extend(rest.iter().flat_map(|word| self.places(word, &known)));
            folders.truncate(MAX_FOLDERS);
        }
        folders
    }

    fn run_by(&self, command: &SimpleCommand, unknown: &[PathBuf]) -> Vec<PathBuf> {
        let Some(program) = command.words.first() else { return Vec::new() };
        let name = program.known().map(|it| it.rsplit('/').next().unwrap_or(it));
        let is_runner = name.is_some_and(|name| RUNNERS.contains(&name));
        let is_path = program.known().is_none_or(|it| it.contains('/'));
        if !is_runner && !is_path {
            return Vec::new();
        }
        let folders: Vec<PathBuf> = match &command.folders {
            Some(folders) => folders.iter().map(|it| self.real(it)).collect(),
            None => unknown.to_vec(),
        };
        let files = |word: &CommandWord| {
            let files: Vec<_> =
                self.places(word, &folders).iter().filter_map(|it| self.file(it)).collect();
            (!files.is_empty()).then_some(files)
        };
        let mut found = command.words.iter().find_map(files).unwrap_or_default();
        let input = command.input.iter().filter(|_| is_runner);
        let input = input.filter_map(|path| files(&CommandWord::Known(path.clone())));
        found.extend(input.flatten());
        found
    }

    /// Returns what a word can name for a command in one of these folders.
    fn places(&self, word: &CommandWord, folders: &[PathBuf]) -> Vec<PathBuf> {
        match word {
            CommandWord::Known(path) if path.starts_with('/') => vec![self.real(path)],
            CommandWord::Known(path) => folders.iter().map(|it| it.join(path)).collect(),
            // The part before it is a variable or the output of a command, which can be the root.
            CommandWord::Unknown { end } => {
                end.strip_prefix('/').map(|below| self.root.join(below)).into_iter().collect()
            }
        }
    }

    fn real(&self, path: &str) -> PathBuf {
        match Path::new(path).strip_prefix(ROOT) {
            Ok(below) => self.root.join(below),
            Err(_) => PathBuf::from(path),
        }
    }

    /// Returns the file at a path. `None` means that it is no file of the project.
    fn file(&self, path: &Path) -> Option<PathBuf> {
        let real = path.canonicalize().ok()?;
        (real.starts_with(&self.root) && real.is_file()).then_some(real)
    }

    /// Looks at the words of a command line that cannot be read as a shell does.
    fn by_words(&self, line: &str) -> BTreeSet<PathBuf> {
        let in_project = |word: &str| {
            let below = word.split_once('/').filter(|_| word.starts_with(['$', '/']));
            let named = [Some(word), below.map(|(_, below)| below)].into_iter().flatten();
            named.map(|it| self.root.join(it)).find_map(|it| self.file(&it))
        };
        let mut found = BTreeSet::new();
        for command in line.split(|c| ENDS.contains(&c) || c == '|') {
            let mut words = command_words(command).skip_while(|it| BEFORE.contains(it)).peekable();
            let Some(program) = words.peek() else { continue };
            let name = program.rsplit('/').next().unwrap_or(program);
            let is_runner = RUNNERS.contains(&name) || WRAPPERS.contains(&name);
            if is_runner || program.contains(['/', '$']) {
                found.extend(words.find_map(in_project));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_files_that_a_command_runs_are_its_programs_and_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap().join("it's a project");
        let names = ["ci/guard.sh", "ci/in/guard.sh", "tool", "a.txt", "check.py", "Cargo.toml"];
        for name in names {
            fs::create_dir_all(real.join(name).parent().unwrap()).unwrap();
            fs::write(real.join(name), "").unwrap();
        }
        let cases: &[(&str, &[&str])] = &[
            ("sh ci/guard.sh a.txt", &["ci/guard.sh"]),
            ("jq -r .x | \"$CLAUDE_PROJECT_DIR\"/ci/guard.sh", &["ci/guard.sh"]),
            ("$CLAUDE_PROJECT_DIR/ci/guard.sh", &["ci/guard.sh"]),
            ("if ${CLAUDE_PROJECT_DIR}/tool; then exit 2; fi", &["tool"]),
            ("timeout 5 python3 -u ./check.py && ./tool Cargo.toml", &["check.py", "tool"]),
            ("bash -c 'ci/guard.sh --all'", &["ci/guard.sh"]),
            ("cd ci && sh guard.sh", &["ci/guard.sh"]),
            ("cd ci; cd in; ./guard.sh", &["ci/guard.sh", "ci/in/guard.sh"]),
            ("cd ci && (cd in && ./guard.sh)", &["ci/in/guard.sh"]),
            ("cd \"$CLAUDE_PROJECT_DIR/ci\" && bash -c 'sh guard.sh'", &["ci/guard.sh"]),
            ("cd $(git rev-parse --show-toplevel)/ci && sh guard.sh", &["ci/guard.sh"]),
            ("env -C ci sh guard.sh", &["ci/guard.sh"]),
            ("flock .lock sh ci/guard.sh", &["ci/guard.sh"]),
            ("bash < ci/guard.sh", &["ci/guard.sh"]),
            ("\"$(git rev-parse --show-toplevel)/ci/guard.sh\"", &["ci/guard.sh"]),
            ("case x in x) sh ci/guard.sh;; esac", &["ci/guard.sh"]),
            ("sh ci/guard.sh; 'not closed", &["ci/guard.sh"]),
            ("cat a.txt; cargo fmt --manifest-path Cargo.toml", &[]),
            ("for f in a.txt; do echo formatted >> $f; done", &[]),
            ("sh /elsewhere/guard.sh", &[]),
            ("cd /elsewhere && sh tool", &[]),
            ("cat < a.txt; nice cat a.txt", &[]),
        ];
        for (line, expect) in cases {
            let found: Vec<PathBuf> = run_files(&real, [*line]).into_iter().collect();
            let expect: Vec<PathBuf> = expect.iter().map(|it| real.join(it)).collect();
            assert_eq!(found, expect, "{line}");
        }
    }
}
