//! The servers of the Model Context Protocol that a directory has.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use loopwright_agent::AgentDefinition;
use loopwright_mcp::{
    EntryError, FileCatalogs, LoginFolder, McpClient, McpFile, McpHost, McpServer, ServerHealth,
    UseMcp, read_entry, server_part,
};
use loopwright_sandbox::SandboxPolicy;
use loopwright_templates::DefinitionLoader;

use crate::commands::Commands;
use crate::config::{Config, ConfigSources, Discovery, read_text};
use crate::console;
use crate::project::plain;
use crate::project_settings::{MCP_FILE, ProjectSettings, agent_files};
use crate::render::sanitize_terminal;
use crate::store::state_directory;
use crate::whole_file::replace;

const USER_FILE: &str = "mcp.json";

/// Where servers are from that an editor names, in messages.
const EDITOR: &str = "the editor";

/// A server that is configured.
#[derive(Debug)]
pub(crate) struct ConfiguredServer {
    pub(crate) server: McpServer,
    /// The file that it is from.
    pub(crate) file: PathBuf,
    /// Whether it may be started: it is the user's own, or that of a trusted project.
    pub(crate) is_trusted: bool,
    /// Whether the definition of an agent brings it.
    pub(crate) is_brought: bool,
}

/// A server whose name is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownServer {
    pub(crate) name: String,
    /// Whether the definition of an agent brings it.
    pub(crate) is_brought: bool,
}

/// The servers of a directory, and what is wrong with others.
#[derive(Debug, Default)]
pub(crate) struct ConfiguredServers {
    pub(crate) servers: Vec<ConfiguredServer>,
    pub(crate) problems: Vec<String>,
    /// The files of the servers, by what the names of their tools have of them.
    parts: HashMap<String, PathBuf>,
}

/// Returns the file of servers of the user.
pub(crate) fn user_file(sources: &ConfigSources) -> Option<PathBuf> {
    Some(sources.own_directory()?.join(USER_FILE))
}

impl ConfiguredServers {
    /// Finds the servers of a configuration, those that options name first. Of two servers of a name, the user's own counts: rules that allow its tools
    /// must never allow those of a project.
    pub(crate) fn find(
        config: &Config,
        sources: &ConfigSources,
        project: &ProjectSettings,
    ) -> Self {
        let mut found = Self::default();
        for named in &sources.named_servers {
            for server in &named.servers {
                found.add(Ok(server.clone()), &named.source, true, false);
            }
        }
        if sources.only_named_servers {
            return found;
        }
        for (name, table) in &config.mcp.user {
            let file = table.origin.file().map(Path::to_path_buf).unwrap_or_default();
            if !table.value.0.disabled {
                found.add(table.value.0.to_server(name), &file, true, false);
            }
        }
        if let Some(path) = user_file(sources)
            && let Ok(text) = read_text(&path)
        {
            found.add_file(&text, &path, true);
        }
        for server in &sources.editor_servers {
            found.add(server.clone(), Path::new(EDITOR), true, false);
        }
        for (path, text) in agent_files(user_agents(sources)) {
            found.add_brought(&text, &path, true);
        }
        let is_trusted = project.is_trusted();
        for (name, table) in &config.mcp.project {
            let file = table.origin.file().map(Path::to_path_buf).unwrap_or_default();
            if !table.value.0.disabled {
                found.add(table.value.0.to_server(name), &file, is_trusted, false);
            }
        }
        let path = project.root.join(MCP_FILE);
        if let Some(text) = project.text(&path) {
            found.add_file(text, &path, is_trusted);
        }
        for (path, text) in project.agents() {
            found.add_brought(text, path, is_trusted);
        }
        found
    }

    /// Adds the servers that the file of an agent brings. What else is wrong with the file is told where agents are read.
    fn add_brought(&mut self, text: &str, path: &Path, is_trusted: bool) {
        let kind = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        let Ok(read) = DefinitionLoader::new().read(kind, text) else { return };
        for (name, server) in read.definition.mcp_servers.into_iter().flatten() {
            if server.is_null() {
                continue;
            }
            let Some(server) = read_entry(&name, server) else { continue };
            // Agents may bring one server together.
            let is_same = |it: &ConfiguredServer| Ok(&it.server) == server.as_ref();
            if !self.servers.iter().any(is_same) {
                self.add(server, path, is_trusted, true);
            }
        }
    }

