//! Git, run by the program itself: without hooks, filters and other programs that a repository's settings name.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

/// Settings that win over those of the repository. With them, and without filters, git runs no other program and reaches no
/// other repository. It writes all files, and none of them counts as unchanged without being read.
const SETTINGS: [&str; 20] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.sparseCheckout=false",
    "core.ignoreStat=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.ignoreCase=false",
    "core.symlinks=true",
    "core.excludesFile=/dev/null",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "index.sparse=false",
    "core.commitGraph=false",
    "core.quotePath=false",
    "core.pager=cat",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
];

/// The settings of a filter that name programs, and the one that makes a missing program an error.
const FILTER: [(&str, &str); 4] =
    [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];

/// Why git did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    #[error("git cannot be run; install it")]
    Missing(#[source] io::Error),
    #[error("git reports: {0}")]
    Failed(String),
}

/// A repository with one of its working trees.
#[derive(Clone, Debug)]
pub(super) struct Git {
    /// The folder of the repository for this working tree, or the file that leads to it.
    directory: PathBuf,
    tree: PathBuf,
    /// The index. `None` means that of the working tree.
    index: Option<PathBuf>,
    /// Filters that its settings and those of the user name.
    filters: Vec<OsString>,
}

impl Git {
    /// Reads which filters a repository knows. Blocks while git runs, as all functions do.
    pub(super) fn open(
        directory: impl Into<PathBuf>,
        tree: impl Into<PathBuf>,
    ) -> Result<Self, GitError> {
        let mut git = Self::without_filters(directory.into(), tree.into());
        let listed = git.output([
            "config",
            "-z",
            "--includes",
            "--name-only",
            "--get-regexp",
            r"^filter\.",
        ])?;
        for name in listed.stdout.split(|byte| *byte == 0) {
            let Some(rest) = name.strip_prefix(b"filter.") else { continue };
            let Some(dot) = rest.iter().rposition(|byte| *byte == b'.') else { continue };
            let name = OsString::from_vec(rest[..dot].to_vec());
            if !git.filters.contains(&name) {
                git.filters.push(name);
            }
        }
        Ok(git)
    }

    fn without_filters(directory: PathBuf, tree: PathBuf) -> Self {
        Self { directory, tree, index: None, filters: Vec::new() }
    }

    /// Returns a setting of one file, without those that the file includes. `None` means that the file does not have it.
    pub(super) fn setting(file: &Path, name: &str) -> Option<PathBuf> {
        let folder = file.parent()?;
        let git = Self::without_filters(folder.to_path_buf(), folder.to_path_buf());
        let options = ["config", "--no-includes", "-z", "--file"].map(OsStr::new);
        let asked = [file.as_os_str(), OsStr::new("--get"), OsStr::new(name)];
        let value = git.bytes(options.into_iter().chain(asked)).ok()?;
        let value = value.strip_suffix(b"\0").unwrap_or(&value);
        Some(PathBuf::from(OsStr::from_bytes(value)))
    }

    /// Returns the same with another index.
    pub(super) fn with_index(&self, index: &Path) -> Self {
        Self { index: Some(index.to_path_buf()), ..self.clone() }
    }

    /// Runs git, and returns what it says on standard output, without the last line break.
    pub(super) fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String, GitError> {
        let said = self.bytes(arguments)?;
        Ok(String::from_utf8_lossy(&said).trim_end_matches('\n').to_owned())
    }

    /// Runs git, and returns what it says on standard output.
    pub(super) fn bytes<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Vec<u8>, GitError> {
        succeeded(self.output(arguments)?)
    }

    /// The same with a standard input.
    pub(super) fn fed<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        let mut git = self.command();
        git.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = git.spawn().map_err(GitError::Missing)?;
        let stdin = child.stdin.take();
        let output = thread::scope(|scope| {
            // What git does not read is part of what it reports.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
            child.wait_with_output()
        });
        succeeded(output.map_err(GitError::Missing)?)
    }

    fn output<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Output, GitError> {
        self.command().args(arguments).output().map_err(GitError::Missing)
    }

    fn command(&self) -> Command {
        let mut git = Command::new("git");
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"GIT_"))
        {
            git.env_remove(name);
        }
        git.env("GIT_DIR", &self.directory)
            .env("GIT_WORK_TREE", &self.tree)
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .current_dir(&self.tree)
            .stdin(Stdio::null());
        if let Some(index) = &self.index {
            git.env("GIT_INDEX_FILE", index);
        }
        for setting in SETTINGS {
            git.args(["-c", setting]);
        }
        // A name can contain every character, so it is no part of an argument. git wants its own form of a name with `=`.
        let mut count = 0_u32;
        for filter in &self.filters {
            for (key, value) in FILTER {
                let mut name = OsString::from("filter.");
                name.push(filter);
                name.push(format!(".{key}"));
                git.env(format!("GIT_CONFIG_KEY_{count}"), name);
                git.env(format!("GIT_CONFIG_VALUE_{count}"), value);
                count += 1;
            }
        }
        git.env("GIT_CONFIG_COUNT", count.to_string());
        git
    }

    /// Returns the working tree.
    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }
}

/// Returns what git said if it has done what it was to do.
fn succeeded(output: Output) -> Result<Vec<u8>, GitError> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(GitError::Failed(said.trim().replace('\n', "; ")))
}
