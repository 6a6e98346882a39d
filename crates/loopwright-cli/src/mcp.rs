//! `loopwright mcp`.

mod login;
mod serve;
mod show;

use loopwright_mcp::{McpClient, McpError, McpServer, ServerEntry, ServerTransport, Template};
use serde_json::{Value, json};

use self::login::{LoginError, log_in};
use crate::args::Cli;
use crate::args::mcp::{
    McpAddArgs, McpArgs, McpCallArgs, McpCommand, McpListArgs, McpLoginArgs, McpRemoveArgs,
    McpTestArgs, SamplingArg, SandboxArg,
};
use crate::commands::Commands;
use crate::config::{Config, ConfigError, ConfigSources};
use crate::console;
use crate::exit::ExitCode;
use crate::folders::FoldersError;
use crate::load_config::configured;
use crate::mcp_servers::{
    ConfiguredServer, ConfiguredServers, FileError, McpServers, change, client, host, user_file,
};
use crate::permissions;
use crate::project::{plain, project_root};
use crate::project_settings::{MCP_FILE, ProjectSettings, keeping_trust};
use crate::render::{count, sanitize_terminal};
use crate::report::SCHEMA_VERSION;
use crate::run::with_runtime;
use crate::whole_file::followed;

/// Why a command about servers cannot be run.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Folders(#[from] FoldersError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("unknown MCP server `{name}`; available: {available}")]
    Unknown { name: String, available: String },
    #[error(
        "MCP server `{0}` belongs to this project, which is not trusted; review it with `loopwright mcp list`, then trust the project with `loopwright trust`"
    )]
    Untrusted(String),
    #[error(
        "MCP server `{0}` belongs to this project, whose settings have changed since they were trusted; review them with `loopwright mcp list`, then trust the project again with `loopwright trust`"
    )]
    TrustEnded(String),
    #[error(
        "no home directory, where your MCP servers are configured; set `HOME` or `XDG_CONFIG_HOME`, or pass `--project`"
    )]
    NoPlace,
    #[error("{0}")]
    Usage(String),
    #[error(
        "MCP server `{name}` is already in {file}; remove it first with `loopwright mcp remove`, or choose another name"
    )]
    Exists { name: String, file: String },
    #[error("no MCP server `{name}` in {file}")]
    NotThere { name: String, file: String },
    #[error(transparent)]
    Server(#[from] std::sync::Arc<McpError>),
    #[error(transparent)]
    Login(#[from] LoginError),
}

impl CommandError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) | Self::Folders(_) | Self::File(_) | Self::NoPlace => ExitCode::Config,
            Self::Unknown { .. } | Self::Usage(_) | Self::Exists { .. } | Self::NotThere { .. } => {
                ExitCode::Usage
            }
            Self::Untrusted(_) | Self::TrustEnded(_) => ExitCode::Denied,
            Self::Server(_) | Self::Login(_) => ExitCode::Internal,
        }
    }
}

/// Lists, shows, tests and changes the configured servers.
pub fn mcp(cli: &Cli, args: &McpArgs) -> ExitCode {
    with_runtime(async {
        let done = match &args.command {
            McpCommand::Serve(typed) => return serve::serve(cli, args, typed).await,
            McpCommand::List(typed) => list(cli, args, typed),
            McpCommand::Show(typed) => show::show(cli, args, typed).await,
            McpCommand::Test(typed) => test(cli, args, typed).await,
            McpCommand::Call(typed) => call(cli, args, typed).await,
            McpCommand::Login(typed) => Box::pin(login(cli, args, typed)).await,
            McpCommand::Logout(typed) => logout(cli, args, &typed.name),
            McpCommand::Add(typed) => add(cli, args, typed),
            McpCommand::Remove(typed) => remove(cli, args, typed),
            McpCommand::Approve(typed) => approve(cli, args, &typed.name).await,
        };
        done.unwrap_or_else(|error| console::fail(&error, error.exit_code()))
    })
}

/// The servers of a directory with what they need to be started.
struct Surroundings {
    config: Config,
    sources: ConfigSources,
    found: ConfiguredServers,
    /// Whether the user trusted other settings of the project.
    has_changed: bool,
}

impl Surroundings {
    fn load(cli: &Cli, args: &McpArgs) -> Result<Self, CommandError> {
        let (sources, config) = configured(cli, &args.workdir, None)?;
        let project = ProjectSettings::find(&config, &sources)?;
        let found = ConfiguredServers::find(&config, &sources, &project);
        for problem in &found.problems {
            console::warn(&sanitize_terminal(problem));
        }
        let has_changed = project.has_changed();
        Ok(Self { config, sources, found, has_changed })
    }

