//! The permissions and limits of a command.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::author::Author;
use crate::copied_cache::CopiedCache;
use crate::domain::AllowedDomain;
use crate::environment::Environment;
use crate::screen::Screen;

/// Paths in a writable folder that a command may read but not change, because other programs run or
/// apply their content later, outside the sandbox.
pub const PROTECTED_PATHS: &[&str] = &[
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/info/attributes",
    ".git/modules",
    ".gitmodules",
    ".envrc",
    ".vscode",
    ".idea",
    ".husky",
    ".mcp.json",
    ".claude",
    ".codex",
    ".agents",
    ".cursor",
    ".loopwright",
    "loopwright.toml",
];

/// The permissions and limits of a command. Plain data; every field except the folder has a
/// default.
///
/// Several fields may name a path, or folders around it. The strictest of these applies, whatever
/// their order:
///
/// 1. `hidden`, with everything in it;
/// 2. absolute paths in `protected`, with everything in them: they can be read if they are shown;
/// 3. the innermost of `workdir`, `read_paths` and `write_paths`;
/// 4. inside the working folder and writable folders, relative paths in `protected`, and then
///    `direct`.
///
/// The system's programs and libraries stay visible if a folder around them is hidden.
///
/// ```
/// use loopwright_sandbox::{Network, SandboxPolicy};
/// use std::time::Duration;
///
/// let policy = SandboxPolicy::in_dir("/srv/project")
///     .read("/opt/toolchain")
///     .with_network(Network::Off)
///     .with_env("LANG", "C.UTF-8")
///     .with_timeout(Duration::from_secs(30));
/// assert_eq!(policy.read_paths, ["/opt/toolchain".into()] as [std::path::PathBuf; 1]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct SandboxPolicy {
    /// The folder where the command works.
    pub workdir: PathBuf,
    /// Whether the command may write there.
    #[serde(default)]
    pub workdir_access: WorkdirAccess,
    /// The paths that it may read, in addition to the system's programs and libraries.
    pub read_paths: Vec<PathBuf>,
    /// The paths that it may write, in addition to `workdir` and its scratch space.
    pub write_paths: Vec<PathBuf>,
    /// Paths relative to each writable folder that it may not change; a new file at such a path is
    /// moved away. An absolute path without links is protected only in its place, and also if
    /// another field makes it writable.
    pub protected: Vec<PathBuf>,
    /// Paths relative to `workdir`, or absolute ones, that it must not read, even if another field
    /// shows them. They are hidden if they exist when the command starts; of a link, the target is
    /// hidden. If one contains `workdir`, commands are refused.
    pub hidden: Vec<PathBuf>,
    /// Its network access.
    pub network: Network,
    /// Its environment.
    pub environment: Environment,
    /// Its limits.
    pub limits: Limits,
    /// The captured amount of output, and the amount that ends the command.
    pub output: OutputLimits,
    /// The selection of the backend.
    pub backend: BackendChoice,
    /// Weaker backends that may be used if the strong ones do not work here.
    pub accepted: BTreeSet<Backend>,
    /// Whether control groups are used where they can be written to.
    pub cgroup: Cgroup,
    /// Whether folders that contain more than a project may be writable.
    pub broad_paths: BroadPaths,
    /// The image of a container; other backends ignore it.
    pub image: String,
    /// The folder in which changes to the working folder are staged. `None` means that changes are
    /// applied immediately. See [`Transaction`](crate::transaction::Transaction).
    #[serde(default)]
    pub staging: Option<PathBuf>,
    /// Folders, relative to the working folder, in which changes are applied immediately although
    /// others are staged, such as build folders. A folder that does not exist when the command
    /// starts is not direct, nor is one in a protected path.
    #[serde(default)]
    pub direct: Vec<PathBuf>,
    /// A cache folder for package managers. The command sees it as `.cache` in its home if the
    /// backend gives it a home of its own, and otherwise at its real path; `XDG_CACHE_HOME` and the
    /// variables of package managers point to it. It contains only reproducible data, and no
    /// program outside the sandbox runs its content, so files in it do not count as changes and are
    /// not screened. A command whose changes are [discarded](WorkdirAccess::Discarded) has a copy, or, where its changes are not
    /// staged, an empty folder. `None` means no cache. The backend [`Backend::Host`] ignores it.
    #[serde(default)]
    pub cache: Option<PathBuf>,
    /// Caches of the user that commands see as copies-on-write: they can change them, and the
    /// user's files stay as they are. Changes of a command whose changes are
    /// [discarded](WorkdirAccess::Discarded) are discarded here, too. Only the backend [`Backend::Namespaces`] supports this; the
    /// others ignore it, as does this one where the kernel has no overlays.
    #[serde(default)]
    pub copied_caches: Vec<CopiedCache>,
    /// The author of commits: git in the sandbox has this name and address, and no other settings
    /// of the user. The backend [`Backend::Host`] ignores it. `None` means that git has no name.
    #[serde(default)]
    pub author: Option<Author>,
}

