//! Options of an agent, its permissions, limits and output.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ColorChoice, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use loopwright_agent::NameList;
use loopwright_capabilities::permissions::OnAsk;
use loopwright_core::messages::ReasoningEffort;
use loopwright_permissions::Mode;

use super::values::{BaseUrlParser, effort, parsed, permission_mode, tool_list};
use crate::completions;
use crate::config::{
    BaseUrl, Discovery, Dollars, Flags, ModelName, ModelRefs, OutputFormat, ShadowFile,
};

/// Options of an agent and its output.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct AgentArgs {
    /// Use this model from this provider
    #[arg(short, long, value_name = "PROVIDER/NAME", value_parser = parsed::<ModelName>)]
    pub model: Option<ModelName>,
    /// Set how much the model reasons: minimal, low, medium or high
    #[arg(long, value_name = "LEVEL", value_parser = effort)]
    pub effort: Option<ReasoningEffort>,
    /// Fall back to these models, in this order, when the model fails
    #[arg(long, value_name = "PROVIDER/NAME,…", value_parser = parsed::<ModelRefs>, alias = "fallback-model")]
    pub fallback: Option<ModelRefs>,
    /// Send requests to this base URL
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, value_parser = BaseUrlParser)]
    pub base_url: Option<BaseUrl>,
    /// Run this agent (`loopwright agents list` shows the names); a resumed session keeps its agent
    #[arg(long = "agent", value_name = "NAME", add = ArgValueCompleter::new(completions::agents))]
    pub definition: Option<String>,
    /// Set the system prompt; with --agent, append to the agent's prompt
    #[arg(long, value_name = "TEXT", alias = "append-system-prompt")]
    pub system_prompt: Option<String>,
    /// Limit the agent to these tools, such as `Read,Grep,Bash`
    #[arg(long, value_name = "NAME,…", value_parser = tool_list)]
    pub tools: Option<NameList>,
    /// Ignore AGENTS.md, CLAUDE.md and .claude/rules, both yours and the project's
    #[arg(long)]
    pub no_agents_md: bool,
    /// Use only options and environment variables; load no settings, instructions, agents, skills, hooks or MCP servers
    #[arg(long, conflicts_with = "definition")]
    pub bare: bool,
    /// Request complete responses instead of streaming
    #[arg(long)]
    pub no_stream: bool,
    /// Record requests and responses to this file, without keys
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Replay the responses recorded in this file, without a network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "record")]
    pub replay: Option<PathBuf>,
    /// The permissions of the run.
    #[command(flatten)]
    pub permissions: PermissionArgs,
    /// Choose how to handle a call that needs approval (at a terminal, `pause` prompts you)
    #[arg(
        long,
        help_heading = "Permissions",
        value_name = "WHAT",
        value_enum,
        default_value = "pause"
    )]
    pub on_ask: OnAskArg,
    /// Deny a waiting call after S seconds without a decision or an answer [default: no limit]
    #[arg(long, help_heading = "Permissions", value_name = "S", value_parser = parsed::<Duration>)]
    pub answer_within: Option<Duration>,
    /// The limits of the run.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// The directory and the output.
    #[command(flatten)]
    pub surroundings: OutputArgs,
}

/// The permissions of a run.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Permissions")]
pub struct PermissionArgs {
    /// Choose which tool calls run without an allow rule: plan, ask, accept-edits, auto, deny or unconfined [default: auto]
    #[arg(long, value_name = "MODE", value_parser = permission_mode, alias = "approval-mode")]
    pub permission_mode: Option<Mode>,
    /// Same as `--permission-mode unconfined`, under the name that other programs use
    #[arg(
        long,
        hide = true,
        conflicts_with = "permission_mode",
        alias = "dangerously-bypass-approvals-and-sandbox",
        alias = "yolo"
    )]
    pub dangerously_skip_permissions: bool,
    /// Same as `--permission-mode auto`, under the name that Codex uses
    #[arg(
        long,
        hide = true,
        conflicts_with_all = ["permission_mode", "dangerously_skip_permissions"]
    )]
    pub full_auto: bool,
    /// Allow the tool calls that match RULE, such as `Bash(cargo test *)`
    #[arg(long, value_name = "RULE", alias = "allowedTools", alias = "allowed-tools")]
    pub allow: Vec<String>,
    /// Ask before the tool calls that match RULE
    #[arg(long, value_name = "RULE")]
    pub ask: Vec<String>,
    /// Deny the tool calls that match RULE
    #[arg(long, value_name = "RULE", alias = "disallowedTools", alias = "disallowed-tools")]
    pub deny: Vec<String>,
    /// Let the tools use this folder as well as the working directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, alias = "include-directories")]
    pub add_dir: Vec<PathBuf>,
    /// Report at the end what the rules in FILE would have decided, without applying them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = ShadowFile::read)]
    pub shadow: Option<ShadowFile>,
}

/// What happens to a call that needs approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnAskArg {
    /// The run pauses and ends with exit code 9
    #[default]
    Pause,
    /// The call is denied, and the model receives the denial
    Deny,
    /// The run ends with exit code 8; a sub-agent ends, and its parent continues
    Fail,
}