    fn find(&self, name: &str) -> Result<&ConfiguredServer, CommandError> {
        let found = self.found.servers.iter().find(|it| it.server.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.found.servers.iter().map(|it| &*it.server.name).collect();
            let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            CommandError::Unknown { name: name.to_owned(), available }
        })
    }

    /// Makes a client of a server that may be started.
    fn client(&self, name: &str) -> Result<McpClient, CommandError> {
        let found = self.find(name)?;
        if !found.is_trusted {
            let error =
                if self.has_changed { CommandError::TrustEnded } else { CommandError::Untrusted };
            return Err(error(name.to_owned()));
        }
        let (policy, _) = permissions::policy(&self.config, &self.sources)?;
        let commands = Commands::of(&self.config, &self.sources).denying(&policy);
        let host = host(&self.config, &self.sources, &commands);
        Ok(client(&found.server, &host, &self.sources))
    }
}

fn list(cli: &Cli, args: &McpArgs, typed: &McpListArgs) -> Result<ExitCode, CommandError> {
    let surroundings = Surroundings::load(cli, args)?;
    let servers = &surroundings.found.servers;
    if typed.json {
        let servers: Vec<Value> = servers.iter().map(in_json).collect();
        let told = json!({ "schema_version": SCHEMA_VERSION, "servers": servers });
        return Ok(console::print_json(&told));
    }
    if servers.is_empty() {
        console::tell("no MCP servers; add one with `loopwright mcp add`");
        return Ok(ExitCode::Done);
    }
    let mut lines = Vec::new();
    for found in servers {
        let trust = if found.is_trusted { "" } else { ", not trusted" };
        let head = format!("{} ({}{trust})", found.server.name, plain(&found.file));
        lines.push(head);
        lines.extend(found.server.describe().into_iter().map(|line| format!("  {line}")));
    }
    let lines: Vec<String> = lines.iter().map(|line| sanitize_terminal(line)).collect();
    Ok(console::print(format!("{}\n", lines.join("\n")).as_bytes()))
}

fn in_json(found: &ConfiguredServer) -> Value {
    let transport = match &found.server.transport {
        ServerTransport::Stdio(_) => "stdio",
        _ => "http",
    };
    json!({
        "name": found.server.name,
        "transport": transport,
        "file": found.file,
        "trusted": found.is_trusted,
        "confined": found.server.is_confined(),
        "description": found.server.describe(),
    })
}

async fn test(cli: &Cli, args: &McpArgs, typed: &McpTestArgs) -> Result<ExitCode, CommandError> {
    let surroundings = Surroundings::load(cli, args)?;
    let names: Vec<String> = if typed.names.is_empty() {
        surroundings.found.servers.iter().map(|it| it.server.name.clone()).collect()
    } else {
        typed.names.clone()
    };
    if names.is_empty() {
        console::tell("no MCP servers; add one with `loopwright mcp add`");
    }
    let tests = names.iter().map(async |name| -> Result<String, CommandError> {
        let client = surroundings.client(name)?;
        let connected = client.connect().await;
        let status = client.status();
        client.close().await;
        let info = connected?;
        let listing = status.listing.unwrap_or_default();
        let notes = listing.notes.iter().fold(String::new(), |notes, note| notes + "; " + note);
        let tools = count(listing.tools.len() as u64, "tool");
        Ok(format!("ok, protocol {}, {tools}{notes}", info.protocol))
    });
    let results = futures::future::join_all(tests).await;
    let mut exit_code = ExitCode::Done;
    let mut text = String::new();
    for (name, result) in names.iter().zip(results) {
        let told = result.unwrap_or_else(|error| {
            exit_code = ExitCode::Internal;
            format!("failed: {error}")
        });
        text += &sanitize_terminal(&format!("{name}: {told}"));
        text.push('\n');
    }
    let printed = console::print(text.as_bytes());
    Ok(if printed == ExitCode::Done { exit_code } else { printed })
}

async fn call(cli: &Cli, args: &McpArgs, typed: &McpCallArgs) -> Result<ExitCode, CommandError> {
    let arguments = serde_json::from_str(&typed.arguments).map_err(|_| {
        CommandError::Usage(
            "the arguments are not a JSON object; write them as `{\"path\": \"a\"}`".to_owned(),
        )
    })?;
    let client = Surroundings::load(cli, args)?.client(&typed.name)?;
    let called = client.call_tool(&typed.tool, arguments).await;
    client.close().await;
    let result = called?;
    let printed = console::print_json(&result);
    let has_failed = result["isError"] == json!(true);
    Ok(if has_failed && printed == ExitCode::Done { ExitCode::Internal } else { printed })
}

