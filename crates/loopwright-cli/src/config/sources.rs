//! The environment of the process, as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use loopwright_mcp::{EntryError, McpServer};

/// Everything that the configuration is looked for in, so that tests need no global state.
#[derive(Clone, Default)]
pub struct ConfigSources {
    /// The environment variables whose names are text.
    pub environment: BTreeMap<String, OsString>,
    /// The directory that relative paths start from.
    pub cwd: PathBuf,
    /// The home directory of the user, if there is one.
    pub home: Option<PathBuf>,
    /// The folder in which an administrator sets what holds for all users of Claude Code. `None` means that it is not read.
    pub managed: Option<PathBuf>,
    /// What is looked for.
    pub discovery: Discovery,
    /// MCP servers that options name.
    pub named_servers: Vec<NamedServers>,
    /// Whether these are the only MCP servers.
    pub only_named_servers: bool,
    /// MCP servers that the user's editor names, and why others cannot be used.
    pub editor_servers: Vec<Result<McpServer, EntryError>>,
}

/// The MCP servers of a file or of a JSON object, which an option names.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedServers {
    /// The file, or the option that has the object.
    pub source: PathBuf,
    /// The servers.
    pub servers: Vec<McpServer>,
}

impl NamedServers {
    /// The source of servers that the option itself has.
    pub(crate) const OPTION: &str = "--mcp-config";

    /// Returns `true` if the option has the JSON object itself.
    pub(crate) fn is_inline(&self) -> bool {
        self.source.as_os_str() == Self::OPTION
    }
}

/// What is looked for besides what is named on the command line and in variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discovery {
    /// Files of the user and of the project: settings, instructions, agents, skills, hooks and servers.
    #[default]
    Files,
    /// Nothing.
    Nothing,
}

impl ConfigSources {
    /// Takes a copy of the environment of this process.
    ///
    /// # Errors
    ///
    /// Fails if the current directory is gone or cannot be reached.
    pub fn from_process() -> std::io::Result<Self> {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .collect();
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let discovery = Discovery::default();
        let managed = Some(PathBuf::from("/etc/claude-code"));
        let cwd = std::env::current_dir()?;
        Ok(Self { environment, cwd, home, managed, discovery, ..Self::default() })
    }

    /// Returns the directory of the user's configuration, if there is a place for it and it is looked for.
    pub fn own_directory(&self) -> Option<PathBuf> {
        if self.discovery == Discovery::Nothing {
            return None;
        }
        let configured = self.variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let configured = configured.filter(|directory| directory.is_absolute());
        let usual = || self.home.as_ref().map(|home| home.join(".config"));
        Some(configured.or_else(usual)?.join("loopwright"))
    }

    /// Returns the place of the user's configuration file, if there is a place for it and it is looked for.
    pub(crate) fn user_file(&self) -> Option<PathBuf> {
        Some(self.own_directory()?.join("config.toml"))
    }

    /// The value of a variable; an empty one counts as absent.
    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}

/// Shows no variables, because some of them are secrets.
impl fmt::Debug for ConfigSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigSources")
            .field("cwd", &self.cwd)
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_show_the_environment() {
        let environment = BTreeMap::from([("OPENAI_API_KEY".to_owned(), OsString::from("hidden"))]);
        let sources = ConfigSources { environment, cwd: "/w".into(), ..ConfigSources::default() };
        assert_eq!(format!("{sources:?}"), "ConfigSources { cwd: \"/w\", home: None, .. }");
    }

    #[test]
    fn an_empty_variable_is_absent() {
        let environment = BTreeMap::from([("EMPTY".to_owned(), OsString::new())]);
        let sources = ConfigSources { environment, ..ConfigSources::default() };
        assert_eq!(sources.variable("EMPTY"), None);
    }

    #[test]
    fn the_process_has_a_current_directory() {
        let sources = ConfigSources::from_process().unwrap();
        assert_eq!(sources.cwd, std::env::current_dir().unwrap());
    }
}
