//! `grep`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use globset::GlobMatcher;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use loopwright_core::{BoxError, Reach, SideEffects, Tool, ToolCx, ToolOptions};
use rustix::fs::FileType;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::files::FileError;
use crate::files::blocking::blocking;
use crate::files::resolve::open_file;
use crate::files::root::WorkspaceRoot;
use crate::files::search::{glob_matcher, notes};
use crate::files::shown::{self, floor_boundary};
use crate::files::walk::{self, Next, Rules};

/// Finds lines in files of a directory by their content.
#[derive(Clone, Debug)]
#[must_use]
pub struct Grep {
    root: WorkspaceRoot,
    most_matches: usize,
    most_bytes: usize,
}

/// The arguments of the tool `grep`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrepArgs {
    /// A regular expression, matched line by line.
    pub pattern: String,
    /// A directory or file to search; the working directory by default.
    #[serde(default)]
    pub path: Option<String>,
    /// Searches only files whose names match this glob, such as `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    pub glob: Option<String>,
    /// Treats the pattern as plain text.
    #[serde(default)]
    pub literal: Option<bool>,
    /// Ignores the case of letters.
    #[serde(default)]
    pub ignore_case: Option<bool>,
    /// Number of lines to show before and after each match, at most 20; 0 by default.
    #[serde(default)]
    pub context: Option<i64>,
    /// Shows only the paths of the files.
    #[serde(default)]
    pub files_only: Option<bool>,
    /// Also searches files that `.gitignore` and `.ignore` files exclude.
    #[serde(default)]
    pub include_ignored: Option<bool>,
}

/// How much of a line is shown, in bytes.
const MAX_LINE: usize = 400;

/// How much of a file is searched, in bytes.
const MAX_FILE: u64 = 256 << 20;

/// How large a line or a compiled pattern may be, in bytes.
const MAX_HEAP: usize = 16 << 20;

impl Grep {
    /// Creates the tool for a directory.
    pub fn in_dir(root: impl Into<WorkspaceRoot>) -> Self {
        Self { root: root.into(), most_matches: 100, most_bytes: 32 << 10 }
    }

    /// Sets the maximum number of shown lines or files; 100 by default.
    pub fn with_max_results(mut self, results: usize) -> Self {
        self.most_matches = results.max(1);
        self
    }

    /// Sets the maximum number of shown bytes; 32 KiB by default.
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.most_bytes = bytes.max(1);
        self
    }

    /// Searches files. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern is invalid, or the file or directory does not exist.
    pub fn grep(&self, args: &GrepArgs, stop: &CancellationToken) -> Result<String, FileError> {
        let path = args.path.as_deref().filter(|it| !it.is_empty()).unwrap_or(".");
        let filter = args.glob.as_deref().map(filter).transpose()?;
        let mut search = Search {
            matcher: matcher(args)?,
            searcher: searcher(args),
            stop,
            files_only: args.files_only.unwrap_or_default(),
            text: String::new(),
            matches: 0,
            most_matches: self.most_matches,
            most_bytes: self.most_bytes,
            is_full: false,
            unread: 0,
        };
        let all = args.include_ignored.unwrap_or_default();
        let rules = if all { Rules::Disregarded } else { Rules::Honoured };
        let walked = walk::walk(&self.root, self.name(), path, rules, stop, &mut |visit| {
            let fits = filter.as_ref().is_none_or(|it| it.is_match(self.root.split(visit.path).1));
            if visit.kind != FileType::RegularFile || !fits {
                return Ok(Next::On);
            }
            if let Ok(file) = open_file(visit.folder, visit.name) {
                return search.file(visit.path, file);
            }
            search.unread += 1;
            Ok(Next::On)
        });
        let missed = match walked {
            Err(FileError::NotADirectory(_)) => {
                let (file, _, real) = self.root.read(path)?;
                search.file(&real, file)?;
                walk::Missed::default()
            }
            walked => walked?,
        };
        Ok(search.answer(notes(missed)))
    }
}

fn matcher(args: &GrepArgs) -> Result<RegexMatcher, FileError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(args.ignore_case.unwrap_or_default())
        .fixed_strings(args.literal.unwrap_or_default())
        .crlf(true)
        .multi_line(true)
        .size_limit(MAX_HEAP)
        .dfa_size_limit(MAX_HEAP);
    builder.build(&args.pattern).map_err(|error| FileError::Pattern {
        pattern: args.pattern.clone(),
        reason: format!("{error}; pass literal=true if the pattern is plain text"),
    })
}

