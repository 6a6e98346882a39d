//! A call of a tool, as rules see it.

use std::fmt;

use serde_json::Value;
use smallvec::SmallVec;

use crate::tools::{self, ToolKind, ToolName};

/// The kind of access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// The file is read.
    Read,
    /// The file is created, changed or removed.
    Write,
}

/// A request of a command for access beyond the sandbox.
///
/// It is decided like a separate call: a host by `Network(domain:…)`, a path by `Read(…)` and
/// `Edit(…)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// To reach a host.
    Host(&'a str),
    /// To read a file, or a folder with everything in it.
    Read(&'a str),
    /// To write a file, or a folder with everything in it.
    Write(&'a str),
}

impl<'a> Need<'a> {
    /// Returns the call that it is decided about as.
    pub(crate) fn call(self, of: &Call<'a>) -> Call<'a> {
        let tool = match self {
            Self::Host(_) => "network",
            Self::Read(_) => "read_file",
            Self::Write(_) => "edit_file",
        };
        let mut call = Call::new(tool, &Value::Null);
        call.reads.clear();
        call.workdir = of.workdir;
        match self {
            Self::Host(host) => call.host = Some(host),
            Self::Read(path) => call.reads.push(path),
            Self::Write(path) => call.writes.push(path),
        }
        call
    }
}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => write!(f, "network access to `{host}`"),
            Self::Read(path) => write!(f, "read access to `{path}`"),
            Self::Write(path) => write!(f, "write access to `{path}`"),
        }
    }
}

/// The folder in which the previous command ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Last<'a> {
    /// Commands start in the working directory.
    None,
    Folder(&'a str),
    Unknown,
}

