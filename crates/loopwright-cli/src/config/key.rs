//! All keys, with their documentation.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use loopwright_permissions::Mode;
use loopwright_sandbox::BackendChoice;

use super::value::SettingValue;
use super::{
    BaseUrl, Bytes, Capabilities, CapabilitySetting, CommandLine, Dollars, DollarsPerMillion,
    McpTable, ModelName, ModelRef, ModelRefs, NetworkSetting, OutputFormat, RemoteAgentTable,
    Roots, RuleList, SearchSetting, SecretRef, Strings, Text, user_only,
};

/// A key of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key with the tables that it is in; what stands in capitals is anybody's name.
    pub name: &'static str,
    /// What it decides.
    pub means: &'static str,
    /// What its value must be.
    pub expected: &'static str,
    /// A value as it stands in a file.
    pub example: &'static str,
    /// The option that decides it, too.
    pub option: Option<&'static str>,
    /// The variable that decides it, too.
    pub variable: Option<&'static str>,
}

const fn key<T: SettingValue>(name: &'static str, means: &'static str) -> Key {
    Key { name, means, expected: T::EXPECTED, example: T::EXAMPLE, option: None, variable: None }
}

impl Key {
    const fn option(self, option: &'static str) -> Self {
        Self { option: Some(option), ..self }
    }

    const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    const fn variable(self, variable: &'static str) -> Self {
        Self { variable: Some(variable), ..self }
    }

    /// Returns the table that it is in; nothing if it stands at the top.
    pub fn table(&self) -> &'static str {
        self.name.rsplit_once('.').map_or("", |(table, _)| table)
    }

    /// Returns its name within the table.
    pub fn last(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, last)| last)
    }

    /// Returns `true` if a project's file may not decide it.
    pub fn is_users(&self) -> bool {
        user_only::concerns(self.name)
    }
}