/// The limits of a run.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Stop a turn after N steps [default: 50]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parsed::<NonZeroU32>, alias = "max-turns")]
    pub max_steps: Option<NonZeroU32>,
    /// Stop a turn after N tokens of input and output [default: 1000000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parsed::<NonZeroU64>)]
    pub max_tokens: Option<NonZeroU64>,
    /// Stop a turn after S seconds [default: 900]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = parsed::<Duration>)]
    pub max_seconds: Option<Duration>,
    /// Stop a turn at this cost in US dollars, if prices are known; the last response may exceed
    /// the limit
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = parsed::<Dollars>, alias = "max-budget-usd")]
    pub max_cost: Option<Dollars>,
    /// Stop the session after N steps across all turns; the limit also applies to later turns
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parsed::<NonZeroU32>)]
    pub max_session_steps: Option<NonZeroU32>,
    /// Stop the session after N tokens across all turns
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parsed::<NonZeroU64>)]
    pub max_session_tokens: Option<NonZeroU64>,
    /// Stop the session after S seconds of work across all turns
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = parsed::<Duration>)]
    pub max_session_seconds: Option<Duration>,
    /// Stop the session at this cost in US dollars across all turns, if prices are known
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = parsed::<Dollars>)]
    pub max_session_cost: Option<Dollars>,
}

/// The source of model responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The network.
    #[default]
    Live,
    /// The network; responses are recorded to a file.
    Recording(PathBuf),
    /// A recorded file.
    Replaying(PathBuf),
}

/// The working directory and the output.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Work in this directory and access nothing outside it [default: the current directory]
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath, alias = "cd")]
    pub workdir: Option<PathBuf>,
    /// Set the format of standard output [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(super) output_format: Option<OutputFormat>,
    /// Same as --output-format stream-json
    #[arg(long, conflicts_with = "output_format")]
    pub(super) json: bool,
    /// Print only the answer and errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Choose when to use colors
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub color: ColorChoice,
}

impl AgentArgs {
    /// Returns the options of an agent that works in a directory, with the defaults of all other options.
    pub fn in_dir(workdir: PathBuf) -> Self {
        Self {
            model: None,
            effort: None,
            fallback: None,
            base_url: None,
            definition: None,
            system_prompt: None,
            tools: None,
            no_agents_md: false,
            bare: false,
            no_stream: false,
            record: None,
            replay: None,
            permissions: PermissionArgs::default(),
            on_ask: OnAskArg::default(),
            answer_within: None,
            limits: LimitArgs::default(),
            surroundings: OutputArgs {
                workdir: Some(workdir),
                output_format: None,
                json: false,
                quiet: true,
                color: ColorChoice::Auto,
            },
        }
    }

    /// Returns the source of model responses.
    pub fn transport(&self) -> Transport {
        match (&self.record, &self.replay) {
            (_, Some(path)) => Transport::Replaying(path.clone()),
            (Some(path), None) => Transport::Recording(path.clone()),
            (None, None) => Transport::Live,
        }
    }

    /// Returns the command-line layer of the configuration.
    pub fn flags(&self, config: Option<&Path>) -> Flags {
        let mut flags = Flags {
            workdir: self.surroundings.workdir.clone().unwrap_or_else(|| ".".into()),
            config: config.map(Path::to_path_buf),
            model: self.model.clone(),
            fallback: self.fallback.clone(),
            base_url: self.base_url.clone(),
            system_prompt: self.system_prompt.clone(),
            output_format: self.surroundings.output_format(),
            stream: self.no_stream.then_some(false),
            discovery: if self.bare { Discovery::Nothing } else { Discovery::Files },
            ..self.limits.flags()
        };
        self.permissions.add_to(&mut flags);
        flags
    }
}

impl LimitArgs {
    /// Returns the limits given as options, as the command-line layer of the configuration.
    pub(super) fn flags(&self) -> Flags {
        Flags {
            max_steps: self.max_steps,
            max_tokens: self.max_tokens,
            max_seconds: self.max_seconds,
            max_cost: self.max_cost,
            max_session_steps: self.max_session_steps,
            max_session_tokens: self.max_session_tokens,
            max_session_seconds: self.max_session_seconds,
            max_session_cost: self.max_session_cost,
            ..Flags::default()
        }
    }
}

impl PermissionArgs {
    /// Adds the rules to the command-line layer of the configuration.
    pub fn add_to(&self, flags: &mut Flags) {
        let skipped = self.dangerously_skip_permissions.then_some(Mode::Unconfined);
        let automatic = self.full_auto.then_some(Mode::Auto);
        flags.permission_mode = self.permission_mode.or(skipped).or(automatic);
        flags.allow.clone_from(&self.allow);
        flags.ask.clone_from(&self.ask);
        flags.deny.clone_from(&self.deny);
        flags.add_dir.clone_from(&self.add_dir);
        flags.shadow.clone_from(&self.shadow);
    }
}

impl From<OnAskArg> for OnAsk {
    fn from(typed: OnAskArg) -> Self {
        match typed {
            OnAskArg::Pause => Self::Pause,
            OnAskArg::Deny => Self::Deny,
            OnAskArg::Fail => Self::Fail,
        }
    }
}

impl OutputArgs {
    /// Returns the output format set by `--output-format` or `--json`.
    pub fn output_format(&self) -> Option<OutputFormat> {
        if self.json { Some(OutputFormat::StreamJson) } else { self.output_format }
    }
}
