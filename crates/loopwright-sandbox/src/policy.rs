//! What a command may do and how much it may use.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::author::Author;
use crate::domain::AllowedDomain;
use crate::environment::Environment;
use crate::screen::Screen;

/// Paths below a writable folder that a command may read and never change: what they hold is run or obeyed
/// later, outside of the sandbox.
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

/// What a command may do and how much it may use. Plain data; every field has a default but the folder.
///
/// ```
/// use loopwright_sandbox::{Network, SandboxPolicy};
/// use std::time::Duration;
///
/// let policy = SandboxPolicy::in_dir("/srv/project")
///     .read("/opt/toolchain")
///     .network(Network::Off)
///     .env("LANG", "C.UTF-8")
///     .timeout(Duration::from_secs(30));
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
    /// What it may read besides the system's programs and libraries.
    pub read_paths: Vec<PathBuf>,
    /// What it may write besides `workdir` and its scratch space.
    pub write_paths: Vec<PathBuf>,
    /// Paths relative to each writable folder that it may not change; one that appears is moved away.
    pub protected: Vec<PathBuf>,
    /// Paths relative to `workdir` that it may not read.
    pub hidden: Vec<PathBuf>,
    /// Whom it may talk to.
    pub network: Network,
    /// What its environment holds.
    pub environment: Environment,
    /// How much it may use.
    pub limits: Limits,
    /// How much of its output is kept, and how much ends it.
    pub output: OutputLimits,
    /// Which driver runs it.
    pub backend: BackendChoice,
    /// Weaker backends that are good enough when the strong ones do not work here.
    pub accepted: BTreeSet<Backend>,
    /// Whether control groups are used where they can be written to.
    pub cgroup: Cgroup,
    /// Whether `/`, a home folder or a folder of the system may be written to.
    pub broad_paths: BroadPaths,
    /// What a container is made of; other drivers do not read it.
    pub image: String,
    /// Where changes to the working folder are collected instead of being made at once. `None` means that they
    /// are made at once. See [`Transaction`](crate::transaction::Transaction).
    #[serde(default)]
    pub staging: Option<PathBuf>,
    /// Folders, relative to the working folder, in which changes are made at once although the others are
    /// collected, such as those of a build. One that does not exist when the command starts is not direct.
    #[serde(default)]
    pub direct: Vec<PathBuf>,
    /// A folder for what package managers keep. The command finds it as `.cache` in its home where the driver gives it
    /// files of its own, and where it is otherwise; `XDG_CACHE_HOME` and the variables of package managers name it.
    /// It holds only what can be made again, and nothing outside of the sandbox runs what is in it: a command that
    /// fills it counts as one that leaves nothing behind, and what appears there is not screened. `None` means that
    /// nothing is kept. The driver [`Backend::Host`] does not use it.
    #[serde(default)]
    pub cache: Option<PathBuf>,
    /// Who commits: git in the sandbox has this name and address, and nothing else of the user's settings. The driver
    /// [`Backend::Host`] does not use it. `None` means that git has no name.
    #[serde(default)]
    pub author: Option<Author>,
}

/// Whether a command may write to the folder where it works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkdirAccess {
    /// It may, but for protected paths.
    #[default]
    Writable,
    /// It may not, but for [`SandboxPolicy::write_paths`] inside of the folder.
    ReadOnly,
}

/// Whom a command may talk to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nobody: a network of its own, in which no interface is up.
    Off,
    /// Its own processes: a network of its own with a loopback interface. The host's loopback is another one.
    #[default]
    Loopback,
    /// Its own processes, and these hosts by name: through a proxy that connects with no others. The drivers
    /// [`Backend::Namespaces`] and [`Backend::Bubblewrap`] enforce that; the others refuse the command.
    Domains(Vec<AllowedDomain>),
    /// Every caller whom the host can reach.
    Host,
}

impl Network {
    /// Returns `true` if a command reaches its own processes at most.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Off | Self::Loopback)
    }

    /// Adds hosts to those that a command may reach. A network that is the machine's own stays that.
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

/// How much a command may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Time from its start to its end.
    pub timeout: Duration,
    /// Time without output.
    pub idle_timeout: Option<Duration>,
    /// Processor time of all its processes together.
    pub cpu: Option<Duration>,
    /// Time between the request to end and the end, when time has run out.
    pub grace: Duration,
    /// Bytes of memory of all its processes together.
    pub memory: u64,
    /// Processes and threads at a time.
    pub processes: u64,
    /// Bytes of each file that it writes.
    pub file_size: u64,
    /// Bytes of its private `/tmp`, and of its private `/dev/shm`.
    pub scratch: u64,
    /// Open files of each process.
    pub open_files: u64,
}

/// How much output is kept of each stream, and how much of both ends the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLimits {
    /// Bytes kept from the beginning.
    pub head: usize,
    /// Bytes kept from the end.
    pub tail: usize,
    /// Bytes of both streams together after which the command is ended; `None` for no end.
    pub kill: Option<u64>,
}

/// A way to confine a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Namespaces, Landlock and a system call filter, set up by this crate.
    Namespaces,
    /// The same, with a root that the program `bwrap` builds.
    Bubblewrap,
    /// Landlock and a system call filter, without namespaces.
    Landlock,
    /// A container of Docker.
    Docker,
    /// A container of Podman.
    Podman,
    /// No confinement: limits, the environment and the end of all processes only.
    Host,
}

