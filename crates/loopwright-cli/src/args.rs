//! The command line: what can be typed, and nothing about what it does.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ColorChoice, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCompleter;

use crate::completions;
use crate::config::{BaseUrl, Dollars, Flags, ModelRef, ModelRefs, OutputFormat};
use crate::prompt::PromptSource;

pub mod agents;
pub mod files;
mod help;
pub mod sandbox;
pub mod session;
pub mod sessions;
pub mod settings;
pub mod skills;
pub mod work;
mod values;

use session::SessionArgs;
use values::{BaseUrlParser, parsed};

/// Runs agents: a model that works with tools until the task is done.
#[derive(Clone, Debug, PartialEq, Parser)]
#[command(name = "loopwright", version, after_help = help::PROGRAM)]
pub struct Cli {
    /// Read this file in place of ~/.config/loopwright/config.toml
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Command {
    /// Give an agent a task and wait for its answer
    #[command(after_help = help::RUN)]
    Run(Box<RunArgs>),
    /// Talk to an agent, turn by turn
    #[command(after_help = help::CHAT)]
    Chat(Box<ChatArgs>),
    /// Manage saved sessions
    #[command(after_help = help::SESSIONS)]
    Sessions(sessions::SessionsArgs),
    /// List, show, check and create agent definition files
    #[command(after_help = help::AGENTS)]
    Agents(agents::AgentsArgs),
    /// List, show and check skills
    Skills(skills::SkillsArgs),
    /// Submit a job for a worker, and print the job and session IDs
    #[command(after_help = help::SUBMIT)]
    Submit(Box<work::SubmitArgs>),
    /// Process submitted jobs until stopped
    #[command(after_help = help::WORKER)]
    Worker(Box<work::WorkerArgs>),
    /// List submitted jobs, latest first
    Jobs(work::JobsArgs),
    /// Watch an agent with a scripted model; needs no key and no network
    Demo(DemoArgs),
    /// List providers, and models with what they take, can do and cost
    Models(ModelsArgs),
    /// Use the file tools of agents by hand
    #[command(subcommand)]
    Files(files::FilesCommand),
    /// Try the sandbox that commands of agents run in
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    /// Check keys, local servers, the sandbox and the session store
    #[command(after_help = help::DOCTOR)]
    Doctor(sandbox::DoctorArgs),
    /// Show each setting and its source
    #[command(subcommand)]
    Config(settings::ConfigCommand),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
}

/// What can be said about a run.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct RunArgs {
    /// What the agent should do, followed by what is piped in; `-` or nothing reads it from standard input
    #[arg(value_name = "PROMPT|-")]
    pub prompt: Option<String>,
    /// The same as PROMPT
    #[arg(short = 'p', long = "prompt", value_name = "PROMPT", conflicts_with = "prompt")]
    pub prompt_option: Option<String>,
    /// If the session is running, send the prompt to that run
    #[arg(long, help_heading = "Session", requires = "ResumeArgs", conflicts_with_all = ["fork", "no_session"])]
    pub steer: bool,
    /// Who answers, how much may be used, and where.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The session that it belongs to.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// What can be said about a conversation.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ChatArgs {
    /// Who answers, how much may be used, and where.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The session that it belongs to.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// What can be said about an agent and its surroundings.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct AgentArgs {
    /// The model and the provider that serves it
    #[arg(short, long, value_name = "PROVIDER/NAME", value_parser = parsed::<ModelRef>)]
    pub model: Option<ModelRef>,
    /// The models to ask, in this order, when that one cannot answer
    #[arg(long, value_name = "PROVIDER/NAME,…", value_parser = parsed::<ModelRefs>)]
    pub fallback: Option<ModelRefs>,
    /// Where the provider is reached
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = BaseUrlParser)]
    pub base_url: Option<BaseUrl>,
    /// The agent that works, of those that `loopwright agents list` shows; a session keeps its agent
    #[arg(long = "agent", value_name = "NAME", add = ArgValueCompleter::new(completions::agents))]
    pub definition: Option<String>,
    /// The system prompt; with an agent, what is added to its own
    #[arg(long, value_name = "TEXT")]
    pub system_prompt: Option<String>,
    /// Ignore the AGENTS.md files of the project
    #[arg(long)]
    pub no_agents_md: bool,
    /// Request complete responses instead of streaming
    #[arg(long)]
    pub no_stream: bool,
    /// Add what is asked and answered to this file, without keys
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Answer from a file that was recorded, without a network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "record")]
    pub replay: Option<PathBuf>,
    /// How much the run may use up.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Where it takes place and what it prints.
    #[command(flatten)]
    pub surroundings: OutputArgs,
}