fn add(cli: &Cli, args: &McpArgs, typed: &McpAddArgs) -> Result<ExitCode, CommandError> {
    let (sources, config) = configured(cli, &args.workdir, None)?;
    let entry = entry(typed)?;
    let server = entry.to_server(&typed.name).map_err(|it| CommandError::Usage(it.to_string()))?;
    let file = place(&config, &sources, typed.project)?;
    let value = serde_json::to_value(&entry).unwrap_or_default();
    let shown = sanitize_terminal(&plain(&file));
    let is_added = keeping_trust(&config, &sources, &file, || {
        change(&file, |servers| {
            let is_new = !servers.servers.contains_key(&typed.name);
            if is_new {
                servers.servers.insert(typed.name.clone(), value);
            }
            is_new
        })
    })?;
    if !is_added {
        return Err(CommandError::Exists { name: typed.name.clone(), file: shown });
    }
    tell_added(&server);
    console::tell(&format!("added to {shown}"));
    let is_trusted = ProjectSettings::find(&config, &sources).is_ok_and(|it| it.is_trusted());
    if typed.project && !is_trusted {
        console::tell(
            "trust the project with `loopwright trust`, then test the server with `loopwright mcp test`",
        );
    } else {
        console::tell(&format!(
            "test the server with `loopwright mcp test {}`",
            sanitize_terminal(&typed.name)
        ));
    }
    Ok(ExitCode::Done)
}

fn tell_added(server: &McpServer) {
    for line in server.describe() {
        console::tell(&sanitize_terminal(&format!("  {line}")));
    }
}

/// Makes an entry of what was typed.
fn entry(typed: &McpAddArgs) -> Result<ServerEntry, CommandError> {
    let usage = |text: String| CommandError::Usage(text);
    let mut entry = ServerEntry::default();
    let (first, rest) =
        typed.target.split_first().ok_or_else(|| usage("pass a URL or a command".to_owned()))?;
    let is_url = typed.url().is_some();
    if is_url && !rest.is_empty() {
        return Err(usage(format!(
            "unexpected `{}`: only options of `mcp add` can follow a URL",
            rest.join(" ")
        )));
    }
    if is_url {
        entry.kind = Some("http".to_owned());
        entry.url = Some(Template::new(first));
    } else {
        entry.command = Some(Template::new(first));
        entry.args = rest.iter().map(Template::new).collect();
    }
    for variable in &typed.env {
        let (name, value) = variable.split_once('=').ok_or_else(|| {
            usage(format!("`--env {variable}` has no value; write `--env NAME=VALUE`"))
        })?;
        entry.env.insert(name.to_owned(), Template::new(value));
    }
    for header in &typed.header {
        let (name, value) = header.split_once(':').ok_or_else(|| {
            usage("a header has no value; write `--header 'NAME: VALUE'`".to_owned())
        })?;
        entry.headers.insert(name.trim().to_owned(), Template::new(value.trim()));
    }
    let is_process_only = !typed.env.is_empty()
        || typed.sandbox.is_some()
        || !typed.network.is_empty()
        || !typed.read.is_empty()
        || !typed.write.is_empty();
    if is_url && is_process_only {
        return Err(usage(
            "`--env`, `--sandbox`, `--network`, `--read` and `--write` require a command instead of a URL".to_owned(),
        ));
    }
    if !is_url && !typed.header.is_empty() {
        return Err(usage("`--header` requires a URL instead of a command".to_owned()));
    }
    entry.sandbox = typed.sandbox.filter(|it| *it == SandboxArg::Off).map(|_| "off".to_owned());
    entry.network = match typed.network.as_slice() {
        [] => None,
        [all] if all == "all" => Some(json!("all")),
        hosts => Some(json!(hosts)),
    };
    entry.read.clone_from(&typed.read);
    entry.write.clone_from(&typed.write);
    entry.tools = Some(typed.tools.clone()).filter(|it| !it.is_empty());
    entry.timeout = typed.timeout;
    entry.sampling = typed.sampling.map(|it| {
        match it {
            SamplingArg::Ask => "ask",
            SamplingArg::Allow => "allow",
            SamplingArg::Deny => "deny",
        }
        .to_owned()
    });
    Ok(entry)
}

