//! `search_files`.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use loopwright_core::{BoxError, Reach, SideEffects, Tool, ToolCx, ToolOptions};
use rustix::fs::FileType;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::files::FileError;
use crate::files::blocking::blocking;
use crate::files::root::WorkspaceRoot;
use crate::files::shown;
use crate::files::walk::{self, Missed, Next, Rules};

/// Finds files in a directory by their names.
#[derive(Clone, Debug)]
#[must_use]
pub struct SearchFiles {
    root: WorkspaceRoot,
    most_results: usize,
}

/// The arguments of the tool `search_files`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchFilesArgs {
    /// A glob such as `src/**/*.rs`, which is relative to the working directory; a path; the name of a
    /// file at any depth, such as `main.rs`; or a part of a name, such as `config`.
    #[serde(default)]
    pub pattern: Option<String>,
    /// Several patterns.
    #[serde(default)]
    pub patterns: Option<Vec<String>>,
    /// Also finds files that `.gitignore` and `.ignore` files exclude.
    #[serde(default)]
    pub include_ignored: Option<bool>,
}

/// How many patterns there may be, and how long each.
const MAX_PATTERNS: usize = 32;
const MAX_PATTERN_BYTES: usize = 1024;

impl SearchFiles {
    /// Creates the tool for a directory.
    pub fn in_dir(root: impl Into<WorkspaceRoot>) -> Self {
        Self { root: root.into(), most_results: 10 }
    }

    /// Sets the maximum number of shown files, over all patterns together; 10 by default.
    pub fn with_max_results(mut self, results: usize) -> Self {
        self.most_results = results.max(1);
        self
    }

    /// Finds files. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no pattern, or a pattern is invalid or leads outside the
    /// directory.
    pub fn search(
        &self,
        args: &SearchFilesArgs,
        stop: &CancellationToken,
    ) -> Result<String, FileError> {
        let patterns = patterns(args)?;
        let mut found: Vec<Found<'_>> = patterns
            .iter()
            .map(|it| {
                Ok(Found {
                    pattern: it,
                    kind: Kind::of(it, &self.root)?,
                    paths: Vec::new(),
                    count: 0,
                })
            })
            .collect::<Result<_, FileError>>()?;
        let share = self.most_results.div_ceil(found.len());
        for it in &mut found {
            if let Kind::Path(path) = &it.kind
                && self.root.exists(path, self.name())?
            {
                let path = path.clone();
                it.add(path, share);
            }
        }
        let missed = self.walk(args, &mut found, share, stop)?;
        Ok(answer(&found, missed))
    }

