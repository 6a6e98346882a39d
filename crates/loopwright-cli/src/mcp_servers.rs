//! The servers of the Model Context Protocol that a directory has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_mcp::{
    EntryError, FileCatalogs, LoginFolder, McpClient, McpFile, McpHost, McpServer, UseMcp,
    server_part,
};
use loopwright_sandbox::SandboxPolicy;

use crate::commands::Commands;
use crate::config::{Config, ConfigSources, read_text};
use crate::console;
use crate::permissions::{MCP_FILE, ProjectSettings};
use crate::project::plain;
use crate::render::{count, sanitize_terminal};
use crate::store::state_directory;

const USER_FILE: &str = "mcp.json";

/// A server that is configured.
#[derive(Debug)]
pub(crate) struct ConfiguredServer {
    pub(crate) server: McpServer,
    /// The file that it is from.
    pub(crate) file: PathBuf,
    /// Whether it may be started: it is the user's own, or that of a trusted project.
    pub(crate) is_trusted: bool,
}

/// The servers of a directory, and what is wrong with others.
#[derive(Debug, Default)]
pub(crate) struct ConfiguredServers {
    pub(crate) servers: Vec<ConfiguredServer>,
    pub(crate) problems: Vec<String>,
}

/// Returns the file of servers of the user.
pub(crate) fn user_file(sources: &ConfigSources) -> Option<PathBuf> {
    Some(sources.own_directory()?.join(USER_FILE))
}

impl ConfiguredServers {
    /// Finds the servers of a configuration. Of two servers of a name, the user's own counts: rules that allow its tools
    /// must never allow those of a project.
    pub(crate) fn find(
        config: &Config,
        sources: &ConfigSources,
        project: &ProjectSettings,
    ) -> Self {
        let mut found = Self::default();
        for (name, table) in &config.mcp.user {
            let file = table.origin.file().map(Path::to_path_buf).unwrap_or_default();
            if !table.value.0.disabled {
                found.add(table.value.0.to_server(name), &file, true);
            }
        }
        if let Some(path) = user_file(sources)
            && let Ok(text) = read_text(&path)
        {
            found.add_file(&text, &path, true);
        }
        let is_trusted = project.is_trusted();
        for (name, table) in &config.mcp.project {
            let file = table.origin.file().map(Path::to_path_buf).unwrap_or_default();
            if !table.value.0.disabled {
                found.add(table.value.0.to_server(name), &file, is_trusted);
            }
        }
        let path = project.root.join(MCP_FILE);
        if let Some(text) = project.text(&path) {
            found.add_file(text, &path, is_trusted);
        }
        found
    }

    fn add_file(&mut self, text: &str, path: &Path, is_trusted: bool) {
        match McpFile::parse(text) {
            Ok(file) => {
                for server in file.servers() {
                    self.add(server, path, is_trusted);
                }
            }
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let problem = format!(
                    "{}:{line}:{column}: not a file of MCP servers; correct it",
                    plain(path)
                );
                self.problems.push(problem);
            }
        }
    }

    fn add(&mut self, server: Result<McpServer, EntryError>, file: &Path, is_trusted: bool) {
        let server = match server {
            Ok(server) => server,
            Err(error) => return self.problems.push(format!("{}: {error}", plain(file))),
        };
        let part = server_part(&server.name);
        if let Some(first) = self.servers.iter().find(|it| server_part(&it.server.name) == part) {
            let problem = format!(
                "{}: MCP server `{}` is already defined in {}; rename one of them",
                plain(file),
                server.name,
                plain(&first.file)
            );
            return self.problems.push(problem);
        }
        self.servers.push(ConfiguredServer { server, file: file.to_path_buf(), is_trusted });
    }

    /// Warns about servers that are not used.
    pub(crate) fn tell_warnings(&self) {
        for problem in &self.problems {
            console::warn(&sanitize_terminal(problem));
        }
        let untrusted = self.servers.iter().filter(|it| !it.is_trusted).count();
        if untrusted > 0 {
            let ignored = count(untrusted as u64, "MCP server");
            console::warn(&format!(
                "this project is not trusted: {ignored} not used; review with `loopwright mcp \
                    list`, trust with `loopwright trust`"
            ));
        }
    }
}