    /// Returns the names of all servers.
    pub(crate) fn known(&self) -> Vec<KnownServer> {
        let known = |it: &ConfiguredServer| KnownServer {
            name: it.server.name.clone(),
            is_brought: it.is_brought,
        };
        self.servers.iter().map(known).collect()
    }

    fn add_file(&mut self, text: &str, path: &Path, is_trusted: bool) {
        match McpFile::parse(text) {
            Ok(file) => {
                for server in file.servers() {
                    self.add(server, path, is_trusted, false);
                }
            }
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let problem = format!(
                    "{}:{line}:{column}: not a valid MCP server file; correct it",
                    plain(path)
                );
                self.problems.push(problem);
            }
        }
    }

    fn add(
        &mut self,
        server: Result<McpServer, EntryError>,
        file: &Path,
        is_trusted: bool,
        is_brought: bool,
    ) {
        let server = match server {
            Ok(server) => server,
            Err(error) => return self.problems.push(format!("{}: {error}", plain(file))),
        };
        let file = file.to_path_buf();
        match self.parts.entry(server_part(&server.name)) {
            Entry::Occupied(first) => {
                let problem = format!(
                    "{}: MCP server `{}` is already defined in {}; rename one of them",
                    plain(&file),
                    server.name,
                    plain(first.get())
                );
                return self.problems.push(problem);
            }
            Entry::Vacant(place) => place.insert(file.clone()),
        };
        self.servers.push(ConfiguredServer { server, file, is_trusted, is_brought });
    }

    /// Warns about servers that cannot be used.
    pub(crate) fn tell_warnings(&self) {
        for problem in &self.problems {
            console::warn(&sanitize_terminal(problem));
        }
    }
}

/// Returns the directories of the user's agents.
pub(crate) fn user_agents(sources: &ConfigSources) -> impl Iterator<Item = PathBuf> {
    let home = sources.home.as_ref().filter(|_| sources.discovery == Discovery::Files);
    let home = home.map(|it| it.join(".claude/agents"));
    let own = sources.own_directory().map(|it| it.join("agents"));
    home.into_iter().chain(own)
}

/// The servers of an agent. Clones share their connections.
#[derive(Clone, Debug, Default)]
pub struct McpServers {
    clients: Vec<McpClient>,
    confined: Arc<BTreeSet<String>>,
    /// The names of servers that cannot be used because the project is not trusted.
    untrusted: Arc<Vec<String>>,
    /// Whether a user is there to answer what servers ask.
    is_attended: Arc<AtomicBool>,
    /// The servers whose failures were told.
    told: Arc<Mutex<BTreeSet<String>>>,
}

impl McpServers {
    /// Prepares the servers that may be started, for an agent with a definition or without. Nothing is started.
    pub(crate) fn of(
        found: &ConfiguredServers,
        agent: Option<&AgentDefinition>,
        config: &Config,
        sources: &ConfigSources,
        commands: &Commands,
    ) -> Self {
        let trusted: Vec<&ConfiguredServer> =
            found.servers.iter().filter(|it| it.is_trusted).collect();
        let untrusted = found.servers.iter().filter(|it| !it.is_trusted);
        let untrusted: Vec<String> = untrusted.map(|it| it.server.name.clone()).collect();
        let untrusted = Arc::new(untrusted);
        if trusted.is_empty() {
            return Self { untrusted, ..Self::default() };
        }
        let is_attended: Arc<AtomicBool> = Arc::default();
        let attendance = Arc::clone(&is_attended);
        let host = host(config, sources, commands)
            .with_attendance(move || attendance.load(Ordering::Relaxed));
        let is_confined =
            |it: &&&ConfiguredServer| commands.are_confined() && it.server.is_confined();
        let confined = trusted.iter().filter(is_confined).map(|it| prefix(&it.server)).collect();
        let is_own = |name: &String| {
            let named = agent.and_then(|it| it.mcp_servers.as_ref());
            named.is_some_and(|it| it.contains_key(name))
        };
        let clients = trusted.iter().map(|it| {
            let mut server = it.server.clone();
            if it.is_brought && !is_own(&server.name) {
                // They are for another agent: they cost this one nothing.
                server.defer = server.defer.or(Some(true));
            }
            client(&server, &host, sources)
        });
        let clients = clients.collect();
        let confined = Arc::new(confined);
        Self { clients, confined, untrusted, is_attended, told: Arc::default() }
    }

