//! Git, run by the program itself: without hooks, filters and other programs that a repository's settings name.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Settings that win over those of the repository. With them, and without filters, git runs no other program and reaches no
/// other repository.
const SETTINGS: [&str; 10] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.sparseCheckout=false",
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
    /// Filters that its settings and those of the user name.
    filters: Vec<OsString>,
}

impl Git {
    /// Reads which filters a repository knows. Blocks while git runs, as all functions do.
    pub(super) fn open(
        directory: impl Into<PathBuf>,
        tree: impl Into<PathBuf>,
    ) -> Result<Self, GitError> {
        let mut git = Self { directory: directory.into(), tree: tree.into(), filters: Vec::new() };
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

    /// Runs git, and returns what it says on standard output, without the last line break.
    pub(super) fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String, GitError> {
        let output = self.output(arguments)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().replace('\n', "; ");
            return Err(GitError::Failed(said));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    }

    fn output<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Output, GitError> {
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
        git.args(arguments).output().map_err(GitError::Missing)
    }

    /// Returns the working tree.
    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }
}
