//! Working trees of git for sub-agents with `isolation: worktree`.

mod git;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::{AgentDefinition, Capability};
use loopwright_capabilities::bash::Background;
use loopwright_capabilities::child::{IsolateAgents, IsolatedPlace};
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_capabilities::permissions::Permissions;
use loopwright_core::{BoxError, IdempotencyKey, ToolCx};
use sha2::{Digest as _, Sha256};

use self::git::{Git, GitError};
use crate::commands::Commands;
use crate::console::chain;
use crate::project::{WORKTREES, leads_out, repository};
use crate::render::count;
use crate::tools;

/// The file that keeps the commit that a working tree began with, in the folder of the repository for it.
const BASE: &str = "loopwright-base";

/// Why an agent has no working tree.
#[derive(Debug, thiserror::Error)]
enum WorktreeError {
    #[error(
        "it works in a git worktree of its own, and {} is not in a git repository: do the task yourself, or tell the user to run `git init` and commit, or to remove `isolation` from the file of the agent",
        .0.display()
    )]
    NoRepository(PathBuf),
    #[error(
        "it works in a git worktree of its own, and the repository {} has no commit: do the task yourself, or tell the user to commit first",
        .0.display()
    )]
    NoCommit(PathBuf),
    #[error("its git worktree would be outside the repository: {} is a link", .0.display())]
    LeadsOut(PathBuf),
    #[error("its git worktree cannot be created")]
    Git(#[from] GitError),
    #[error("its git worktree cannot be created in {}", path.display())]
    Files {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("its git worktree cannot be created: the program is ending")]
    Ending,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> WorktreeError {
    move |source| WorktreeError::Files { path: path.to_path_buf(), source }
}

/// Gives sub-agents working trees of the repository that their parent works in, each on its own branch.
pub(crate) struct Worktrees {
    /// The folder that their parent works in, without links.
    workdir: WorkspaceRoot,
    commands: Commands,
    permissions: Permissions,
}

impl Worktrees {
    pub(crate) fn new(
        workdir: &WorkspaceRoot,
        commands: &Commands,
        permissions: &Permissions,
    ) -> Self {
        let (workdir, commands) = (workdir.clone(), commands.clone());
        Self { workdir, commands, permissions: permissions.clone() }
    }
}

#[async_trait]
impl IsolateAgents for Worktrees {
    async fn enter(
        &self,
        _definition: &AgentDefinition,
        cx: &ToolCx<'_>,
    ) -> Result<Box<dyn IsolatedPlace>, BoxError> {
        let (workdir, name) = (self.workdir.path().to_path_buf(), name_of(cx.key));
        let tree = away(move || Worktree::enter(&workdir, &name)).await??;
        Ok(Box::new(WorktreePlace {
            root: self.workdir.elsewhere(&tree.workdir),
            commands: self.commands.clone().in_worktree(
                &self.permissions.policy(),
                &tree.git_folder,
                &tree.original,
                tree.path(),
            ),
            tree,
        }))
    }
}

async fn away<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WorktreeError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| WorktreeError::Ending)
}

/// Returns the name of the working tree of a call, which is the same when the call is repeated.
fn name_of(key: &IdempotencyKey) -> String {
    let text = format!("{}/{}/{:?}", key.execution, key.step, key.call);
    let hash = format!("{:x}", Sha256::digest(text));
    format!("agent-{}", &hash[..12])
}

/// The working tree of one sub-agent.
#[derive(Clone, Debug)]
struct Worktree {
    name: String,
    git: Git,
    /// The working tree of the parent.
    original: PathBuf,
    /// The folder of the repository, which all its working trees share.
    git_folder: PathBuf,
    /// The folder in it that is the one of the parent.
    workdir: PathBuf,
    base: String,
}