/// Which driver runs a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendChoice {
    /// The first that works: namespaces, bubblewrap, then what [`SandboxPolicy::allow_weaker`] has named.
    #[default]
    Auto,
    /// This one or none.
    Only(Backend),
}

/// Whether control groups are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cgroup {
    /// Limits on memory and processes come from resource limits, and from looking at what is used.
    Off,
    /// They come from a control group as well, if one can be made.
    #[default]
    IfWritable,
}

/// Whether a folder may be writable that holds more than a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BroadPaths {
    /// Such a folder is refused.
    #[default]
    Refused,
    /// Such a folder is the caller's decision.
    Allowed,
}

impl SandboxPolicy {
    /// A command that works in this folder, talks to nobody, and has the default limits.
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
            author: None,
        }
    }

    /// Adds a folder, relative to the working folder, in which changes are made at once although the others are
    /// collected.
    pub fn direct(mut self, path: impl Into<PathBuf>) -> Self {
        self.direct.push(path.into());
        self
    }

    /// Sets the folder for what package managers keep; see [`SandboxPolicy::cache`](field@SandboxPolicy::cache).
    pub fn cache(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache = Some(path.into());
        self
    }

    /// Sets who commits; see [`SandboxPolicy::author`](field@SandboxPolicy::author).
    pub fn author(mut self, author: Author) -> Self {
        self.author = Some(author);
        self
    }

    /// Adds to a screen what this policy protects beyond [`PROTECTED_PATHS`], and lets links lead to what it lets
    /// commands read. Of `PROTECTED_PATHS` the screen itself says which changes are data, such as most settings of git.
    pub fn screen(&self, screen: Screen) -> Screen {
        let is_standard = |path: &&PathBuf| PROTECTED_PATHS.iter().any(|known| ***path == **known);
        let beyond = self.protected.iter().filter(|path| !is_standard(path));
        let screen = beyond.fold(screen, Screen::refuse);
        self.read_paths.iter().fold(screen, Screen::reach)
    }

    /// Adds a path that may be read.
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.read_paths.push(path.into());
        self
    }

    /// Makes the folder where the command works read-only. Paths of [`SandboxPolicy::write`] stay writable, also
    /// those inside of the folder.
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

    /// Adds a path that may be written to.
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.write_paths.push(path.into());
        self
    }

    /// Adds a path, relative to each writable folder, that may not be changed.
    pub fn protect(mut self, path: impl Into<PathBuf>) -> Self {
        self.protected.push(path.into());
        self
    }

    /// Adds a path, relative to the working folder, that may not be read.
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.hidden.push(path.into());
        self
    }

    /// Sets whom the command may talk to.
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Adds a variable with a value. It is given as it is, also if its name looks like that of a secret.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment = self.environment.set(name, value);
        self
    }

    /// Sets what the command's environment holds.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets how much the command may use.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the time from start to end.
    pub fn timeout(mut self, wall: Duration) -> Self {
        self.limits.timeout = wall;
        self
    }

    /// Sets the time without output after which the command is ended.
    pub fn idle_timeout(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.limits.idle_timeout = idle.into();
        self
    }

    /// Sets the processor time of all processes together.
    pub fn cpu(mut self, cpu: impl Into<Option<Duration>>) -> Self {
        self.limits.cpu = cpu.into();
        self
    }

    /// Sets the time between the request to end and the end.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.limits.grace = grace;
        self
    }

    /// Sets the bytes of memory of all processes together.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Sets the number of processes and threads.
    pub fn processes(mut self, count: u64) -> Self {
        self.limits.processes = count;
        self
    }

    /// Sets the bytes of each written file.
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.limits.file_size = bytes;
        self
    }

    /// Sets the bytes of the private `/tmp`.
    pub fn scratch(mut self, bytes: u64) -> Self {
        self.limits.scratch = bytes;
        self
    }

    /// Sets the number of open files of each process.
    pub fn open_files(mut self, count: u64) -> Self {
        self.limits.open_files = count;
        self
    }

    /// Sets how much output is kept and how much ends the command.
    pub fn output(mut self, caps: OutputLimits) -> Self {
        self.output = caps;
        self
    }

    /// Sets which driver runs the command.
    pub fn backend(mut self, driver: impl Into<BackendChoice>) -> Self {
        self.backend = driver.into();
        self
    }

    /// Accepts a weaker backend where the strong ones do not work.
    pub fn allow_weaker(mut self, backend: Backend) -> Self {
        self.accepted.insert(backend);
        self
    }

    /// Sets whether control groups are used.
    pub fn cgroup(mut self, cgroup: Cgroup) -> Self {
        self.cgroup = cgroup;
        self
    }

    /// Sets whether a folder that holds more than a project may be written to.
    pub fn broad_paths(mut self, broad: BroadPaths) -> Self {
        self.broad_paths = broad;
        self
    }

    /// Sets the image of containers.
    pub fn image(mut self, image: impl Into<String>) -> Self {
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
    /// Every backend, the strongest first.
    pub const ALL: [Self; 6] = [
        Self::Namespaces,
        Self::Bubblewrap,
        Self::Landlock,
        Self::Docker,
        Self::Podman,
        Self::Host,
    ];

    /// The name as it is written on the command line and in reports.
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

    /// Finds a backend by its name.
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