/// The servers of an agent. Clones share their connections.
#[derive(Clone, Debug, Default)]
pub struct McpServers {
    clients: Vec<McpClient>,
    confined: Arc<BTreeSet<String>>,
}

impl McpServers {
    /// Prepares the servers that may be started. Nothing is started.
    pub(crate) fn of(
        found: &ConfiguredServers,
        config: &Config,
        sources: &ConfigSources,
        commands: &Commands,
    ) -> Self {
        let trusted: Vec<&ConfiguredServer> =
            found.servers.iter().filter(|it| it.is_trusted).collect();
        if trusted.is_empty() {
            return Self::default();
        }
        let host = host(config, sources, commands);
        let is_confined =
            |it: &&&ConfiguredServer| commands.are_confined() && it.server.is_confined();
        let confined = trusted.iter().filter(is_confined).map(|it| prefix(&it.server)).collect();
        let clients = trusted.iter().map(|it| client(&it.server, &host, sources)).collect();
        Self { clients, confined: Arc::new(confined) }
    }

    /// Returns the capability with the tools of the servers.
    pub(crate) fn capability(&self) -> UseMcp {
        UseMcp::new(self.clients.iter().cloned())
    }

    /// Returns the clients.
    pub(crate) fn clients(&self) -> &[McpClient] {
        &self.clients
    }

    /// Returns `true` if a tool is one of a server that is confined and has no network.
    pub(crate) fn is_confined(&self, tool: &str) -> bool {
        self.confined.iter().any(|prefix| tool.starts_with(prefix.as_str()))
    }
}

/// How the names of a server's tools begin.
fn prefix(server: &McpServer) -> String {
    format!("mcp__{}__", server_part(&server.name))
}

/// Makes a client, which starts nothing.
pub(crate) fn client(server: &McpServer, host: &McpHost, sources: &ConfigSources) -> McpClient {
    match state_directory(sources) {
        Some(state) => {
            let catalogs = Arc::new(FileCatalogs::new(state.join("mcp")));
            McpClient::with_catalogs(server.clone(), host.clone(), catalogs)
        }
        None => McpClient::new(server.clone(), host.clone()),
    }
}

/// Lets servers do what commands may do here.
pub(crate) fn host(config: &Config, sources: &ConfigSources, commands: &Commands) -> McpHost {
    let policy = commands.extend(SandboxPolicy::in_dir(&config.workdir));
    let environment = sources.environment.clone();
    let host = McpHost::in_dir(&config.workdir)
        .with_policy(policy)
        .with_variables(move |name| environment.get(name)?.to_str().map(ToOwned::to_owned));
    match state_directory(sources) {
        Some(state) => host.with_logins(LoginFolder::new(state.join("mcp").join("logins"))),
        None => host,
    }
}

/// Changes a file of servers as a whole, keeping what is not known in it.
pub(crate) fn change(
    path: &Path,
    change: impl FnOnce(&mut McpFile) -> bool,
) -> Result<bool, FileError> {
    let failed = |source| FileError::Write { path: path.to_path_buf(), source };
    let mut file = match read_text(path) {
        Ok(text) => McpFile::parse(&text)
            .map_err(|source| FileError::Read { path: path.to_path_buf(), source })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => McpFile::default(),
        Err(source) => return Err(failed(source)),
    };
    if !change(&mut file) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let text = serde_json::to_string_pretty(&file).map_err(|error| failed(error.into()))?;
    let new = path.with_extension("json.new");
    fs::write(&new, text + "\n").and_then(|()| fs::rename(&new, path)).map_err(failed)?;
    Ok(true)
}

/// Why a file of servers cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{} is not a file of MCP servers; correct it first", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot write {}; nothing was changed", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}
