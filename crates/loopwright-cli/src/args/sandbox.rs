//! What can be said about a sandboxed command.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use loopwright_sandbox::{Backend, BackendChoice, Network};

/// What can be done with the sandbox itself.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum SandboxCommand {
    /// Run a command as an agent's would be run
    Exec(Box<ExecArgs>),
    /// Show what commands of agents see here, and what they may use
    Explain(ExplainArgs),
}

/// A folder that commands would work in.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ExplainArgs {
    /// The folder where commands work
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// A command: show which program it would be
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// A command and what it may do.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ExecArgs {
    /// The folder where the command works; it may write there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub workdir: PathBuf,
    /// Whom the command may talk to
    #[arg(long, value_name = "WHOM", value_enum, default_value = "loopback")]
    pub network: NetworkArg,
    /// Let it read this path as well
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub read: Vec<PathBuf>,
    /// Let it write to this path as well
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub write: Vec<PathBuf>,
    /// Do not let it read this path below the folder
    #[arg(long, value_name = "PATH")]
    pub hide: Vec<PathBuf>,
    /// Set a variable of its environment
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// End it after this many seconds
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "120")]
    pub timeout: Duration,
    /// End the command after this many seconds without output
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub idle_timeout: Option<Duration>,
    /// End it when all its processes use more memory; half of the machine's by default
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<u64>,
    /// Maximum number of processes; 512 by default
    #[arg(long, value_name = "N")]
    pub max_processes: Option<u64>,
    /// Maximum size of each written file; 1G by default
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub max_file_size: Option<u64>,
    /// Size of the private /tmp; a sixteenth of the machine's memory by default
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub tmp_size: Option<u64>,
    /// How much is printed of each stream, half of its beginning and half of its end
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "256K")]
    pub max_output: u64,
    /// What confines it
    #[arg(long, value_name = "BACKEND", value_enum, default_value = "auto")]
    pub backend: BackendArg,
    /// What becomes of its changes to the folder
    #[arg(long, value_name = "WHAT", value_enum, default_value = "apply")]
    pub changes: ChangesArg,
    /// Let it leave behind what is refused otherwise: a name, at any depth
    #[arg(long, value_name = "NAME")]
    pub allow: Vec<PathBuf>,
    /// The image of a container
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Write what happened to this file, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// What becomes of changes to the folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ChangesArg {
    /// They are made real when the command has ended
    #[default]
    Apply,
    /// They are shown, and forgotten
    Show,
    /// They are made at once, while it runs
    Direct,
}

/// What to look at on this machine.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DoctorArgs {
    /// One part; without it everything is looked at.
    #[command(subcommand)]
    pub command: Option<DoctorCommand>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What can be examined.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum DoctorCommand {
    /// Show what each backend of the sandbox enforces on this machine
    Sandbox,
}

/// Whom a command may talk to, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NetworkArg {
    /// Nobody
    Off,
    /// Its own processes
    Loopback,
    /// Everybody whom this machine can reach
    Host,
}

/// What confines a command, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// The strongest that works, or nothing
    Auto,
    /// Namespaces, Landlock and a system call filter
    Namespaces,
    /// Landlock and a system call filter
    Landlock,
    /// The program bwrap
    Bubblewrap,
    /// A container of Docker
    Docker,
    /// A container of Podman
    Podman,
    /// Nothing: no isolation
    Host,
}

impl From<NetworkArg> for Network {
    fn from(network: NetworkArg) -> Self {
        match network {
            NetworkArg::Off => Self::Off,
            NetworkArg::Loopback => Self::Loopback,
            NetworkArg::Host => Self::Host,
        }
    }
}

impl From<BackendArg> for BackendChoice {
    fn from(backend: BackendArg) -> Self {
        match backend {
            BackendArg::Auto => Self::Auto,
            BackendArg::Namespaces => Self::Only(Backend::Namespaces),
            BackendArg::Landlock => Self::Only(Backend::Landlock),
            BackendArg::Bubblewrap => Self::Only(Backend::Bubblewrap),
            BackendArg::Docker => Self::Only(Backend::Docker),
            BackendArg::Podman => Self::Only(Backend::Podman),
            BackendArg::Host => Self::Only(Backend::Host),
        }
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be a name and a value, such as `LANG=C`".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "must be a number of seconds, such as `30` or `0.5`".to_owned())
}

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "must be a size, such as `4096`, `64K`, `512M` or `2G`".to_owned())
}