fn searcher(args: &GrepArgs) -> Searcher {
    let context = usize::try_from(args.context.unwrap_or(0)).unwrap_or(0).min(20);
    SearcherBuilder::new()
        .line_number(true)
        .line_terminator(LineTerminator::crlf())
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_HEAP))
        .build()
}

/// A glob without a directory fits at any depth.
fn filter(glob: &str) -> Result<GlobMatcher, FileError> {
    let anywhere = if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
    let glob = glob.to_owned();
    glob_matcher(anywhere.trim_start_matches("./"))
        .map_err(|reason| FileError::Pattern { pattern: glob, reason })
}

struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    stop: &'a CancellationToken,
    files_only: bool,
    text: String,
    matches: usize,
    most_matches: usize,
    most_bytes: usize,
    is_full: bool,
    unread: usize,
}

impl Search<'_> {
    fn file(&mut self, path: &Path, file: File) -> Result<Next, FileError> {
        if !file.metadata().is_ok_and(|it| it.is_file()) {
            self.unread += 1;
            return Ok(Next::On);
        }
        let reader = Stoppable { file: file.take(MAX_FILE), stop: self.stop };
        let matcher = self.matcher.clone();
        let mut searcher = self.searcher.clone();
        let mut lines = Lines { search: self, path: shown::path(path), written: 0 };
        let result = searcher.search_reader(&matcher, reader, &mut lines);
        if self.stop.is_cancelled() {
            return Err(FileError::Cancelled);
        }
        self.unread += usize::from(result.is_err());
        Ok(if self.is_full { Next::Enough } else { Next::On })
    }

    fn answer(self, missed: Vec<String>) -> String {
        let mut text = self.text;
        if self.matches == 0 {
            text.push_str("(no matches)\n");
        }
        if self.is_full {
            let note = format!(
                "[Stopped after {} matches; there may be more. Narrow the pattern, path or glob.]\n",
                self.matches
            );
            text.push_str(&note);
        }
        if self.unread > 0 {
            let note = format!("[{} files could not be read.]\n", self.unread);
            text.push_str(&note);
        }
        for note in missed {
            text.push_str(&note);
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Writes the lines of one file.
struct Lines<'a, 'b> {
    search: &'a mut Search<'b>,
    path: String,
    written: usize,
}

impl Lines<'_, '_> {
    /// Writes a line. Returns `true` if there is room for more.
    fn write(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) -> bool {
        let bytes = bytes.trim_ascii_end();
        let kept = &bytes[..floor_boundary(bytes, MAX_LINE)];
        let more = if kept.len() < bytes.len() { "…" } else { "" };
        let number = number.unwrap_or_default();
        let text = String::from_utf8_lossy(kept);
        let line = format!("{}{mark}{number}{mark}{text}{more}\n", self.path);
        if self.search.text.len() + line.len() > self.search.most_bytes {
            self.search.is_full = true;
            return false;
        }
        self.search.text.push_str(&line);
        self.written += 1;
        true
    }
}

impl Sink for Lines<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.search.matches == self.search.most_matches {
            self.search.is_full = true;
            return Ok(false);
        }
        if self.search.files_only {
            self.search.matches += 1;
            self.search.text.push_str(&self.path);
            self.search.text.push('\n');
            self.search.is_full |= self.search.text.len() > self.search.most_bytes;
            return Ok(false);
        }
        let has_room = self.write(':', found.line_number(), found.bytes());
        self.search.matches += usize::from(has_room);
        Ok(has_room)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.search.files_only {
            return Ok(true);
        }
        Ok(self.write('-', found.line_number(), found.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if !self.search.files_only && self.written > 0 {
            self.search.text.push_str("--\n");
        }
        Ok(true)
    }
}

/// A file that ends when no process waits any more.
struct Stoppable<'a> {
    file: io::Take<File>,
    stop: &'a CancellationToken,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

impl Tool for Grep {
    type Args = GrepArgs;
    type Output = String;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "grep"
    }

    fn description(&self) -> &'static str {
        "Searches files in the working directory with a regular expression, and shows the matching lines \
            as `path:line:text`. Binary files and files that `.gitignore` excludes are not \
            searched."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions {
            side_effects: SideEffects::ReadOnly,
            reach: Reach::Workspace,
            ..ToolOptions::default()
        }
    }

    async fn call(&self, args: GrepArgs, cx: &ToolCx<'_>) -> Result<String, BoxError> {
        let tool = self.clone();
        Ok(blocking(cx.cancel, move |stop| tool.grep(&args, stop)).await?)
    }
}

#[cfg(test)]
mod tests;