/// Every key.
pub const KEYS: &[Key] = &[
    key::<ModelName>("model", "the model, and the provider that serves it")
        .option("--model")
        .variable("LOOPWRIGHT_MODEL"),
    key::<ModelRefs>("fallback", "the models to try, in this order, when the model fails")
        .option("--fallback")
        .variable("LOOPWRIGHT_FALLBACK"),
    key::<BaseUrl>("base_url", "the base URL of the model's provider")
        .option("--base-url")
        .variable("LOOPWRIGHT_BASE_URL"),
    key::<String>(
        "system_prompt",
        "the system prompt; with an agent, text to append to the \
        agent's prompt",
    )
    .option("--system-prompt")
    .variable("LOOPWRIGHT_SYSTEM_PROMPT"),
    key::<OutputFormat>("output_format", "the format of standard output")
        .option("--output-format")
        .variable("LOOPWRIGHT_OUTPUT_FORMAT"),
    key::<bool>("stream", "whether responses are streamed").option("--no-stream"),
    key::<NonZeroU32>("limits.steps", "the maximum number of steps per turn")
        .option("--max-steps")
        .variable("LOOPWRIGHT_MAX_STEPS"),
    key::<NonZeroU64>(
        "limits.tokens",
        "the maximum number of tokens per turn, input and output \
        together",
    )
    .option("--max-tokens")
    .variable("LOOPWRIGHT_MAX_TOKENS"),
    key::<Duration>("limits.seconds", "the maximum duration of a turn, in seconds")
        .option("--max-seconds")
        .variable("LOOPWRIGHT_MAX_SECONDS"),
    key::<Dollars>("limits.cost", "the maximum cost of a turn in US dollars, if prices are known")
        .option("--max-cost")
        .variable("LOOPWRIGHT_MAX_COST"),
    key::<NonZeroU32>(
        "limits.session.steps",
        "the maximum number of steps per session, across all \
        its turns",
    )
    .option("--max-session-steps")
    .variable("LOOPWRIGHT_MAX_SESSION_STEPS"),
    key::<NonZeroU64>(
        "limits.session.tokens",
        "the maximum number of tokens per session, across \
        all its turns",
    )
    .option("--max-session-tokens")
    .variable("LOOPWRIGHT_MAX_SESSION_TOKENS"),
    key::<Duration>(
        "limits.session.seconds",
        "the maximum working time of a session, across all \
        its turns, in seconds",
    )
    .option("--max-session-seconds")
    .variable("LOOPWRIGHT_MAX_SESSION_SECONDS"),
    key::<Dollars>(
        "limits.session.cost",
        "the maximum cost of a session in US dollars, across all \
        its turns",
    )
    .option("--max-session-cost")
    .variable("LOOPWRIGHT_MAX_SESSION_COST"),
    key::<Duration>("timeouts.connect", "seconds to wait for a connection"),
    key::<Duration>("timeouts.first_byte", "seconds to wait for the first byte of a response"),
    key::<Duration>("timeouts.idle", "seconds to wait for each further piece of a response"),
    key::<Duration>("timeouts.total", "seconds to wait for a complete response"),
    key::<Mode>("permissions.mode", "which calls run without an allow rule")
        .option("--permission-mode")
        .variable("LOOPWRIGHT_PERMISSION_MODE"),
    key::<RuleList>("permissions.allow", "calls that run without approval").option("--allow"),
    key::<RuleList>("permissions.ask", "calls that need approval").option("--ask"),
    key::<RuleList>("permissions.deny", "calls that are denied").option("--deny"),
    key::<Strings>(
        "permissions.folders",
        "folders that tools use in addition to the working directory",
    )
    .option("--add-dir"),
    key::<bool>(
        "permissions.claude",
        "whether the Claude Code settings for all projects may allow calls and run hooks",
    ),
    key::<BackendChoice>("sandbox.backend", "the sandbox backend that confines commands"),
    key::<Strings>("sandbox.read", "further paths that commands may read"),
    key::<Strings>("sandbox.write", "further paths that commands may write to"),
    key::<Strings>(
        "sandbox.hide",
        "paths that neither commands nor file tools may read, relative to the working directory or to `~`",
    ),
    key::<Strings>("sandbox.allow", "names of protected files and folders that commands may change"),
    key::<Strings>(
        "sandbox.direct",
        "folders in the working directory in which changes made by commands are applied immediately",
    ),
    key::<NetworkSetting>(
        "sandbox.network",
        "hosts that commands may reach by name; `off`, `loopback`, or `host` for the network of this machine",
    ),
    key::<Strings>(
        "sandbox.path",
        "folders to put first in the `PATH` of commands, which may also read them",
    ),
    key::<Strings>(
        "sandbox.environment",
        "environment variables for commands: `NAME` to pass on the user's value, or `NAME=VALUE`",
    ),
    key::<Bytes>("sandbox.memory", "the maximum memory that a command's processes may use together"),
    key::<NonZeroU64>(
        "sandbox.processes",
        "the maximum number of processes and threads of a \
        command",
    ),
    key::<Duration>("sandbox.timeout", "the maximum duration of a command, in seconds"),
    key::<McpTable>("mcp.NAME", "a Model Context Protocol (MCP) server"),
    key::<RemoteAgentTable>(
        "remote_agents.NAME",
        "an agent on another server, reached over A2A 1.0 or AG-UI, for the tool `ask_remote_agent`",
    ),
    key::<CapabilitySetting>(
        "capabilities.NAME",
        "a capability of the built-in agent of `run` and `chat`, such as `use_task_planning`, \
            `use_skills`, `use_subagents` or `use_compaction`: off, on, or on with settings; the \
            settings also apply to agents whose files name the capability without settings",
    ),
    key::<String>(
        "chat.status_line",
        "a command whose first line of output is shown above the prompt of `chat`, instead of the built-in status line; `off` shows no status line",
    ),
    key::<bool>(
        "chat.notifications",
        "whether the terminal notifies you when a run waits for you, or ends after ten seconds or more",
    ),
    key::<bool>(
        "chat.plain",
        "whether `chat` prints plain lines, for screen readers: no spinner, no status line and no cursor movement; also `chat --plain`",
    ),
    key::<ModelRef>(
        "aliases.NAME",
        "the model that the short name NAME, such as `sonnet`, stands for in `model`, `--model`, `/model` and agent definitions",
    ),
    key::<SearchSetting>(
        "web.search",
        "the service that the tool `web_search` uses: `brave` with its key in BRAVE_API_KEY, `tavily` with its key in TAVILY_API_KEY, \
         the base URL of a SearXNG server, or a model of `anthropic`, `openai-responses` or `gemini`, whose provider then runs the search",
    ),
    key::<Text>("store.url", "the session store").option("--store").variable("LOOPWRIGHT_STORE"),
    key::<Roots>(
        "worker.roots",
        "the folders in which a worker may work; by default the directory in which the worker starts",
    )
    .option("--root"),
    key::<BaseUrl>(
        "worker.restate",
        "the URL of Restate; if it is set, workers receive jobs from Restate instead of the queue",
    )
    .example("\"http://127.0.0.1:8080\"")
    .option("--restate")
    .variable("LOOPWRIGHT_RESTATE"),
    key::<String>(
        "worker.restate_service",
        "the name of the Restate service whose workers share their jobs, `Loopwright` by default",
    )
    .example("\"Gpu\"")
    .option("--restate-service"),
    key::<String>(
        "worker.restate_identity_key",
        "the Restate public key; if it is set, workers reject requests that lack a valid signature for it",
    )
    .example("\"publickeyv1_ChjENKeMvCtRnqG2mrBK1HmPKufgFUc98K8B3ononQvp\"")
    .option("--restate-identity-key"),
    key::<CommandLine>(
        "notify.command",
        "the command to run when a run waits for you; it receives a JSON object as input",
    ),
    key::<BaseUrl>(
        "notify.webhook",
        "the URL that receives a JSON object in a POST request when a run waits for you",
    ),
    key::<BaseUrl>("providers.NAME.base_url", "the base URL of the provider"),
    key::<SecretRef>("providers.NAME.key", "a reference to the key of the provider"),
    key::<String>(
        "providers.NAME.wire_api",
        "the wire API of the provider; `loopwright models` lists the names",
    ),
    key::<String>("providers.NAME.model", "the default model of the provider"),
    key::<Text>("providers.NAME.headers.HEADER", "a header for every request"),
    key::<NonZeroU32>(
        "providers.NAME.rate_limit.requests_per_minute",
        "the maximum number of \
        requests per minute",
    ),
    key::<NonZeroU64>(
        "providers.NAME.rate_limit.tokens_per_minute",
        "the maximum number of tokens per minute, input and output",
    ),
    key::<NonZeroU64>(
        "models.\"PROVIDER/NAME\".context_window",
        "the context window of the \
        model, in tokens",
    ),
    key::<NonZeroU64>(
        "models.\"PROVIDER/NAME\".max_output",
        "the maximum output of the model, \
        in tokens",
    ),
    key::<Capabilities>("models.\"PROVIDER/NAME\".capabilities", "the capabilities of the model"),
    key::<DollarsPerMillion>("models.\"PROVIDER/NAME\".prices.input", "the price of input tokens"),
    key::<DollarsPerMillion>(
        "models.\"PROVIDER/NAME\".prices.output",
        "the price of output tokens",
    ),
    key::<DollarsPerMillion>(
        "models.\"PROVIDER/NAME\".prices.cache_read",
        "the price of tokens read from the cache",
    ),
    key::<DollarsPerMillion>(
        "models.\"PROVIDER/NAME\".prices.cache_write",
        "the price of tokens written to the cache",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Config, ConfigSources, Flags, Loaded, Origin};
    use super::*;
    use crate::settings::{Row, rows};

    fn shown(name: &str) -> String {
        name.replace("PROVIDER/", "a/").replace("NAME", "b").replace("HEADER", "x-c")
    }

    /// Loads a user's file and variables, and returns the rows that are set.
    fn decided(file: &str, variables: &[(&str, &str)]) -> Vec<Row> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.toml");
        std::fs::write(&path, file).unwrap();
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).into());
        let environment: BTreeMap<_, _> = variables.iter().map(own).collect();
        let sources =
            ConfigSources { environment, cwd: home.path().into(), ..ConfigSources::default() };
        let flags = Flags { workdir: ".".into(), config: Some(path), ..Flags::default() };
        let Loaded { config, warnings } = Config::load(flags, &sources).unwrap();
        assert_eq!(warnings, []);
        let rows = rows(&config, &sources).into_iter();
        rows.filter(|row| row.origin != Origin::Default).collect()
    }

    #[test]
    fn every_key_can_be_set_in_a_file_and_is_shown() {
        let lines = KEYS.iter().map(|it| format!("{} = {}\n", shown(it.name), it.example));
        let mut set: Vec<String> =
            decided(&lines.collect::<String>(), &[]).into_iter().map(|it| it.key).collect();
        let mut expect: Vec<String> = KEYS.iter().map(|it| shown(it.name)).collect();
        set.sort();
        expect.sort();
        assert_eq!(set, expect);
    }

    #[test]
    fn every_variable_decides_its_key() {
        for key in KEYS.iter().filter(|it| it.variable.is_some()) {
            let variable = key.variable.unwrap();
            let value = match key.name {
                "fallback" => "a/b",
                _ => key.example.trim_matches('"'),
            };
            let rows = decided("", &[(variable, value)]);
            let told: Vec<_> = rows.into_iter().map(|it| (it.key, it.origin)).collect();
            assert_eq!(told, [(key.name.to_owned(), Origin::Env(variable))]);
        }
    }

    #[test]
    fn keys_that_a_project_may_not_set_are_marked() {
        let users = KEYS.iter().filter(|it| it.is_users()).map(|it| it.name);
        let users: Vec<&str> = users.filter(|it| !it.starts_with("models.")).collect();
        assert_eq!(
            users,
            [
                "base_url",
                "permissions.claude",
                "sandbox.backend",
                "sandbox.read",
                "sandbox.write",
                "sandbox.allow",
                "sandbox.direct",
                "sandbox.network",
                "sandbox.path",
                "sandbox.environment",
                "remote_agents.NAME",
                "capabilities.NAME",
                "chat.status_line",
                "chat.notifications",
                "chat.plain",
                "aliases.NAME",
                "web.search",
                "store.url",
                "worker.roots",
                "worker.restate",
                "worker.restate_service",
                "worker.restate_identity_key",
                "notify.command",
                "notify.webhook",
                "providers.NAME.base_url",
                "providers.NAME.key",
                "providers.NAME.headers.HEADER",
                "providers.NAME.rate_limit.requests_per_minute",
                "providers.NAME.rate_limit.tokens_per_minute",
            ]
        );
    }
}