/// How much a run may use up.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Stop a turn after this many steps [default: 50]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parsed::<NonZeroU32>)]
    pub max_steps: Option<NonZeroU32>,
    /// Stop a turn after this many tokens, input and output together [default: 1000000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parsed::<NonZeroU64>)]
    pub max_tokens: Option<NonZeroU64>,
    /// Stop a turn after this many seconds [default: 900]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = parsed::<Duration>)]
    pub max_seconds: Option<Duration>,
    /// Stop a turn at this many US dollars, where prices are known; its last answer may cost more than is left
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = parsed::<Dollars>)]
    pub max_cost: Option<Dollars>,
    /// Stop the session after this many steps over all its turns; later turns keep this limit
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parsed::<NonZeroU32>)]
    pub max_session_steps: Option<NonZeroU32>,
    /// Stop the session after this many tokens over all its turns
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parsed::<NonZeroU64>)]
    pub max_session_tokens: Option<NonZeroU64>,
    /// Stop the session after it has worked for this many seconds over all its turns
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = parsed::<Duration>)]
    pub max_session_seconds: Option<Duration>,
    /// Stop the session at this many US dollars over all its turns, where prices are known
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = parsed::<Dollars>)]
    pub max_session_cost: Option<Dollars>,
}

/// Where a model's answers come from, and where they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// From the network.
    #[default]
    Live,
    /// From the network, and kept in this file.
    Recording(PathBuf),
    /// From this file.
    Replaying(PathBuf),
}

/// What can be said about the demonstration.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DemoArgs {
    /// Where it takes place and what it prints.
    #[command(flatten)]
    pub surroundings: OutputArgs,
}

/// Where something takes place and what it prints.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(next_help_heading = "Surroundings")]
pub struct OutputArgs {
    /// Work in this directory and see nothing outside it
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub workdir: Option<PathBuf>,
    /// What to write to standard output [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    output_format: Option<OutputFormat>,
    /// The same as --output-format stream-json
    #[arg(long, conflicts_with = "output_format")]
    json: bool,
    /// Print the answer and errors, and nothing else
    #[arg(short, long)]
    pub quiet: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub color: ColorChoice,
}

/// Which models to list.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ModelsArgs {
    /// Only of this provider
    #[arg(value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Where to write manual pages.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ManArgs {
    /// The directory to write a page for each command to; without it the page of the program is printed
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
}

/// Which script to print.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct CompletionsArgs {
    /// The shell that will read the script
    #[arg(value_enum)]
    pub shell: Shell,
}

impl RunArgs {
    /// Where the prompt comes from, whichever way it was typed.
    pub fn prompt(&self) -> PromptSource {
        PromptSource::new(self.prompt.as_deref().or(self.prompt_option.as_deref()))
    }
}

impl AgentArgs {
    /// Where answers come from.
    pub fn transport(&self) -> Transport {
        match (&self.record, &self.replay) {
            (_, Some(path)) => Transport::Replaying(path.clone()),
            (Some(path), None) => Transport::Recording(path.clone()),
            (None, None) => Transport::Live,
        }
    }

    /// What the configuration should know of the command line.
    pub fn flags(&self, config: Option<&Path>) -> Flags {
        Flags {
            workdir: self.surroundings.workdir.clone().unwrap_or_else(|| ".".into()),
            config: config.map(Path::to_path_buf),
            model: self.model.clone(),
            fallback: self.fallback.clone(),
            base_url: self.base_url.clone(),
            system_prompt: self.system_prompt.clone(),
            output_format: self.surroundings.output_format(),
            stream: self.no_stream.then_some(false),
            max_steps: self.limits.max_steps,
            max_tokens: self.limits.max_tokens,
            max_seconds: self.limits.max_seconds,
            max_cost: self.limits.max_cost,
            max_session_steps: self.limits.max_session_steps,
            max_session_tokens: self.limits.max_session_tokens,
            max_session_seconds: self.limits.max_session_seconds,
            max_session_cost: self.limits.max_session_cost,
            store: None,
        }
    }
}

impl OutputArgs {
    /// The format that was asked for, by name or by `--json`.
    pub fn output_format(&self) -> Option<OutputFormat> {
        if self.json { Some(OutputFormat::StreamJson) } else { self.output_format }
    }
}

#[cfg(test)]
mod tests;
