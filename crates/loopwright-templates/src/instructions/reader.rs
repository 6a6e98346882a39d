//! The files with instructions of one author: a project, or the user.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use loopwright_capabilities::front_matter::{
    self, TextError, is_foreign, plain, read_file, read_within,
};
use serde_json::Value;

use super::imports::{Import, imports};
use crate::problem::{DefinitionWarning, Diagnostic, DiagnosticKind};

/// The maximum size of all files together, in bytes.
pub(super) const MAX_BYTES: usize = 32 << 10;

/// How deeply imports are nested at most.
const MAX_IMPORTS: usize = 5;

/// How deeply folders of rules are nested at most, and how many rules a folder has.
const MAX_LEVELS: usize = 4;
const MAX_RULES: usize = 200;

const OUTSIDE: &str = "a project file can import only files in the project";
const NOT_OF_HOME: &str = "only files in your home directory are imported";

/// Files of a directory.
pub(super) enum Files {
    /// The first of these that says something.
    FirstOf(Vec<PathBuf>),
    /// All rules of a folder.
    Rules(PathBuf),
}

/// Reads files, each once, until there is no more room.
pub(super) struct Reader<'a> {
    /// The directory that no file leads out of.
    bound: &'a Path,
    /// What `~` stands for, in files of the user.
    home: Option<&'a Path>,
    seen: BTreeSet<PathBuf>,
    left: usize,
    /// The files that were read, those that count most first.
    pub(super) texts: Vec<(PathBuf, String)>,
    pub(super) warnings: Vec<DefinitionWarning>,
}

impl<'a> Reader<'a> {
    /// Reads files of a project.
    pub(super) fn of_project(root: &'a Path) -> Self {
        Self::new(root, None)
    }

    /// Reads files of the user.
    pub(super) fn of_user(home: &'a Path) -> Self {
        Self::new(home, Some(home))
    }

    fn new(bound: &'a Path, home: Option<&'a Path>) -> Self {
        let (texts, warnings) = (Vec::new(), Vec::new());
        Self { bound, home, seen: BTreeSet::new(), left: MAX_BYTES, texts, warnings }
    }

    /// Reads the files of a directory, of which later ones take precedence.
    pub(super) fn read(&mut self, files: &[Files]) {
        let mut found = Vec::new();
        for files in files {
            match files {
                Files::FirstOf(paths) => self.first_of(paths, &mut found),
                Files::Rules(folder) => self.rules(folder, MAX_LEVELS, &mut found),
            }
        }
        for (path, text) in found.into_iter().rev() {
            self.take(path, &text);
        }
    }

    fn first_of(&mut self, paths: &[PathBuf], found: &mut Vec<(PathBuf, String)>) {
        for path in paths.iter().filter(|it| it.symlink_metadata().is_ok()) {
            self.file(path, 0, found);
            // An empty file does not replace the next one.
            if self.is_seen(path) {
                break;
            }
        }
    }