/// A tool call that needs a decision.
///
/// For tools that are known by name, the effects of the call are derived from its arguments: the
/// command, the path, the URL, the agent and the skill. Use the other methods to add what the tool
/// declares.
///
/// ```
/// use loopwright_permissions::Call;
/// use serde_json::json;
///
/// let arguments = json!({ "command": "cargo test" });
/// let call = Call::new("bash", &arguments);
/// assert_eq!(call.command(), Some("cargo test"));
/// ```
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub(crate) tool: ToolName<'a>,
    pub(crate) called: &'a str,
    pub(crate) arguments: &'a Value,
    pub(crate) reads: SmallVec<[&'a str; 2]>,
    pub(crate) writes: SmallVec<[&'a str; 2]>,
    pub(crate) command: Option<&'a str>,
    pub(crate) url: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    pub(crate) agent: Option<&'a str>,
    pub(crate) skill: Option<&'a str>,
    pub(crate) preloaded: SmallVec<[&'a str; 2]>,
    pub(crate) workdir: Option<&'a str>,
    pub(crate) last: Last<'a>,
    pub(crate) needs: SmallVec<[Need<'a>; 2]>,
    pub(crate) is_confined: bool,
    pub(crate) is_read_only: bool,
}

/// Returns the paths in the arguments of a tool for files. A tool may take any of them, so each counts.
fn paths(arguments: &Value) -> impl Iterator<Item = &str> {
    let keys = ["path", "file_path", "notebook_path"];
    keys.into_iter().filter_map(|key| arguments.get(key)?.as_str())
}

impl<'a> Call<'a> {
    /// Creates a call from the name of the tool and its arguments.
    pub fn new(tool: &'a str, arguments: &'a Value) -> Self {
        let name = tools::find(tool);
        let text = |keys: &[&str]| keys.iter().find_map(|key| arguments.get(*key)?.as_str());
        let mut call = Self {
            tool: name,
            called: tool,
            arguments,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            command: None,
            url: None,
            host: None,
            agent: None,
            skill: None,
            preloaded: SmallVec::new(),
            workdir: None,
            last: Last::None,
            needs: SmallVec::new(),
            is_confined: false,
            is_read_only: false,
        };
        let mut paths = paths(arguments).peekable();
        match name.kind {
            ToolKind::Command => {
                call.command = text(&["command"]);
                let list = |key: &str| {
                    let list = arguments.get(key).and_then(Value::as_array);
                    list.into_iter().flatten().filter_map(Value::as_str)
                };
                call.needs.extend(list("network").map(Need::Host));
                call.needs.extend(list("read").map(Need::Read));
                call.needs.extend(list("write").map(Need::Write));
            }
            ToolKind::Read if paths.peek().is_none() => call.reads.push("."),
            ToolKind::Read => call.reads.extend(paths),
            ToolKind::Write => call.writes.extend(paths),
            ToolKind::Web => call.url = text(&["url"]),
            ToolKind::Network => {
                call.url = text(&["url"]);
                call.host = text(&["domain", "host"]);
            }
            ToolKind::Agent if name.name == "research_subagent" => call.agent = Some("research"),
            ToolKind::Agent => {
                call.agent = text(&["subagent", "subagent_type"]).map(str::trim);
            }
            ToolKind::Skill => {
                call.skill = text(&["skill_name", "skill", "command"]).map(str::trim);
            }
            ToolKind::Mcp | ToolKind::Harmless | ToolKind::Other => {}
        }
        call
    }

    /// Adds files that the tool declares to read.
    #[must_use]
    pub fn reading(mut self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        self.reads.extend(paths);
        self
    }

    /// Adds files that the tool declares to write.
    #[must_use]
    pub fn writing(mut self, paths: impl IntoIterator<Item = &'a str>) -> Self {
        self.writes.extend(paths);
        self
    }

    /// Sets the command that the tool declares to run.
    #[must_use]
    pub fn running(mut self, command: &'a str) -> Self {
        self.command = Some(command);
        self
    }

    /// Sets the URL that the tool declares to request.
    #[must_use]
    pub fn requesting(mut self, url: &'a str) -> Self {
        self.url = Some(url);
        self
    }

    /// Sets the agent that the tool declares to start. Rules decide about a tool that is not for agents as about one that
    /// is.
    #[must_use]
    pub fn starting_agent(mut self, agent: &'a str) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Adds skills that are part of the instructions of the agent that the call starts. Rules for skills apply to them.
    #[must_use]
    pub fn preloading_skills(mut self, skills: impl IntoIterator<Item = &'a str>) -> Self {
        self.preloaded.extend(skills);
        self
    }

    /// Sets the folder that the call works in, if it is not that of the policy.
    #[must_use]
    pub fn in_dir(mut self, folder: &'a str) -> Self {
        self.workdir = Some(folder);
        self
    }

    /// Sets the folder in which the previous command ended, if commands start there. A command starts in the working
    /// directory if that folder no longer exists, so both count.
    #[must_use]
    pub fn with_last_dir(mut self, folder: &'a str) -> Self {
        self.last = Last::Folder(folder);
        self
    }

    /// Marks the command as starting in an unknown folder.
    #[must_use]
    pub fn with_unknown_dir(mut self) -> Self {
        self.last = Last::Unknown;
        self
    }

    /// Marks the call as confined by the sandbox: it can change nothing outside the folders, and
    /// has no network. In mode `plan`, it does not change the folders either.
    #[must_use]
    pub fn confined(mut self) -> Self {
        self.is_confined = true;
        self
    }

    /// Marks the call as free of side effects.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Marks the call as one that reaches nothing but files of the folders. Rules and modes decide
    /// about it as about the known tools for files: as writing what it declares to write, or as
    /// reading if it is [free of side effects](Self::read_only).
    #[must_use]
    pub fn only_files(mut self) -> Self {
        if self.tool.kind == ToolKind::Other {
            let is_reading = self.is_read_only && self.writes.is_empty();
            self.tool.kind = if is_reading { ToolKind::Read } else { ToolKind::Write };
            if is_reading && self.reads.is_empty() {
                self.reads.extend(paths(self.arguments));
            }
            if is_reading && self.reads.is_empty() {
                self.reads.push(".");
            }
        }
        self
    }

    /// Returns the command's requests for access beyond the sandbox.
    pub fn needs(&self) -> &[Need<'a>] {
        &self.needs
    }

    /// Returns the name of the tool as it was called.
    pub fn tool(&self) -> &'a str {
        self.called
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &'a Value {
        self.arguments
    }

    /// Returns the command that runs, or `None` if the tool runs none.
    pub fn command(&self) -> Option<&'a str> {
        self.command
    }

    /// Returns the host that is requested. It is an error if there is one and it is not clear which.
    pub(crate) fn host(&self) -> Result<Option<String>, ()> {
        match (self.host, self.url) {
            (Some(host), _) => crate::domain::plain(host).map(Some).ok_or(()),
            (None, Some(url)) => crate::domain::host(url).map(Some).ok_or(()),
            (None, None) => Ok(None),
        }
    }
}
