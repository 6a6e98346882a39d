//! How commands of agents are run here: with the toolchains of the user, limits of the machine, and what the user has
//! configured.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use loopwright_capabilities::background::BackgroundTasks;
use loopwright_capabilities::bash::{LastingCommands, OutputWatch};
use loopwright_capabilities::coding::UseCodingTools;
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_permissions::{Mode, Policy};
use loopwright_sandbox::toolchains::{Caches, Toolchains};
use loopwright_sandbox::{Author, Backend, BackendChoice, Limits, Network, SandboxPolicy};
use loopwright_sessions::SessionId;

use crate::config::{Config, ConfigSources, MAX_TIMEOUT, SandboxSettings, Setting, Strings};
use crate::denied_paths::{DeniedPaths, FolderCopy};
use crate::own_paths::{OwnPaths, without_links};
use crate::store::state_directory;
use crate::worktrees::GitReach;

/// How commands are run. The default is a sandbox in which there is only the system.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// What the user has configured.
    pub(crate) settings: SandboxSettings,
    /// What is there of the user's toolchains.
    pub(crate) toolchains: Toolchains,
    /// What package managers keep. `None` means that there is no place for it.
    pub(crate) caches: Option<Caches>,
    /// Who commits.
    pub(crate) author: Author,
    /// What this program keeps for its user, which they do not see or change.
    own: OwnPaths,
    /// The files that permission rules deny.
    denied: DeniedPaths,
    /// The folders that they use besides the directory.
    pub(crate) folders: Vec<PathBuf>,
    /// What git reads of the repository whose working tree they use. Empty if the repository is in the directory, or there is none.
    repository: Vec<PathBuf>,
    /// How far they reach the repository of the directory.
    reach: GitReach,
    /// The working tree that they use instead of a folder. `None` means that they work in the directory itself.
    copy: Option<FolderCopy>,
    /// Whether what they change is discarded.
    is_discarded: bool,
    /// Commands and sub-agents in the background.
    pub(crate) tasks: BackgroundTasks,
    /// Those that live on between the turns of a conversation; `None` if they end with their run.
    pub(crate) lasting: Option<LastingCommands>,
    /// What watches what they print.
    pub(crate) output: OutputWatch,
    driver: BackendChoice,
    limits: Limits,
    /// The user's home.
    pub(crate) home: Option<PathBuf>,
    /// The session in which they run; `None` outside of one.
    pub(crate) session: Option<SessionId>,
    environment: BTreeMap<String, OsString>,
}

/// How long the author of a folder is not read again: a server prepares many sessions at a time, and git is a process.
const SAME_AUTHOR: Duration = Duration::from_secs(5);

/// Returns the author of commits in a folder. Blocks while git runs.
fn author(workdir: &Path) -> Author {
    static LAST: Mutex<Option<(PathBuf, Instant, Author)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((path, at, author)) if path == workdir && at.elapsed() < SAME_AUTHOR => author.clone(),
        _ => {
            let author = Author::of_git(workdir);
            *last = Some((workdir.to_owned(), Instant::now(), author.clone()));
            author
        }
    }
}

/// How much of the user's a driver can show.
fn shows_toolchains(driver: BackendChoice) -> bool {
    // A container has programs of its own.
    !matches!(driver, BackendChoice::Only(Backend::Docker | Backend::Podman))
}

/// Returns `true` if commands run in a sandbox.
fn confines(driver: BackendChoice) -> bool {
    driver != BackendChoice::Only(Backend::Host)
}

/// Returns `true` if the commands of a configuration run in a sandbox.
pub(crate) fn are_confined(settings: &SandboxSettings) -> bool {
    confines(chosen(settings)) && keeps_to_itself(settings)
}

/// Returns `true` if commands reach at most the hosts that the user has named.
fn keeps_to_itself(settings: &SandboxSettings) -> bool {
    settings.network.as_ref().is_none_or(|network| network.value.0 != Network::Host)
}

/// A command that is not confined has the user's home.
fn has_own_home(driver: BackendChoice) -> bool {
    shows_toolchains(driver) && confines(driver)
}

impl Commands {
    /// Looks at what there is for commands in the directory of a configuration. Blocks while it looks.
    pub fn of(config: &Config, sources: &ConfigSources) -> Self {
        Self::with_driver(config, sources, chosen(&config.sandbox))
    }