/// Whether a command may write to its working folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkdirAccess {
    /// The command may write, except to protected paths.
    #[default]
    Writable,
    /// The command may not write, except to [`SandboxPolicy::write_paths`] in the folder.
    ReadOnly,
    /// The command may write if changes are staged, and the caller discards them. If they are not
    /// staged, this is the same as [`WorkdirAccess::ReadOnly`]. No folder is
    /// [direct](SandboxPolicy::direct).
    Discarded,
}

/// How a policy keeps commands from a path that other fields may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// Commands cannot read it.
    Hidden,
    /// Commands cannot change it.
    Protected,
}

/// The network access of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None: a separate network in which no interface is up.
    Off,
    /// Its own processes: a separate network with its own loopback interface.
    #[default]
    Loopback,
    /// Its own processes, and these hosts by name, through a proxy that connects to no others. The
    /// backends [`Backend::Namespaces`] and [`Backend::Bubblewrap`] enforce this; the others refuse
    /// the command.
    Domains(Vec<AllowedDomain>),
    /// Everything that the host can reach.
    Host,
}

impl Network {
    /// Returns `true` if a command can reach at most its own processes.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Off | Self::Loopback)
    }

    /// Adds hosts that a command may reach. Does not change access to the machine's own network.
    #[must_use]
    pub fn with_domains(self, domains: impl IntoIterator<Item = AllowedDomain>) -> Self {
        let mut domains = domains.into_iter().peekable();
        match self {
            Self::Off | Self::Loopback if domains.peek().is_some() => {
                Self::Domains(domains.collect())
            }
            Self::Domains(mut granted) => {
                granted.extend(domains);
                granted.sort();
                granted.dedup();
                Self::Domains(granted)
            }
            network => network,
        }
    }
}

/// The limits of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The time from start to end.
    pub timeout: Duration,
    /// The time without output.
    pub idle_timeout: Option<Duration>,
    /// The processor time of all its processes together.
    pub cpu: Option<Duration>,
    /// The grace period between the request to exit and the kill.
    pub grace: Duration,
    /// The memory of all its processes together, in bytes.
    pub memory: u64,
    /// The number of concurrent processes and threads.
    pub processes: u64,
    /// The size of each written file, in bytes.
    pub file_size: u64,
    /// The size of its private `/tmp`, and of its private `/dev/shm`, in bytes.
    pub scratch: u64,
    /// The number of open files of each process.
    pub open_files: u64,
}

/// The captured amount of output per stream, and the amount of output that ends the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLimits {
    /// The number of bytes kept from the beginning.
    pub head: usize,
    /// The number of bytes kept from the end.
    pub tail: usize,
    /// The number of bytes of both streams after which the command is ended; `None` means no limit.
    pub kill: Option<u64>,
}

/// A way to confine a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Namespaces, Landlock and a system call filter, set up by this crate.
    Namespaces,
    /// The same, with a root file system built by the program `bwrap`.
    Bubblewrap,
    /// Landlock and a system call filter, without namespaces.
    Landlock,
    /// A container of Docker.
    Docker,
    /// A container of Podman.
    Podman,
    /// No confinement, only limits, a clean environment and the end of all processes.
    Host,
}

