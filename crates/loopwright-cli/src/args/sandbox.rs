//! Arguments of `loopwright sandbox`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use loopwright_sandbox::{Backend, BackendChoice, Network};

use crate::config::{NetworkSetting, SettingValue as _, bytes};

/// The commands of `sandbox`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum SandboxCommand {
    /// Run a command as an agent would run it
    Exec(Box<ExecArgs>),
    /// Show what sandboxed commands can see and use
    Explain(ExplainArgs),
}

/// Arguments of `sandbox explain`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ExplainArgs {
    /// The directory in which commands run
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// Show which program would run for this command, and what it can do with the paths and hosts in its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Arguments of `sandbox exec`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ExecArgs {
    /// Run in this directory and allow writes to it
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub workdir: PathBuf,
    /// Set network access: `off`, `loopback`, `host`, or the host names that the command may reach, such as `crates.io,*.crates.io` [default: loopback]
    #[arg(long, value_name = "ACCESS", value_parser = network)]
    pub network: Option<Network>,
    /// Allow the command to read this path
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub read: Vec<PathBuf>,
    /// Allow the command to write to this path
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub write: Vec<PathBuf>,
    /// Prevent the command from reading this path inside the directory
    #[arg(long, value_name = "PATH")]
    pub hide: Vec<PathBuf>,
    /// Set an environment variable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub env: Vec<(String, String)>,
    /// Stop the command after S seconds
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "120")]
    pub timeout: Duration,
    /// Stop the command after S seconds without output
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub idle_timeout: Option<Duration>,
    /// Stop the command if its processes use more memory than this [default: half of the machine's memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory: Option<u64>,
    /// Allow at most N processes [default: 512]
    #[arg(long, value_name = "N")]
    pub max_processes: Option<u64>,
    /// Limit the size of each written file [default: 1G]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub max_file_size: Option<u64>,
    /// Limit the size of the private /tmp [default: a sixteenth of the machine's memory]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub tmp_size: Option<u64>,
    /// Limit the output kept from each stream: half from its start, half from its end
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "256K")]
    pub max_output: u64,
    /// Choose the sandbox backend
    #[arg(long, value_name = "BACKEND", value_enum, default_value = "auto")]
    pub backend: BackendArg,
    /// Choose how changes to the directory are applied
    #[arg(long, value_name = "MODE", value_enum, default_value = "apply")]
    pub changes: ChangesArg,
    /// Allow changes to files and folders that have this protected name, at any depth
    #[arg(long, value_name = "NAME")]
    pub allow: Vec<PathBuf>,
    /// Use this container image
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Write a JSON report to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// How changes to the directory are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ChangesArg {
    /// Apply changes when the command exits
    #[default]
    Apply,
    /// Show changes, then discard them
    Show,
    /// Apply changes immediately
    Direct,
}

/// Arguments of `doctor`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DoctorArgs {
    /// The part to check; `None` checks everything.
    #[command(subcommand)]
    pub command: Option<DoctorCommand>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The parts that `doctor` can check.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum DoctorCommand {
    /// Show what each sandbox backend enforces on this machine
    Sandbox,
}

/// The values of `--backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// The strongest backend that works, or no isolation
    Auto,
    /// Linux namespaces, Landlock and a system call filter
    Namespaces,
    /// Landlock and a system call filter
    Landlock,
    /// Bubblewrap
    Bubblewrap,
    /// A Docker container
    Docker,
    /// A Podman container
    Podman,
    /// No isolation
    Host,
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

fn network(text: &str) -> Result<Network, String> {
    let network = NetworkSetting::from_text(text).map(|it| it.0);
    network.ok_or_else(|| {
        "must be `off`, `loopback`, `host`, or host names such as `crates.io,*.crates.io`"
            .to_owned()
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "must be a number of seconds, such as `30` or `0.5`".to_owned())
}
