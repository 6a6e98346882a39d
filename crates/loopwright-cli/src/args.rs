//! The command line: commands, arguments and options, without their behavior.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use loopwright_capabilities::structured::AnswerSchema;

use crate::config::OutputFormat;
use crate::prompt::PromptSource;

pub mod acp;
mod agent;
pub mod agents;
pub mod files;
pub mod policy;
mod help;
pub mod sandbox;
pub mod serve;
pub mod session;
pub mod sessions;
pub mod settings;
pub mod skills;
pub mod snapshots;
pub mod jobs;
pub mod mcp;
mod other_programs;
mod values;

pub use self::agent::{AgentArgs, LimitArgs, OnAskArg, OutputArgs, PermissionArgs, Transport};
use session::SessionArgs;

/// Run agents: models that use tools until a task is done
#[derive(Clone, Debug, PartialEq, Parser)]
#[command(name = "loopwright", version, after_help = help::PROGRAM)]
pub struct Cli {
    /// Read this configuration file instead of ~/.config/loopwright/config.toml
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the program.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Command {
    /// Give an agent a task and wait for the answer
    #[command(after_help = help::RUN, alias = "exec")]
    Run(Box<RunArgs>),
    /// Talk to an agent, turn by turn
    #[command(after_help = help::CHAT)]
    Chat(Box<ChatArgs>),
    /// Manage saved sessions
    #[command(after_help = help::SESSIONS)]
    Sessions(sessions::SessionsArgs),
    /// List, show, check and create agent definitions
    #[command(after_help = help::AGENTS)]
    Agents(agents::AgentsArgs),
    /// List, show and check skills
    Skills(skills::SkillsArgs),
    /// Submit a job for a worker and print the job and session IDs
    #[command(after_help = help::SUBMIT)]
    Submit(Box<jobs::SubmitArgs>),
    /// Process submitted jobs until stopped
    #[command(after_help = help::WORKER)]
    Worker(Box<jobs::WorkerArgs>),
    /// Serve agents over HTTP until stopped
    #[command(after_help = help::SERVE)]
    Serve(Box<serve::ServeArgs>),
    /// Create, list and revoke access tokens for the server
    Tokens(serve::TokensArgs),
    /// List submitted jobs, latest first, or submit jobs on a schedule
    #[command(after_help = help::JOBS)]
    Jobs(jobs::JobsArgs),
    /// Serve an editor over standard input and output, using the Agent Client Protocol
    #[command(after_help = help::ACP)]
    Acp(Box<acp::AcpArgs>),
    /// Run a demo agent with a scripted model, without a key or a network
    Demo(DemoArgs),
    /// List providers and models with their limits, capabilities and prices
    Models(ModelsArgs),
    /// Run the agents' file tools from the command line
    #[command(subcommand)]
    Files(files::FilesCommand),
    /// Run a command in the sandbox, or show what sandboxed commands can see
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    /// Check keys, local servers, the sandbox and the session store
    #[command(after_help = help::DOCTOR)]
    Doctor(sandbox::DoctorArgs),
    /// Show each setting and its source
    #[command(subcommand)]
    Config(settings::ConfigCommand),
    /// List calls that need a decision or an answer, in all sessions
    Approvals(sessions::ApprovalsArgs),
    /// Show, explain and check permission rules
    Policy(policy::PolicyArgs),
    /// Trust a project, so that its settings can allow tool calls
    Trust(policy::TrustArgs),
    /// Manage Model Context Protocol (MCP) servers
    Mcp(mcp::McpArgs),
    /// Print the completion script for a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
}

/// Arguments of `run`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct RunArgs {
    /// The task, followed by any piped input; without PROMPT, or with `-`, the task is read from standard input
    #[arg(value_name = "PROMPT|-")]
    pub prompt: Option<String>,
    /// Same as PROMPT
    #[arg(
        short = 'p',
        long = "prompt",
        value_name = "PROMPT",
        conflicts_with = "prompt",
        alias = "print"
    )]
    pub prompt_option: Option<String>,
    /// Attach this image (PNG, JPEG, GIF, WebP) or PDF document
    #[arg(long = "image", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub images: Vec<PathBuf>,
    /// Require an answer that matches this JSON Schema; exit with code 11 if no answer does
    #[arg(long, help_heading = "Answer", value_name = "FILE|JSON", value_parser = values::answer_schema, alias = "json-schema", alias = "output-schema")]
    pub schema: Option<AnswerSchema>,
    /// Also write the complete answer to this file
    #[arg(short, long, help_heading = "Answer", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// After the answer, run this command in the sandbox; exit with code 12 if the command fails
    #[arg(long, help_heading = "Answer", value_name = "COMMAND", value_hint = ValueHint::CommandString, value_parser = values::command)]
    pub verify: Option<String>,
    /// If the session is running, send the prompt to that run
    #[arg(long, help_heading = "Session", requires = "ResumeArgs", conflicts_with_all = ["fork", "fork_session", "no_session"])]
    pub steer: bool,
    /// Changes nothing, because `--output-format stream-json` always has every event. Scripts of other programs pass both.
    #[arg(long, hide = true, overrides_with = "verbose", alias = "include-partial-messages")]
    pub verbose: bool,
    /// The agent, its limits and its output.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The session of the run.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Arguments of `chat`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ChatArgs {
    /// Begin with this message
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Choose the session to resume from a list. `--resume` without an ID stands for it.
    #[arg(long, hide = true, conflicts_with = "ResumeArgs")]
    pub choose_session: bool,
    /// Print plain lines, for screen readers: no spinner, no status line, no cursor movement
    ///
    /// Lines are read as they are typed, without the keys of the line editor. Implied by `TERM=dumb`.
    #[arg(long)]
    pub plain: bool,
    /// The agent, its limits and its output.
    #[command(flatten)]
    pub agent: AgentArgs,
    /// The session of the run.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Arguments of `demo`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DemoArgs {
    /// The directory and the output.
    #[command(flatten)]
    pub surroundings: OutputArgs,
}