impl Worktree {
    /// Makes a working tree, or finds the one that was made before.
    fn enter(workdir: &Path, name: &str) -> Result<Self, WorktreeError> {
        let none = || WorktreeError::NoRepository(workdir.to_path_buf());
        let original = repository(workdir).ok_or_else(none)?.to_path_buf();
        let of_original = Git::open(original.join(".git"), &original)?;
        let git_folder =
            of_original.run(["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        let git_folder = git_folder.map_err(|_| none())?;
        let head = of_original.run(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
        let head = head.map_err(|_| WorktreeError::NoCommit(original.clone()))?;
        let git_folder = fs::canonicalize(&git_folder).map_err(at(Path::new(&git_folder)))?;
        let path = folder(&original)?.join(name);
        let own = git_folder.join("worktrees").join(name);
        let branch = branch(name);
        if !path.join(".git").is_file() || !own.is_dir() {
            let reference = format!("refs/heads/{branch}");
            let is_there = of_original.run(["show-ref", "--verify", "--quiet", &reference]).is_ok();
            let mut line = vec!["worktree", "add", "--quiet", "--force", "--no-checkout"];
            let place = path.to_string_lossy();
            if is_there {
                line.extend([&*place, &*branch]);
            } else {
                line.extend(["-b", &branch, &place, &head]);
            }
            of_original.run(line)?;
        }
        let kept = own.join(BASE);
        let base = if let Ok(base) = fs::read_to_string(&kept) {
            base
        } else {
            fs::write(&kept, &head).map_err(at(&kept))?;
            head
        };
        let git = Git::open(&own, &path)?;
        // It is written when all files are there.
        if !own.join("index").exists() {
            git.run(["reset", "--quiet", "--hard"])?;
        }
        let below = workdir.strip_prefix(&original).unwrap_or(Path::new(""));
        let workdir = path.join(below);
        fs::create_dir_all(&workdir).map_err(at(&workdir))?;
        Ok(Self { name: name.to_owned(), git, original, git_folder, workdir, base })
    }

    fn path(&self) -> &Path {
        self.git.tree()
    }

    /// Removes it if nothing was changed. Otherwise returns what is there.
    fn leave(&self) -> Result<Option<String>, WorktreeError> {
        // In a submodule, git would run another git, with the settings of that one.
        let line = ["status", "--porcelain", "--untracked-files=all", "--ignore-submodules=dirty"];
        let changed = self.git.run(line)?.lines().count() + self.filled_submodules()?;
        let range = format!("{}..HEAD", self.base);
        let commits = self.git.run(["rev-list", "--count", &range])?;
        let branch = branch(&self.name);
        let is_there = self.git.run(["rev-parse", "HEAD"])? == self.base;
        if changed == 0 && is_there {
            let original = Git::open(self.original.join(".git"), &self.original)?;
            let place = self.path().to_string_lossy();
            original.run(["worktree", "remove", "--force", "--force", &place])?;
            original.run(["branch", "--quiet", "-D", &branch])?;
            return Ok(None);
        }
        let commits = count(commits.parse().unwrap_or_default(), "commit");
        let changed = count(changed as u64, "changed file");
        Ok(Some(format!(
            "Its changes are in the git worktree {}, on the branch {branch}: {commits}, {changed} not committed",
            self.path().display()
        )))
    }

    /// Returns the number of submodules that have files. Git has filled none.
    fn filled_submodules(&self) -> Result<usize, WorktreeError> {
        let listed = self.git.run(["ls-files", "-z", "--stage"])?;
        let submodules = listed.split('\0').filter_map(|entry| entry.strip_prefix("160000 "));
        let paths =
            submodules.filter_map(|entry| Some(self.path().join(entry.split_once('\t')?.1)));
        let has_files = |path: &PathBuf| fs::read_dir(path).is_ok_and(|mut it| it.next().is_some());
        Ok(paths.filter(has_files).count())
    }
}

fn branch(name: &str) -> String {
    format!("worktree-{name}")
}

/// Returns the folder of the working trees of a repository. Git ignores it.
fn folder(original: &Path) -> Result<PathBuf, WorktreeError> {
    let folder = original.join(WORKTREES);
    let mut made = original.to_path_buf();
    for name in Path::new(WORKTREES).components() {
        made.push(name);
        match fs::create_dir(&made) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(at(&made)(error));
            }
            _ if made.is_symlink() || leads_out(original, &made) => {
                return Err(WorktreeError::LeadsOut(made));
            }
            _ => {}
        }
    }
    let ignored = folder.join(".gitignore");
    match fs::OpenOptions::new().write(true).create_new(true).open(&ignored) {
        Ok(mut file) => io::Write::write_all(&mut file, b"*\n").map_err(at(&ignored))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(at(&ignored)(error)),
    }
    Ok(folder)
}

/// A working tree, and the tools that work in it.
struct WorktreePlace {
    tree: Worktree,
    root: WorkspaceRoot,
    commands: Commands,
}

#[async_trait]
impl IsolatedPlace for WorktreePlace {
    fn capabilities(&self) -> Vec<Arc<dyn Capability>> {
        // Of the tools for commands in the background, the sub-agent gets those that its parent has.
        let tools = tools::tools(&self.root, &self.commands).with_background(Background::Allowed);
        vec![Arc::new(tools)]
    }

    fn describe(&self) -> String {
        let (folder, branch) = (self.tree.workdir.display(), branch(&self.tree.name));
        format!(
            "[You work in {folder}, a git worktree of your own on the branch {branch}. It has the files as they were last committed. Your tools reach \
             nothing else, and no commits can be made in it: leave your changes in the files; they are collected from there.]"
        )
    }

    async fn leave(self: Box<Self>) -> Option<String> {
        let tree = self.tree.clone();
        let left = match away(move || tree.leave()).await {
            Ok(left) => left,
            Err(error) => Err(error),
        };
        left.unwrap_or_else(|error| {
            let (path, error) = (self.tree.path().display(), chain(&error));
            Some(format!("Its git worktree {path} was not removed: {error}"))
        })
    }
}

#[cfg(test)]
mod tests;
