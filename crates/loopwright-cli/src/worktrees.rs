//! Working trees of git for sub-agents with `isolation: worktree`.

mod changes;
mod git;
mod owned;
mod started;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
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
use self::owned::Repository;
pub(crate) use self::started::GitReach;
use crate::commands::Commands;
use crate::console::chain;
use crate::denied_paths::FolderCopy;
use crate::project::{WORKTREES, leads_out, repository};
use crate::render::count;
use crate::tools;

/// The file that keeps the commit that a working tree began with, in the folder of the repository for it. It is there from the moment when all
/// files are written until the working tree is removed.
const BASE: &str = "loopwright-base";

/// Why an agent has no working tree.
#[derive(Debug, thiserror::Error)]
enum WorktreeError {
    #[error(
        "the agent works in its own git worktree, and {} is not in a git repository; do the task yourself, or tell the user to run `git init` and commit, or to remove `isolation` from the agent's file",
        .0.display()
    )]
    NoRepository(PathBuf),
    #[error(
        "the agent works in its own git worktree, and the repository {} has no commit; do the task yourself, or tell the user to commit first",
        .0.display()
    )]
    NoCommit(PathBuf),
    #[error(
        "the agent works in its own git worktree, and {0} points to the repository {1}, which does not list {2} among its working trees; do the task yourself, or tell \
         the user to start in a folder created by `git worktree add`, or, if the repository belongs to this folder alone, to run \
         `git config --file {1}/config core.worktree {2}`",
        tree.join(".git").display(), target.display(), tree.display()
    )]
    Elsewhere { tree: PathBuf, target: PathBuf },
    #[error(
        "the agent works in its own git worktree, but {} is a link that would make git use files from another repository; do the task yourself, or tell the user to \
         replace the link with its target",
        .0.display()
    )]
    ForeignFile(PathBuf),
    #[error(
        "the agent works in its own git worktree, and {} makes git read another repository; do the task yourself, or tell the user to run `git repack -a -d`, \
         and then to remove that file",
        .0.display()
    )]
    Alternates(PathBuf),
    #[error("the agent's git worktree would be outside the repository: {} is a symbolic link", .0.display())]
    LeadsOut(PathBuf),
    #[error("the agent's git worktree cannot be created")]
    Git(#[from] GitError),
    #[error("the agent's git worktree cannot be created in {}", path.display())]
    Files {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the agent's git worktree cannot be created: the program is exiting")]
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
        let root = self.workdir.clone();
        let (root, read, tree) = away(move || {
            let root = root.in_copy(&tree.workdir, &tree.original, tree.path());
            (root, tree.read_by_commands(), tree)
        })
        .await?;
        let copy = FolderCopy { original: tree.original.clone(), copy: tree.path().to_path_buf() };
        let policy = self.permissions.policy();
        let commands = self.commands.clone().in_worktree(&policy, read, copy);
        Ok(Box::new(WorktreePlace { tree, root, commands }))
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
    repository: Repository,
    /// The folder in it that is the one of the parent.
    workdir: PathBuf,
    base: String,
}

impl Worktree {
    /// Makes a working tree, or finds the one that was made before.
    fn enter(workdir: &Path, name: &str) -> Result<Self, WorktreeError> {
        let none = || WorktreeError::NoRepository(workdir.to_path_buf());
        let original = repository(workdir).ok_or_else(none)?.to_path_buf();
        let repository = Repository::of(&original)?;
        let of_original = Git::open(&repository.own, &original)?;
        of_original.run(["rev-parse", "--git-dir"]).map_err(|_| none())?;
        let head = of_original.run(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
        let head = head.map_err(|_| WorktreeError::NoCommit(original.clone()))?;
        let path = folder(&original)?.join(name);
        let own = repository.shared.join("worktrees").join(name);
        let kept = own.join(BASE);
        let is_complete = path.join(".git").is_file() && own.is_dir() && kept.is_file();
        let (git, base) = if is_complete {
            (Git::open(&own, &path)?, fs::read_to_string(&kept).map_err(at(&kept))?)
        } else {
            Self::make(&of_original, &repository.shared, &path, name, &head)?
        };
        let below = workdir.strip_prefix(&original).unwrap_or(Path::new(""));
        let workdir = path.join(below);
        fs::create_dir_all(&workdir).map_err(at(&workdir))?;
        Ok(Self { name: name.to_owned(), git, original, repository, workdir, base })
    }

    /// Makes a working tree, and returns it with the commit that it begins with.
    fn make(
        of_original: &Git,
        shared: &Path,
        path: &Path,
        name: &str,
        head: &str,
    ) -> Result<(Git, String), WorktreeError> {
        let (own, branch) = (shared.join("worktrees").join(name), branch(name));
        let reference = format!("refs/heads/{branch}");
        // The program was ended before all files were written, or while it removed them: nothing in it is work.
        if own.is_dir() && !own.join(BASE).exists() {
            remove(path, fs::remove_dir_all)?;
        }
        remove(&shared.join(format!("{reference}.lock")), fs::remove_file)?;
        if !path.exists() {
            remove(&own, fs::remove_dir_all)?;
        }
        let is_there = of_original.run(["show-ref", "--verify", "--quiet", &reference]).is_ok();
        let line = ["worktree", "add", "--quiet", "--force", "--no-checkout"].map(OsStr::new);
        let place = path.as_os_str();
        let rest = if is_there {
            vec![place, OsStr::new(&branch)]
        } else {
            vec![OsStr::new("-b"), OsStr::new(&branch), place, OsStr::new(head)]
        };
        of_original.run(line.into_iter().chain(rest))?;
        let git = Git::open(&own, path)?;
        git.run(["reset", "--quiet", "--hard"])?;
        // The branch of an earlier attempt may be at an older commit, or have commits of its own.
        let base = git.run(["merge-base", head, "HEAD"]).unwrap_or_else(|_| head.to_owned());
        let kept = own.join(BASE);
        fs::write(&kept, &base).map_err(at(&kept))?;
        Ok((git, base))
    }

    fn path(&self) -> &Path {
        self.git.tree()
    }

    /// The folder of the repository for it.
    fn own(&self) -> PathBuf {
        self.repository.shared.join("worktrees").join(&self.name)
    }

    fn read_by_commands(&self) -> Vec<PathBuf> {
        let mut paths = self.repository.read_by_commands();
        paths.push(self.own());
        paths
    }

    /// Removes it if nothing was changed. Otherwise returns what is there.
    fn leave(&self) -> Result<Option<String>, WorktreeError> {
        // In a submodule, git would run another git, with the settings of that one.
        let changed = changes::changed_files(&self.git, &self.own())? + self.filled_submodules()?;
        let range = format!("{}..HEAD", self.base);
        let commits = self.git.run(["rev-list", "--count", &range])?;
        let branch = branch(&self.name);
        let is_there = self.git.run(["rev-parse", "HEAD"])? == self.base;
        if changed == 0 && is_there {
            let original = Git::open(&self.repository.own, &self.original)?;
            remove(&self.own().join(BASE), fs::remove_file)?;
            let line = ["worktree", "remove", "--force", "--force"].map(OsStr::new);
            original.run(line.into_iter().chain([self.path().as_os_str()]))?;
            original.run(["branch", "--quiet", "-D", &branch])?;
            return Ok(None);
        }
        let commits = count(commits.parse().unwrap_or_default(), "commit");
        let changed = count(changed as u64, "changed file");
        Ok(Some(format!(
            "The sub-agent's changes are in the git worktree {}, on the branch {branch}: {commits}, {changed} not committed",
            self.path().display()
        )))
    }

    /// Returns the number of submodules that have files. Git has filled none.
    fn filled_submodules(&self) -> Result<usize, WorktreeError> {
        let listed = self.git.bytes(["ls-tree", "-z", "-r", "HEAD"])?;
        let entries = listed.split(|byte| *byte == 0);
        let submodules = entries.filter_map(|entry| entry.strip_prefix(b"160000 "));
        let paths = submodules.filter_map(|entry| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            Some(self.path().join(OsStr::from_bytes(&entry[tab + 1..])))
        });
        let has_files = |path: &PathBuf| fs::read_dir(path).is_ok_and(|mut it| it.next().is_some());
        Ok(paths.filter(has_files).count())
    }
}

/// Removes what may be there.
fn remove<'a>(
    path: &'a Path,
    by: impl FnOnce(&'a Path) -> io::Result<()>,
) -> Result<(), WorktreeError> {
    match by(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
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
            "[You work in {folder}, your own git worktree on the branch {branch}. It contains the files as last committed. Your tools \
             cannot access anything outside it. You cannot make commits in it: leave your changes in the files, from which they are collected.]"
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
            Some(format!("The sub-agent's git worktree {path} was not removed: {error}"))
        })
    }
}

#[cfg(test)]
mod tests;