/// Arguments of `models`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ModelsArgs {
    /// List only the models of this provider
    #[arg(value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `man`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ManArgs {
    /// Write one page per command to this directory [default: print the main page]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
}

/// Arguments of `completions`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct CompletionsArgs {
    /// The shell to print the script for
    #[arg(value_enum)]
    pub shell: Shell,
}

impl Cli {
    /// Parses a command line. In `mcp add`, words after a command belong to that command, and words after a URL are options. A line
    /// without a command that begins with an option belongs to `run` if it has `-p`, otherwise to `chat`, and one that begins with a
    /// text of several words belongs to `chat`.
    ///
    /// # Errors
    ///
    /// Returns an error if the arguments are invalid, or request help.
    pub fn parse_words(mut words: Vec<OsString>) -> Result<Self, clap::Error> {
        words = other_programs::with_command(words);
        let cli = Self::try_parse_from(&words).map_err(other_programs::with_tip)?;
        cli.check()?;
        let Some(added) = cli.added().filter(|it| it.url().is_some() && it.target.len() > 1) else {
            return Ok(cli);
        };
        let url = words.len() - added.target.len();
        words[url..].rotate_left(1);
        match Self::try_parse_from(&words) {
            Ok(read) if read.added().is_some_and(|it| it.target[..] == added.target[..1]) => {
                Ok(read)
            }
            // The command names what is wrong.
            _ => Ok(cli),
        }
    }

    /// Refuses combinations of options that the parser cannot express.
    fn check(&self) -> Result<(), clap::Error> {
        let problem = match &self.command {
            Command::Run(args) => args.session.problem().or_else(|| args.problem()),
            Command::Chat(args) => args.session.problem(),
            _ => None,
        };
        match problem {
            Some(problem) => Err(Self::command().error(ErrorKind::ArgumentConflict, problem)),
            None => Ok(()),
        }
    }

    fn added(&self) -> Option<&mcp::McpAddArgs> {
        match &self.command {
            Command::Mcp(args) => args.added(),
            _ => None,
        }
    }
}

impl RunArgs {
    /// Returns the source of the prompt, from the argument or the option.
    pub fn prompt(&self) -> PromptSource {
        PromptSource::new(self.prompt.as_deref().or(self.prompt_option.as_deref()))
    }

    fn problem(&self) -> Option<&'static str> {
        let streams = self.agent.surroundings.output_format() == Some(OutputFormat::StreamJson);
        (self.verbose && !streams).then_some(
            "'--verbose' and '--include-partial-messages' need '--output-format stream-json', which always prints every event",
        )
    }
}

#[cfg(test)]
mod tests;