    /// The same with another driver than the one that is configured.
    pub(crate) fn with_driver(
        config: &Config,
        sources: &ConfigSources,
        driver: BackendChoice,
    ) -> Self {
        let settings = config.sandbox.clone();
        let workdir = &config.workdir;
        let mut commands = Self {
            settings,
            driver,
            limits: Limits::of_machine(),
            home: sources.home.clone(),
            own: OwnPaths::of(config, sources),
            environment: sources.environment.clone(),
            ..Self::default()
        };
        if shows_toolchains(driver) {
            let home = sources.home.as_deref();
            commands.toolchains = Toolchains::found(&sources.environment, home, workdir);
            if !confines(driver) {
                commands.toolchains = commands.toolchains.without_inactive_environment();
            }
            let own = commands.paths(commands.settings.path.as_ref(), workdir);
            commands.toolchains.read.extend(own.iter().cloned());
            commands.toolchains.path.splice(0..0, own);
        }
        if confines(driver) {
            commands.reach = GitReach::of(workdir);
            commands.repository = commands.reach.paths().to_vec();
        }
        if has_own_home(driver) {
            commands.author = author(workdir);
            commands.caches = caches(config, sources);
        }
        commands
    }

    /// Lets commands use the folders of a root besides its directory.
    pub(crate) fn with_folders_of(self, root: &WorkspaceRoot) -> Self {
        Self { folders: root.folders().map(Path::to_path_buf).collect(), ..self }
    }

    /// Lets commands change these paths besides the directory.
    pub(crate) fn with_written(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.folders.extend(paths);
        self
    }

    /// Keeps commands from changing the files that hooks run.
    pub(crate) fn with_hook_files(self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { own: self.own.with_settings(files), ..self }
    }

    /// Lets commands in the background live on between the turns of a conversation, until it ends.
    pub(crate) fn lasting(self) -> Self {
        Self { lasting: Some(LastingCommands::listed_in(self.tasks.clone())), ..self }
    }

    /// Takes over the background commands of another conversation.
    pub(crate) fn take_over(&mut self, from: &Self) {
        (self.tasks, self.lasting) = (from.tasks.clone(), from.lasting.clone());
    }

    /// Ends the commands in the background that live on between turns.
    pub(crate) async fn end(&self) {
        if let Some(lasting) = &self.lasting {
            lasting.end().await;
        }
    }

    /// Keeps commands from the files that rules deny.
    pub(crate) fn denying(self, policy: &Policy) -> Self {
        Self { denied: DeniedPaths::of(policy), ..self }
    }

    /// Lets commands work in a copy of a folder, which is a working tree of a repository, of which git reads the paths `repository`. What
    /// rules and settings say about a path in the folder holds in the copy.
    pub(crate) fn in_worktree(
        self,
        policy: &Policy,
        repository: Vec<PathBuf>,
        folder: FolderCopy,
    ) -> Self {
        let denied = self.denied.in_copy(policy, &folder);
        Self { denied, repository, copy: Some(folder), ..self }
    }

    /// Keeps commands from the files that rules deny. In mode `plan`, what they change is discarded.
    pub(crate) fn under(self, policy: &Policy) -> Self {
        Self { is_discarded: policy.mode() == Mode::Plan, ..self.denying(policy) }
    }

    /// Lets commands do what they may do here.
    pub(crate) fn extend(&self, mut policy: SandboxPolicy) -> SandboxPolicy {
        let settings = &self.settings;
        let (wall, workdir) = (policy.limits.timeout, policy.workdir.clone());
        policy =
            policy.with_limits(self.limits.clone()).with_timeout(wall).with_backend(self.driver);
        if let Some(memory) = &settings.memory {
            policy = policy.with_memory(memory.value.0);
        }
        if let Some(processes) = &settings.processes {
            policy = policy.with_processes(processes.value.get());
        }
        let moved = |paths| match &self.copy {
            Some(folder) => folder.moved(paths),
            None => paths,
        };
        let read = moved(self.paths(settings.read.as_ref(), &workdir));
        policy = read.into_iter().fold(policy, SandboxPolicy::read);
        let written = moved(self.written(&workdir));
        // A repository in a folder that the user adds can be changed. Not so by sub-agents with a working tree of their own.
        let targets: Vec<PathBuf> = written.iter().map(|it| without_links(it)).collect();
        let is_added = |path: &PathBuf| targets.iter().any(|it| path.starts_with(it));
        let is_written = |path: &&PathBuf| self.copy.is_none() && is_added(path);
        // What git has removed since does not hinder commands.
        let read = self.repository.iter().filter(|path| !is_written(path) && path.exists());
        policy = read.fold(policy, SandboxPolicy::read);
        let open = if self.is_discarded { SandboxPolicy::read } else { SandboxPolicy::write };
        policy = written.iter().fold(policy, open);
        let hidden = self.paths(settings.hide.as_ref(), &workdir);
        policy = hidden.into_iter().fold(policy, SandboxPolicy::hide);
        policy =
            strings(settings.direct.as_ref()).iter().fold(policy, SandboxPolicy::with_direct_path);
        if let Some(network) = &settings.network {
            policy = policy.with_network(network.value.0.clone());
        }
        for variable in strings(settings.environment.as_ref()) {
            let of_user = || Some((variable.as_str(), self.environment.get(variable)?.to_str()?));
            if let Some((name, value)) = variable.split_once('=').or_else(of_user) {
                policy = policy.with_env(name, value);
            }
        }
        if shows_toolchains(policy.backend) {
            policy = self.toolchains.extend(policy);
        }
        if let Some(caches) = &self.caches {
            policy = caches.copy(caches.extend(policy), &self.toolchains);
        }
        if has_own_home(policy.backend) {
            policy = policy.with_author(self.author.clone());
        }
        let policy = self.own.confine(policy);
        let policy = match &self.copy {
            Some(folder) => folder.confine(policy),
            None => policy,
        };
        let policy = self.denied.confine(policy);
        if self.is_discarded { policy.discard_changes() } else { policy }
    }