fn place(
    config: &Config,
    sources: &ConfigSources,
    is_project: bool,
) -> Result<std::path::PathBuf, CommandError> {
    if is_project {
        return Ok(project_root(&config.workdir).join(MCP_FILE));
    }
    user_file(sources).map(followed).ok_or(CommandError::NoPlace)
}

fn remove(cli: &Cli, args: &McpArgs, typed: &McpRemoveArgs) -> Result<ExitCode, CommandError> {
    let (sources, config) = configured(cli, &args.workdir, None)?;
    let file = place(&config, &sources, typed.project)?;
    let shown = sanitize_terminal(&plain(&file));
    let is_removed = keeping_trust(&config, &sources, &file, || {
        change(&file, |servers| servers.servers.remove(&typed.name).is_some())
    })?;
    if !is_removed {
        return Err(CommandError::NotThere { name: typed.name.clone(), file: shown });
    }
    console::tell(&format!("removed from {shown}"));
    Ok(ExitCode::Done)
}

async fn approve(cli: &Cli, args: &McpArgs, name: &str) -> Result<ExitCode, CommandError> {
    let surroundings = Surroundings::load(cli, args)?;
    let client = surroundings.client(name)?;
    client.connect().await?;
    if let Some(drift) = client.drift() {
        for line in drift.to_lines() {
            console::tell(&sanitize_terminal(&format!("  {line}")));
        }
    }
    let approved = client.approve().await;
    client.close().await;
    let tools = count(approved?.tools.len() as u64, "tool");
    console::tell(&sanitize_terminal(&format!("approved {tools} of {name}")));
    Ok(ExitCode::Done)
}

async fn login(cli: &Cli, args: &McpArgs, typed: &McpLoginArgs) -> Result<ExitCode, CommandError> {
    let surroundings = Surroundings::load(cli, args)?;
    let client = surroundings.client(&typed.name)?;
    let secret = typed.client_secret_env.as_ref().map(|name| {
        let value = surroundings.sources.environment.get(name).and_then(|it| it.to_str());
        value.map(ToOwned::to_owned).ok_or_else(|| {
            CommandError::Usage(format!(
                "environment variable `{name}` is not set; set it to the secret"
            ))
        })
    });
    let registered =
        typed.client_id.clone().map(|id| secret.transpose().map(|secret| (id, secret)));
    let is_new = log_in(&client, registered.transpose()?, &typed.scopes).await?;
    client.close().await;
    let shown = sanitize_terminal(&typed.name);
    console::tell(&if is_new {
        format!("logged in to {shown}")
    } else {
        format!("{shown} does not require a new login")
    });
    Ok(ExitCode::Done)
}

fn logout(cli: &Cli, args: &McpArgs, name: &str) -> Result<ExitCode, CommandError> {
    let client = Surroundings::load(cli, args)?.client(name)?;
    let removed = client.logout().map_err(std::sync::Arc::new)?;
    let shown = sanitize_terminal(name);
    console::tell(&if removed {
        format!("logged out of {shown}")
    } else {
        format!("not logged in to {shown}")
    });
    Ok(ExitCode::Done)
}

/// Returns what servers of a conversation do, for `/mcp`.
pub(crate) fn status(servers: &McpServers) -> String {
    if servers.clients().is_empty() && servers.untrusted().is_empty() {
        return "no MCP servers; add one with `loopwright mcp add`".to_owned();
    }
    let mut lines = Vec::new();
    for client in servers.clients() {
        let status = client.status();
        let listing = status.listing.as_ref();
        let tools = listing.map_or_else(
            || "tools unknown until the first start".to_owned(),
            |listing| count(listing.tools.len() as u64, "tool"),
        );
        let health = format!("{:?}", status.health).to_lowercase();
        let protocol = status.info.map(|info| format!(", protocol {}", info.protocol));
        let error = status.last_error.map(|error| format!("; {error}")).unwrap_or_default();
        let name = &client.server().name;
        let line = format!("{name}: {health}{}, {tools}{error}", protocol.unwrap_or_default());
        lines.push(sanitize_terminal(&line));
        let notes = listing.iter().flat_map(|it| &it.notes);
        lines.extend(notes.map(|it| sanitize_terminal(&format!("  {it}"))));
    }
    lines.extend(servers.untrusted().iter().map(|name| {
        sanitize_terminal(&format!(
            "{name}: not used, because this project is not trusted; review it with `loopwright trust`"
        ))
    }));
    lines.join("\n")
}
