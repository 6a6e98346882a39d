//! The capability for commands.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_sandbox::{BackendChoice, Sandbox, SandboxPolicy};
use serde::{Deserialize, Serialize};

use crate::bash::{Bash, BashPolicy, background};
use crate::files::FileJournal;

/// Adds the tool `bash`, which runs commands in a sandbox.
///
/// ```
/// use loopwright_capabilities::bash::{Background, BashPolicy, UseBash};
///
/// let commands = UseBash::in_dir("/srv/project")
///     .with_output_policy(BashPolicy::with_limits(50_000, 8_000, 40_000))
///     .persist_cwd()
///     .background(Background::Allowed);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct UseBash {
    bash: Bash,
    background: Background,
}

/// Whether commands can run in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Background {
    /// The agent waits for each command.
    #[default]
    Denied,
    /// Adds the tools `bash_start`, `bash_read` and `bash_stop`. Background commands end with the
    /// run.
    Allowed,
}

const GUIDELINES: &str = "\
Use the file tools to read and change files, not `cat`, `sed` or `echo` in bash.
Answer in plain text; do not print summaries with bash.";

impl UseBash {
    /// Creates the tools for commands in a directory.
    pub fn in_dir(path: impl Into<PathBuf>) -> Self {
        Self::from_tool(Bash::in_dir(path))
    }

    /// Creates the capability from a configured tool.
    pub fn from_tool(bash: Bash) -> Self {
        Self { bash, background: Background::default() }
    }

    /// Sets the sandbox; see [`Bash::sandbox`].
    pub fn sandbox(mut self, sandbox: Arc<dyn Sandbox>) -> Self {
        self.bash = self.bash.sandbox(sandbox);
        self
    }

    /// Sets the policy of commands; see [`Bash::policy`].
    pub fn policy(mut self, policy: SandboxPolicy) -> Self {
        self.bash = self.bash.policy(policy);
        self
    }

    /// Changes the policy of commands; see [`Bash::confine`].
    pub fn confine(mut self, change: impl FnOnce(SandboxPolicy) -> SandboxPolicy) -> Self {
        self.bash = self.bash.confine(change);
        self
    }

    /// Sets the maximum duration of a command; see [`Bash::longest`].
    pub fn longest(mut self, longest: Duration) -> Self {
        self.bash = self.bash.longest(longest);
        self
    }

    /// Selects the sandbox backend; see [`SandboxPolicy::backend`].
    pub fn driver(mut self, driver: impl Into<BackendChoice>) -> Self {
        self.bash = self.bash.driver(driver);
        self
    }

    /// Sets the limits for output; see [`Bash::with_output_policy`].
    pub fn with_output_policy(mut self, display: BashPolicy) -> Self {
        self.bash = self.bash.with_output_policy(display);
        self
    }

    /// Stages changes of commands in this folder; see [`Bash::staging`].
    pub fn staging(mut self, folder: impl Into<PathBuf>) -> Self {
        self.bash = self.bash.staging(folder);
        self
    }

    /// Applies changes of commands immediately; see [`Bash::write_at_once`].
    pub fn write_at_once(mut self) -> Self {
        self.bash = self.bash.write_at_once();
        self
    }

    /// Allows changes that are otherwise refused; see [`Bash::allow`].
    pub fn allow(mut self, path: impl AsRef<Path>) -> Self {
        self.bash = self.bash.allow(path);
        self
    }

    /// Sets where changes of commands are recorded; see [`Bash::journal`].
    pub fn journal(mut self, journal: Arc<dyn FileJournal>) -> Self {
        self.bash = self.bash.journal(journal);
        self
    }

    /// Lets commands request access beyond the sandbox; see [`Bash::allow_needs`].
    pub fn allow_needs(mut self, home: Option<PathBuf>) -> Self {
        self.bash = self.bash.allow_needs(home);
        self
    }

    /// Starts each command in the directory where the previous one ended.
    pub fn persist_cwd(mut self) -> Self {
        self.bash = self.bash.persist_cwd();
        self
    }

    /// Sets whether commands may run in the background.
    pub fn background(mut self, background: Background) -> Self {
        self.background = background;
        self
    }
}

impl Capability for UseBash {
    fn name(&self) -> Cow<'static, str> {
        "use_bash".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(self.bash.clone());
        if self.background == Background::Allowed {
            let (start, read, stop) = background::tools(&self.bash);
            agent.tools.add(start);
            agent.tools.add(read);
            agent.tools.add(stop);
        }
        agent.prompt.add(50, "bash", GUIDELINES);
        Ok(())
    }
}