    /// Lets programs that the user has configured, such as hooks and servers, do what commands may do. They may get secrets and
    /// hosts, and hooks decide about calls, so commands must not be able to replace what they run.
    pub(crate) fn extend_for_user_programs(&self, policy: SandboxPolicy) -> SandboxPolicy {
        let mut changeable = self.written(&policy.workdir);
        changeable.push(policy.workdir.clone());
        let changeable: Vec<PathBuf> = changeable.iter().map(|it| without_links(it)).collect();
        let toolchains = self.toolchains.clone().with_changeable_last(&changeable);
        let caches = self.caches.as_ref().and_then(|it| it.of_user_programs().ok());
        Self { toolchains, caches, ..self.clone() }.extend(policy)
    }

    /// Lets tools run commands so.
    pub(crate) fn apply(&self, tools: UseCodingTools) -> UseCodingTools {
        let tools = self.allowed().iter().fold(tools, UseCodingTools::allow);
        let tools = match &self.settings.timeout {
            Some(timeout) => tools.with_max_timeout(timeout.value),
            None => tools,
        };
        // What a command asks for is decided about by the permissions, which every run has.
        let tools = tools.with_background_tasks(self.tasks.clone());
        let tools = match &self.lasting {
            Some(lasting) => tools.with_lasting_commands(lasting.clone()),
            None => tools,
        };
        let tools = tools.with_output_watch(self.output.clone());
        tools.confine(|policy| self.extend(policy)).allow_needs(self.home.clone())
    }

    /// Returns `true` if commands run in a sandbox.
    pub(crate) fn are_confined(&self) -> bool {
        confines(self.driver) && keeps_to_itself(&self.settings)
    }

    /// Says what git cannot do for them. `None` means that it works, or that there is no repository.
    pub(crate) fn git_note(&self, workdir: &Path) -> Option<String> {
        self.are_confined().then(|| self.reach.note(&self.written(workdir))).flatten()
    }

    /// Says why agents change nothing in a folder. `None` means that it can be the folder of a project.
    pub(crate) fn broad(&self, folder: &Path) -> Option<String> {
        self.own.broad(folder)
    }

    /// Says what hides a path, which is without links, from commands.
    pub(crate) fn hidden_by(&self, path: &Path) -> &'static str {
        self.own.hidden_by(path).unwrap_or("a permission rule denies it")
    }

    /// The folders besides the directory that they can change.
    fn written(&self, workdir: &Path) -> Vec<PathBuf> {
        let mut written = self.paths(self.settings.write.as_ref(), workdir);
        written.extend(self.folders.iter().cloned());
        written
    }

    /// What commands may leave behind that is refused otherwise.
    pub(crate) fn allowed(&self) -> &[String] {
        strings(self.settings.allow.as_ref())
    }

    /// The folder of the user's own hooks.
    pub(crate) fn own_hooks(&self) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(".claude/hooks"))
    }

    /// How long a command may take at most.
    pub(crate) fn longest(&self) -> Duration {
        self.settings.timeout.as_ref().map_or(MAX_TIMEOUT, |it| it.value)
    }

    /// Reads paths as people write them.
    fn paths(&self, setting: Option<&Setting<Strings>>, workdir: &Path) -> Vec<PathBuf> {
        setting.map_or_else(Vec::new, |it| it.value.to_paths(workdir, self.home.as_deref()))
    }
}

/// Finds or creates the caches of a project. Where the program keeps nothing, it begins to do so with a session and not
/// with a command.
fn caches(config: &Config, sources: &ConfigSources) -> Option<Caches> {
    let state = state_directory(sources).filter(|state| state.is_dir())?;
    Caches::in_folder(&state.join("caches"), &config.workdir).ok().flatten()
}

fn chosen(settings: &SandboxSettings) -> BackendChoice {
    settings.backend.as_ref().map(|it| it.value).unwrap_or_default()
}

fn strings(setting: Option<&Setting<Strings>>) -> &[String] {
    setting.map_or(&[], |it| it.value.0.as_slice())
}
