//! The files of a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::problem::{Diagnostic, DiagnosticKind};
use crate::registry::Depth;

/// How far down directories are looked into.
const MAX_LEVELS: usize = 6;

/// How many entries are looked at in all.
const MAX_ENTRIES: usize = 2000;

/// Directories that hold no definitions.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// What was found in a directory.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The files that are wanted, sorted by their paths.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) warnings: Vec<(PathBuf, Diagnostic)>,
    /// Directories that could not be read.
    pub(crate) unreadable: Vec<(PathBuf, Diagnostic)>,
    entries: usize,
}

/// Finds files. A directory that is not there has none. Links to directories are not followed.
pub(crate) fn find(root: &Path, depth: Depth, wants: &dyn Fn(&Path) -> bool) -> Found {
    let mut found = Found::default();
    let mut waiting = vec![(root.to_owned(), 0)];
    while let Some((directory, level)) = waiting.pop() {
        let below = found.look(&directory, wants);
        if depth == Depth::Flat {
            break;
        }
        for path in below {
            if level + 1 > MAX_LEVELS {
                found.warn(path, DiagnosticKind::TooDeep(MAX_LEVELS));
            } else {
                waiting.push((path, level + 1));
            }
        }
    }
    if found.entries > MAX_ENTRIES {
        found.warn(root.to_owned(), DiagnosticKind::TooMany(MAX_ENTRIES));
    }
    found.files.sort();
    found.warnings.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

impl Found {
    /// Looks at the entries of a directory, and returns the directories among them.
    fn look(&mut self, directory: &Path, wants: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    let problem = DiagnosticKind::Unreadable(error.to_string()).of_file();
                    self.unreadable.push((directory.to_owned(), problem));
                }
                return Vec::new();
            }
        };
        let mut below = Vec::new();
        for entry in entries.filter_map(Result::ok) {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                break;
            }
            let (path, kind) = (entry.path(), entry.file_type());
            let is_link = kind.as_ref().is_ok_and(fs::FileType::is_symlink);
            let is_skipped = entry.file_name().to_str().is_some_and(|it| SKIPPED.contains(&it));
            match () {
                () if is_skipped => {}
                () if kind.is_ok_and(|it| it.is_dir()) => below.push(path),
                () if is_link && path.is_dir() => self.warn(path, DiagnosticKind::Link),
                () if wants(&path) => self.files.push(path),
                () => {}
            }
        }
        below
    }

    fn warn(&mut self, path: PathBuf, kind: DiagnosticKind) {
        self.warnings.push((path, kind.of_file()));
    }
}