    fn is_seen(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|it| self.seen.contains(&it))
    }

    /// Reads a file and what it imports, which comes before it.
    fn file(&mut self, path: &Path, depth: usize, found: &mut Vec<(PathBuf, String)>) {
        let text = match self.text(path, depth) {
            Ok(text) => plain(&text).trim().to_owned(),
            Err(error) => return self.warn(path, error.into()),
        };
        if text.is_empty() || !self.is_first(path) {
            return;
        }
        let mut imported = 0;
        for import in imports(&text) {
            imported += usize::from(self.import(path, import, depth, found));
        }
        // A file of imports alone says nothing itself.
        if imported < text.split_whitespace().count() {
            found.push((path.to_owned(), text));
        }
    }

    /// The user's own files may be links to any place; what they import is in the home directory.
    fn text(&self, path: &Path, depth: usize) -> Result<String, TextError> {
        if self.home.is_none() || depth > 0 {
            return read_within(self.bound, path);
        }
        if is_foreign(path)? { Err(TextError::Foreign) } else { read_file(path) }
    }

    /// Returns `true` if a file was not read before.
    fn is_first(&mut self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|it| self.seen.insert(it))
    }

    /// Returns `true` if the text of an import stands here or elsewhere.
    fn import(
        &mut self,
        by: &Path,
        import: Import<'_>,
        depth: usize,
        found: &mut Vec<(PathBuf, String)>,
    ) -> bool {
        let directory = by.parent().unwrap_or(self.bound);
        let targets = import.targets(directory, self.home);
        let Some(target) = targets.iter().find(|it| it.is_file()) else {
            if import.names_text() {
                let reason = if targets.is_empty() { OUTSIDE } else { "the file does not exist" };
                self.not_imported(by, import, reason);
            }
            return false;
        };
        if self.is_seen(target) {
            return true;
        }
        let reason = match read_within(self.bound, target) {
            Ok(_) if depth < MAX_IMPORTS => {
                self.file(target, depth + 1, found);
                return true;
            }
            Ok(_) => format!("imports are nested more than {MAX_IMPORTS} deep"),
            Err(TextError::Outside) if self.home.is_some() => NOT_OF_HOME.to_owned(),
            Err(TextError::Outside) => OUTSIDE.to_owned(),
            Err(error) => error.to_string(),
        };
        self.not_imported(by, import, &reason);
        false
    }

    /// Reads the rules of a folder, in the order of their names.
    fn rules(&mut self, folder: &Path, levels: usize, found: &mut Vec<(PathBuf, String)>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|it| it.path()).collect();
        paths.sort();
        if paths.len() > MAX_RULES {
            paths.truncate(MAX_RULES);
            self.warn(folder, DiagnosticKind::TooMany(MAX_RULES).of_file());
        }
        for path in paths {
            let is_link = path.symlink_metadata().is_ok_and(|it| it.is_symlink());
            if path.is_dir() && !is_link {
                match levels {
                    0 => self.warn(&path, DiagnosticKind::TooDeep(MAX_LEVELS).of_file()),
                    _ => self.rules(&path, levels - 1, found),
                }
            } else if path.extension().is_some_and(|it| it == "md") {
                let before = found.len();
                self.file(&path, 0, found);
                if let Some((_, text)) = found.get_mut(before..).and_then(<[_]>::last_mut) {
                    *text = self.rule(&path, text);
                }
            }
        }
    }

    /// Writes a rule with the files that it is about.
    fn rule(&mut self, path: &Path, text: &str) -> String {
        let Some((front, body)) = front_matter::split(text) else { return text.to_owned() };
        let body = body.trim();
        let paths = match front_matter::read(front) {
            Ok(front) => patterns(front.yaml.values.get("paths")),
            Err(error) => {
                let problem = error.to_string();
                self.warn(path, DiagnosticKind::Syntax { format: "YAML", problem }.of_file());
                Vec::new()
            }
        };
        if paths.is_empty() {
            return body.to_owned();
        }
        let paths: Vec<String> = paths.iter().map(|it| format!("`{it}`")).collect();
        format!("Only for files that match {}:\n{body}", paths.join(", "))
    }

    fn take(&mut self, path: PathBuf, text: &str) {
        if text.is_empty() {
            return;
        }
        let fits = text.floor_char_boundary(self.left);
        if fits < text.len() {
            self.warn(&path, DiagnosticKind::Truncated(MAX_BYTES).of_file());
        }
        self.left -= fits;
        if fits > 0 {
            self.texts.push((path, text[..fits].to_owned()));
        }
    }

    fn not_imported(&mut self, by: &Path, import: Import<'_>, reason: &str) {
        let key = Some(format!("@{}", import.name()));
        let kind = DiagnosticKind::NotImported(reason.to_owned());
        self.warn(by, Diagnostic { line: Some(import.line), key, kind });
    }

    fn warn(&mut self, path: &Path, problem: Diagnostic) {
        self.warnings.push(DefinitionWarning { path: path.to_owned(), problem });
    }
}

/// Reads a list of patterns, or patterns that commas separate outside of braces.
fn patterns(value: Option<&Value>) -> Vec<String> {
    let clean = |text: &str| text.trim().trim_matches(['"', '\'']).replace('`', "");
    let all: Vec<String> = match value {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(clean).collect(),
        Some(Value::String(text)) => {
            let mut depth = 0_usize;
            let parts = text.split(|it: char| {
                match it {
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                it == ',' && depth == 0
            });
            parts.map(clean).collect()
        }
        _ => Vec::new(),
    };
    all.into_iter().filter(|it| !it.is_empty()).collect()
}