    /// Returns the capability with the tools of the servers.
    pub(crate) fn capability(&self) -> UseMcp {
        UseMcp::new(self.clients.iter().cloned())
    }

    /// Sets whether a user is there to answer what servers ask.
    pub(crate) fn set_attended(&self, is_attended: bool) {
        self.is_attended.store(is_attended, Ordering::Relaxed);
    }

    /// Returns the names of servers that cannot be used because the project is not trusted.
    pub(crate) fn untrusted(&self) -> &[String] {
        &self.untrusted
    }

    /// Returns the clients.
    pub(crate) fn clients(&self) -> &[McpClient] {
        &self.clients
    }

    /// Warns about servers that failed, once each: the model only sees that their tools are missing.
    pub(crate) fn tell_failures(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for client in &self.clients {
            let status = client.status();
            let mut is_new = || told.insert(client.server().name.clone());
            if status.health == ServerHealth::Failed && is_new() {
                console::warn(&status.last_error.unwrap_or_default());
            }
        }
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
    let policy = commands.extend_for_user_programs(SandboxPolicy::in_dir(&config.workdir));
    let environment = sources.environment.clone();
    let folders = std::iter::once(&config.workdir).chain(&commands.folders);
    let host = McpHost::in_dir(&config.workdir)
        .with_roots(folders.cloned())
        .with_policy(policy)
        .with_variables(move |name| environment.get(name)?.to_str().map(ToOwned::to_owned));
    match state_directory(sources) {
        Some(state) => host.with_logins(LoginFolder::new(state.join("mcp").join("logins"))),
        None => host,
    }
}

/// Changes a file of servers as a whole, keeping what is not known in it, and who may read it. Other processes that do
/// the same wait.
pub(crate) fn change(
    path: &Path,
    change: impl FnOnce(&mut McpFile) -> bool,
) -> Result<bool, FileError> {
    let failed = |source| FileError::Write { path: path.to_path_buf(), source };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    // The folder is locked, as a file for it would stay in the project. Where folders cannot be locked, nothing waits.
    let lock = File::open(folder).ok();
    let _locked = lock.as_ref().map(File::lock);
    let mut file = match read_text(path) {
        Ok(text) => McpFile::parse(&text)
            .map_err(|source| FileError::Read { path: path.to_path_buf(), source })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => McpFile::default(),
        Err(source) => return Err(failed(source)),
    };
    if !change(&mut file) {
        return Ok(false);
    }
    let text = serde_json::to_string_pretty(&file).map_err(|error| failed(error.into()))?;
    replace(path, &(text + "\n"), false).map_err(failed)?;
    Ok(true)
}

/// Why a file of servers cannot be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{} is not a valid MCP server file; correct it first", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot write {}; nothing was changed", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, Loaded};

    #[test]
    fn added_folders_are_roots_of_servers() {
        let home = tempfile::tempdir().unwrap();
        let sources = ConfigSources {
            home: Some(home.path().into()),
            cwd: home.path().into(),
            ..ConfigSources::default()
        };
        let flags = Flags { workdir: home.path().into(), ..Flags::default() };
        let Loaded { config, .. } = Config::load(flags, &sources).unwrap();
        let mut commands = Commands::default();
        commands.folders.push("/docs".into());
        let expect = [config.workdir.clone(), "/docs".into()];
        assert_eq!(host(&config, &sources, &commands).roots(), expect);
    }
}
