//! The start of server processes.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loopwright_sandbox::{
    Backend, BackendChoice, BackendSandbox, Command, Network, OutputLimits, Sandbox, SandboxChild,
    SandboxError, SandboxPolicy, Stdin,
};

use crate::config::{McpServer, ServerNetwork, StdioServer};
use crate::credentials::LoginFolder;
use crate::elicitation::AnswerElicitations;
use crate::error::McpError;
use crate::programs::{add_programs, missing};
use crate::template::{Template, TemplateError};

/// The longest time that a policy can name and every clock can add.
const FOREVER: Duration = Duration::from_hours(10 * 365 * 24);

/// Threads and processes of a server: interpreters have a dozen threads each.
const PROCESSES: u64 = 256;

/// The environment of connections: the sandbox of processes, and the values of variables.
#[derive(Clone)]
#[must_use]
pub struct McpHost {
    sandbox: Arc<dyn Sandbox>,
    policy: SandboxPolicy,
    variables: Arc<Variables>,
    roots: Vec<PathBuf>,
    answers: Option<Arc<dyn AnswerElicitations>>,
    logins: Option<LoginFolder>,
    is_attended: Arc<dyn Fn() -> bool + Send + Sync>,
}

type Variables = dyn Fn(&str) -> Option<String> + Send + Sync;

impl McpHost {
    /// Creates a host whose servers work in `folder`, in the strongest sandbox of this machine.
    pub fn in_dir(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self {
            sandbox: loopwright_sandbox::auto_select(),
            answers: None,
            logins: None,
            is_attended: Arc::new(|| false),
            roots: vec![folder.clone()],
            policy: SandboxPolicy::in_dir(folder),
            variables: Arc::new(|name| std::env::var(name).ok()),
        }
    }

    /// Sets the sandbox of servers that are confined.
    pub fn with_sandbox(mut self, sandbox: Arc<dyn Sandbox>) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Sets the base policy of servers. They work in its folder.
    pub fn with_policy(mut self, policy: SandboxPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the source of the values of `${NAME}`; by default the environment of this process.
    pub fn with_variables(
        mut self,
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.variables = Arc::new(variables);
        self
    }

    /// Sets the folders that servers should work with.
    pub fn with_roots(mut self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        self.roots = roots.into_iter().collect();
        self
    }

    /// Sets the store for tokens of logins, which are sent to their servers.
    pub fn with_logins(mut self, logins: LoginFolder) -> Self {
        self.logins = Some(logins);
        self
    }

    pub(crate) fn logins(&self) -> Option<&LoginFolder> {
        self.logins.as_ref()
    }

    /// Sets the handler for questions of servers during a call.
    pub fn with_answers(mut self, answers: Arc<dyn AnswerElicitations>) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Sets a function that returns `true` while a user is present. While it does, calls wait in this process for the
    /// user's answer if the server needs an open connection. Otherwise, questions of such servers are declined.
    pub fn with_attendance(
        mut self,
        is_attended: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_attended = Arc::new(is_attended);
        self
    }

    pub(crate) fn holds_calls(&self) -> bool {
        (self.is_attended)()
    }

    pub(crate) fn answers(&self) -> Option<&Arc<dyn AnswerElicitations>> {
        self.answers.as_ref()
    }

    /// Returns the folders that servers should work with.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    pub(crate) fn expand(&self, server: &McpServer, text: &Template) -> Result<String, McpError> {
        let failed =
            |source: TemplateError| McpError::Configuration { server: server.name.clone(), source };
        text.expand(|name| (self.variables)(name)).map_err(failed)
    }

    /// Returns the policy of a server process, without the values of its variables.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Invalid`] if it cannot be enforced.
    pub fn policy(
        &self,
        server: &McpServer,
        stdio: &StdioServer,
    ) -> Result<SandboxPolicy, McpError> {
        let mut policy = self.policy.clone();
        if let Some(cwd) = &stdio.cwd {
            policy.workdir = policy.workdir.join(self.in_home(cwd));
        }
        policy.staging = None;
        policy.limits.timeout = FOREVER;
        policy.limits.idle_timeout = None;
        policy.limits.cpu = None;
        policy.limits.memory = server.sandbox.memory;
        policy.limits.processes = policy.limits.processes.max(PROCESSES);
        policy.output = OutputLimits { head: 0, tail: 0, kill: None };
        policy.read_paths.extend(server.sandbox.read.iter().map(|it| self.in_home(it)));
        policy.write_paths.extend(server.sandbox.write.iter().map(|it| self.in_home(it)));
        policy.network = match &server.sandbox.network {
            ServerNetwork::Off => Network::Loopback,
            ServerNetwork::All => Network::Host,
            ServerNetwork::Hosts(hosts) => Network::Domains(hosts.clone()),
        };
        Ok(policy)
    }

    /// Reads a path as people write it: `~` is the user's home.
    fn in_home(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), (self.variables)("HOME")) {
            (Ok(below), Some(home)) if !home.is_empty() => PathBuf::from(home).join(below),
            _ => path.to_path_buf(),
        }
    }

    pub(crate) async fn start(
        &self,
        server: &McpServer,
        stdio: &StdioServer,
    ) -> Result<SandboxChild, McpError> {
        let mut policy = self.policy(server, stdio)?;
        for (name, value) in &stdio.env {
            policy.environment = policy.environment.set(name.clone(), self.expand(server, value)?);
        }
        let program = self.expand(server, &stdio.command)?;
        let mut args = Vec::with_capacity(stdio.args.len());
        for arg in &stdio.args {
            args.push(self.expand(server, arg)?);
        }
        let command = Command::new(&program).args(args).stdin(Stdin::Piped);
        let failed =
            |source| McpError::Start { server: server.name.clone(), source: Box::new(source) };
        if !server.sandbox.enabled {
            // The process has the network and the files of the user.
            policy.network = Network::Host;
            let host = BackendSandbox::new(Backend::Host);
            return host.spawn(&command, &policy).await.map_err(failed);
        }
        let user_path = OsString::from((self.variables)("PATH").unwrap_or_default());
        if !stdio.env.contains_key("PATH") {
            add_programs(&mut policy, &user_path);
        }
        let error = match self.sandbox.spawn(&command, &policy).await {
            Ok(child) => return Ok(child),
            Err(error) => error,
        };
        let is_start = matches!(error, SandboxError::Start { .. });
        if !is_start || policy.backend == BackendChoice::Only(Backend::Host) {
            return Err(failed(error));
        }
        match missing(&policy, &program, &user_path) {
            Some(missing) => Err(McpError::Program { server: server.name.clone(), missing }),
            None => Err(failed(error)),
        }
    }
}

impl fmt::Debug for McpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHost")
            .field("workdir", &self.policy.workdir)
            .field("roots", &self.roots)
            .finish_non_exhaustive()
    }
}