/// The selection of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendChoice {
    /// The first one that works: namespaces, bubblewrap, then those allowed by
    /// [`SandboxPolicy::allow_weaker`].
    #[default]
    Auto,
    /// Only this backend.
    Only(Backend),
}

/// Whether control groups are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cgroup {
    /// Limits on memory and processes are enforced by resource limits and by monitoring.
    Off,
    /// They are also enforced by a control group, if one can be created.
    #[default]
    IfWritable,
}

/// Whether a [`BroadFolder`](crate::BroadFolder) may be writable. Of the paths in [`SandboxPolicy::write_paths`], those inside a
/// folder of the system or a hidden folder of the home count as chosen, and are writable in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadPaths {
    /// Such a folder is refused.
    #[default]
    Refused,
    /// Such a folder is allowed.
    Allowed,
}

impl SandboxPolicy {
    /// Creates a policy for commands that work in this folder, without network, with the default
    /// limits.
    pub fn in_dir(workdir: impl Into<PathBuf>) -> Self {
        Self {
            workdir: workdir.into(),
            workdir_access: WorkdirAccess::default(),
            read_paths: Vec::new(),
            write_paths: Vec::new(),
            protected: PROTECTED_PATHS.iter().map(PathBuf::from).collect(),
            hidden: Vec::new(),
            network: Network::default(),
            environment: Environment::default(),
            limits: Limits::default(),
            output: OutputLimits::default(),
            backend: BackendChoice::default(),
            accepted: BTreeSet::new(),
            cgroup: Cgroup::default(),
            broad_paths: BroadPaths::default(),
            image: "debian:stable-slim".to_owned(),
            staging: None,
            direct: Vec::new(),
            cache: None,
            copied_caches: Vec::new(),
            author: None,
        }
    }