    fn walk(
        &self,
        args: &SearchFilesArgs,
        found: &mut [Found<'_>],
        share: usize,
        stop: &CancellationToken,
    ) -> Result<Missed, FileError> {
        if found.iter().all(|it| matches!(it.kind, Kind::Path(_))) {
            return Ok(Missed::default());
        }
        let all = args.include_ignored.unwrap_or_default();
        let rules = if all { Rules::Disregarded } else { Rules::Honoured };
        let is_added = |it: &&str| found.iter().any(|found| found.pattern.starts_with(it));
        let added: Vec<String> = self.root.folders().map(shown::path).collect();
        let added = added.iter().map(String::as_str).filter(is_added);
        let starts: Vec<&str> = std::iter::once(".").chain(added).collect();
        let mut missed = Missed::default();
        for start in starts {
            missed += walk::walk(&self.root, self.name(), start, rules, stop, &mut |visit| {
                if visit.kind != FileType::Directory {
                    for it in found.iter_mut().filter(|it| it.kind.matches(visit.path)) {
                        it.add(shown::path(visit.path), share);
                    }
                }
                Ok(Next::On)
            })?;
        }
        Ok(missed)
    }
}

fn patterns(args: &SearchFilesArgs) -> Result<Vec<&str>, FileError> {
    let several = args.patterns.iter().flatten();
    let mut patterns: Vec<&str> = Vec::new();
    for pattern in args.pattern.iter().chain(several).map(|it| it.trim()) {
        if !pattern.is_empty() && !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    let refuse = |pattern: &str, reason: &str| {
        Err(FileError::Pattern { pattern: pattern.to_owned(), reason: reason.to_owned() })
    };
    match patterns.iter().find(|it| it.len() > MAX_PATTERN_BYTES) {
        Some(long) => {
            refuse(&long[..shown::floor_boundary(long.as_bytes(), 40)], "the pattern is too long")
        }
        None if patterns.len() > MAX_PATTERNS => {
            refuse(patterns[MAX_PATTERNS], "pass at most 32 patterns")
        }
        None if patterns.is_empty() => Err(FileError::NoPattern),
        None => Ok(patterns),
    }
}

/// What a pattern means.
#[derive(Debug)]
enum Kind {
    /// One path.
    Path(String),
    /// Paths by a glob, from the root.
    Glob(GlobMatcher),
    /// Files of this name, at any depth.
    Name(String),
    /// Files whose names have this part, at any depth; case counts if the part has capitals.
    Part(String),
}

impl Kind {
    fn of(pattern: &str, root: &WorkspaceRoot) -> Result<Self, FileError> {
        let is_glob = pattern.contains(['*', '?', '[', ']', '{', '}']);
        match pattern.strip_prefix("./") {
            Some(path) if !is_glob => Ok(Self::Path(path.to_owned())),
            None if pattern.contains('/') && !pattern.contains('*') && !is_glob => {
                Ok(Self::Path(pattern.to_owned()))
            }
            rest if is_glob => glob(pattern, rest.unwrap_or(pattern), root).map(Self::Glob),
            _ if pattern.contains('.') => Ok(Self::Name(pattern.to_owned())),
            _ => Ok(Self::Part(pattern.to_owned())),
        }
    }

    fn matches(&self, path: &Path) -> bool {
        let name = || path.file_name().unwrap_or_default();
        match self {
            Self::Path(_) => false,
            Self::Glob(glob) => glob.is_match(path),
            Self::Name(wanted) => name() == wanted.as_str(),
            Self::Part(part) if part.contains(char::is_uppercase) => {
                name().to_string_lossy().contains(part.as_str())
            }
            Self::Part(part) => name().to_string_lossy().to_lowercase().contains(part.as_str()),
        }
    }
}

fn glob(pattern: &str, glob: &str, root: &WorkspaceRoot) -> Result<GlobMatcher, FileError> {
    let path = Path::new(glob);
    let is_outside = path.is_absolute() && !root.folders().any(|it| path.starts_with(it));
    if is_outside || path.components().any(|it| it.as_os_str() == "..") {
        return Err(FileError::Outside(pattern.to_owned()));
    }
    glob_matcher(glob).map_err(|reason| FileError::Pattern { pattern: pattern.to_owned(), reason })
}

/// Makes a matcher of whole paths, in which only `**` goes over directories.
pub(super) fn glob_matcher(glob: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(glob).literal_separator(true).build();
    glob.map(|it| it.compile_matcher()).map_err(|error| error.kind().to_string())
}

/// What was found for a pattern.
struct Found<'a> {
    pattern: &'a str,
    kind: Kind,
    /// The first of them.
    paths: Vec<String>,
    count: usize,
}

impl Found<'_> {
    fn add(&mut self, path: String, most: usize) {
        self.count += 1;
        if self.paths.len() < most {
            self.paths.push(path);
        }
    }

    fn is_shallow(&self) -> bool {
        self.count == 0 && matches!(self.kind, Kind::Glob(_)) && !self.pattern.contains('/')
    }
}

fn answer(found: &[Found<'_>], missed: Missed) -> String {
    let count: usize = found.iter().map(|it| it.count).sum();
    let mut lines = Vec::new();
    if count == 0 {
        let patterns: Vec<&str> = found.iter().map(|it| it.pattern).collect();
        lines.push(format!("No files found for {}.", patterns.join(", ")));
    } else {
        lines.push(format!("Found {count} {}.", if count == 1 { "file" } else { "files" }));
        for it in found.iter().filter(|it| it.count > 0) {
            lines.push(format!("[{}]", it.pattern));
            lines.extend(it.paths.iter().cloned());
            let more = it.count - it.paths.len();
            if more > 0 {
                lines.push(format!("... and {more} more; narrow the pattern to see them"));
            }
        }
    }
    for it in found.iter().filter(|it| it.is_shallow()) {
        lines.push(format!("[`{0}` matches only at the top level; try `**/{0}`]", it.pattern));
    }
    lines.extend(notes(missed));
    lines.join("\n")
}

/// Says what was not looked at.
pub(super) fn notes(missed: Missed) -> Vec<String> {
    let mut notes = Vec::new();
    if missed.is_cut {
        notes.push(
            "[There are too many files to search all of them; search in a subdirectory.]"
                .to_owned(),
        );
    }
    if missed.folders > 0 {
        notes.push(format!("[{} directories could not be read.]", missed.folders));
    }
    notes
}

impl Tool for SearchFiles {
    type Args = SearchFilesArgs;
    type Output = String;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "search_files"
    }

    fn description(&self) -> &'static str {
        "Finds files in the working directory by name: by a glob such as `src/**/*.rs`, a path, \
            a whole name, or a part of a name. Files that `.gitignore` excludes are not found \
            unless `include_ignored` is true. To search the content of files, use `grep`."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions {
            side_effects: SideEffects::ReadOnly,
            reach: Reach::Workspace,
            ..ToolOptions::default()
        }
    }

    async fn call(&self, args: SearchFilesArgs, cx: &ToolCx<'_>) -> Result<String, BoxError> {
        let tool = self.clone();
        Ok(blocking(cx.cancel, move |stop| tool.search(&args, stop)).await?)
    }
}

#[cfg(test)]
mod tests;
