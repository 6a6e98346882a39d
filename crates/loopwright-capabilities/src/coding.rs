//! Files and commands together.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_sandbox::{BackendChoice, Sandbox, SandboxPolicy};

use crate::bash::{Background, Bash, BashPolicy, UseBash};
use crate::files::{UseFileTools, WorkspaceRoot};

/// Adds the tools for work on the files of one directory: those of [`UseFileTools`] and
/// [`UseBash`].
///
/// ```
/// use loopwright_capabilities::coding::UseCodingTools;
///
/// let tools = UseCodingTools::in_dir("/srv/project").persist_cwd();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct UseCodingTools {
    files: UseFileTools,
    bash: UseBash,
}

impl UseCodingTools {
    /// Creates the tools for a directory. A [`WorkspaceRoot`] allows more settings than a path.
    pub fn in_dir(root: impl Into<WorkspaceRoot>) -> Self {
        let root = root.into();
        // What file tools may not change, commands may not either.
        let bash = root.extra_protected_paths().fold(Bash::in_dir(root.path()), Bash::protect);
        let bash = root.allowed().fold(bash, Bash::allow);
        let bash = match root.recorder_shared() {
            Some(journal) => bash.journal(Arc::clone(journal)),
            None => bash,
        };
        let bash = UseBash::from_tool(bash);
        Self { files: UseFileTools::in_dir(root), bash }
    }

    /// Sets the sandbox of commands.
    pub fn sandbox(mut self, sandbox: Arc<dyn Sandbox>) -> Self {
        self.bash = self.bash.sandbox(sandbox);
        self
    }

    /// Sets the policy of commands.
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

    /// Sets the limits for output and duration of commands.
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
        self.bash = self.bash.background(background);
        self
    }
}

impl Capability for UseCodingTools {
    fn name(&self) -> Cow<'static, str> {
        "use_coding_tools".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        self.files.configure(agent)?;
        self.bash.configure(agent)
    }
}