    /// Adds a folder, relative to the working folder, in which changes are applied immediately
    /// although others are staged.
    pub fn with_direct_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.direct.push(path.into());
        self
    }

    /// Sets the cache folder for package managers; see
    /// [`SandboxPolicy::cache`](field@SandboxPolicy::cache).
    pub fn with_cache(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache = Some(path.into());
        self
    }

    /// Adds a cache of the user that commands see as a copy-on-write.
    pub fn with_copied_cache(mut self, cache: CopiedCache) -> Self {
        self.copied_caches.push(cache);
        self
    }

    /// Sets the author of commits; see [`SandboxPolicy::author`](field@SandboxPolicy::author).
    pub fn with_author(mut self, author: Author) -> Self {
        self.author = Some(author);
        self
    }

    /// Adds to a screen the protected paths of this policy beyond [`PROTECTED_PATHS`], and allows
    /// links to the paths that commands may read. For `PROTECTED_PATHS`, the screen itself decides
    /// which changes are harmless, such as most git settings.
    pub fn screen(&self, screen: Screen) -> Screen {
        let is_standard = |path: &&PathBuf| PROTECTED_PATHS.iter().any(|known| ***path == **known);
        let followed = self.clone().with_protected_links_followed();
        let beyond = followed.protected.iter().filter(|path| !is_standard(path));
        let screen = beyond.fold(screen, Screen::refuse);
        self.read_paths.iter().fold(screen, Screen::reach)
    }

    /// Adds a path that may be read.
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.read_paths.push(path.into());
        self
    }

    /// Makes the working folder read-only. Paths of [`SandboxPolicy::write`] stay writable, even
    /// inside the folder.
    ///
    /// ```
    /// use loopwright_sandbox::SandboxPolicy;
    ///
    /// let policy = SandboxPolicy::in_dir("/srv/project").read_only().write("/srv/project/target");
    /// ```
    pub fn read_only(mut self) -> Self {
        self.workdir_access = WorkdirAccess::ReadOnly;
        self
    }

    /// Lets the command write to the working folder, but discards the changes, unless the folder is
    /// read-only.
    pub fn discard_changes(mut self) -> Self {
        if self.workdir_access == WorkdirAccess::Writable {
            self.workdir_access = WorkdirAccess::Discarded;
        }
        self
    }

    /// Returns `true` if the command may write to the working folder, but the changes are discarded.
    pub fn discards_changes(&self) -> bool {
        self.workdir_access == WorkdirAccess::Discarded
    }

    /// Adds a path that may be written to.
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.write_paths.push(path.into());
        self
    }

    /// Adds a path, relative to each writable folder or absolute, that must not be changed.
    pub fn protect(mut self, path: impl Into<PathBuf>) -> Self {
        self.protected.push(path.into());
        self
    }

    /// Adds a path, relative to the working folder or absolute, that must not be read.
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.hidden.push(path.into());
        self
    }

    /// Sets the network access.
    pub fn with_network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Adds a variable with a value, even if its name looks like that of a secret.
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment = self.environment.set(name, value);
        self
    }

    /// Sets the environment.
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the limits.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the time limit from start to end.
    pub fn with_timeout(mut self, wall: Duration) -> Self {
        self.limits.timeout = wall;
        self
    }

    /// Sets the time without output after which the command is ended.
    pub fn with_idle_timeout(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.limits.idle_timeout = idle.into();
        self
    }

    /// Sets the processor time of all processes together.
    pub fn with_cpu(mut self, cpu: impl Into<Option<Duration>>) -> Self {
        self.limits.cpu = cpu.into();
        self
    }

    /// Sets the grace period between the request to exit and the kill.
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.limits.grace = grace;
        self
    }

    /// Sets the memory limit of all processes together, in bytes.
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Sets the limit of concurrent processes and threads.
    pub fn with_processes(mut self, count: u64) -> Self {
        self.limits.processes = count;
        self
    }

    /// Sets the size limit of each written file, in bytes.
    pub fn with_file_size(mut self, bytes: u64) -> Self {
        self.limits.file_size = bytes;
        self
    }

    /// Sets the size of the private `/tmp`, in bytes.
    pub fn with_scratch(mut self, bytes: u64) -> Self {
        self.limits.scratch = bytes;
        self
    }

    /// Sets the number of open files of each process.
    pub fn with_open_files(mut self, count: u64) -> Self {
        self.limits.open_files = count;
        self
    }

    /// Sets the captured amount of output, and the amount that ends the command.
    pub fn with_output(mut self, caps: OutputLimits) -> Self {
        self.output = caps;
        self
    }

    /// Sets the selection of the backend.
    pub fn with_backend(mut self, driver: impl Into<BackendChoice>) -> Self {
        self.backend = driver.into();
        self
    }

    /// Allows a weaker backend if the strong ones do not work.
    pub fn allow_weaker(mut self, backend: Backend) -> Self {
        self.accepted.insert(backend);
        self
    }

    /// Sets whether control groups are used.
    pub fn with_cgroup(mut self, cgroup: Cgroup) -> Self {
        self.cgroup = cgroup;
        self
    }

    /// Sets whether a folder that contains more than a project may be writable.
    pub fn with_broad_paths(mut self, broad: BroadPaths) -> Self {
        self.broad_paths = broad;
        self
    }

    /// Sets the image of containers.
    pub fn with_image(mut self, image: impl Into<String>) -> Self {
        self.image = image.into();
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(2),
            idle_timeout: None,
            cpu: None,
            grace: Duration::from_millis(100),
            memory: 512 << 20,
            processes: 64,
            file_size: 64 << 20,
            scratch: 64 << 20,
            open_files: 1024,
        }
    }
}

impl OutputLimits {
    /// Keeps this many bytes of each stream, half of them from the beginning and half from the end.
    pub fn per_stream(bytes: usize) -> Self {
        Self { head: bytes / 2, tail: bytes - bytes / 2, ..Self::default() }
    }
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { head: 128 << 10, tail: 128 << 10, kill: Some(64 << 20) }
    }
}

impl Backend {
    /// All backends, strongest first.
    pub const ALL: [Self; 6] = [
        Self::Namespaces,
        Self::Bubblewrap,
        Self::Landlock,
        Self::Docker,
        Self::Podman,
        Self::Host,
    ];

    /// Returns the name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Host => "host",
        }
    }

    /// Parses the name of a backend.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.name() == name)
    }
}

impl std::fmt::Display for Backend {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl From<Backend> for BackendChoice {
    fn from(backend: Backend) -> Self {
        Self::Only(backend)
    }
}

#[cfg(test)]
mod tests;
