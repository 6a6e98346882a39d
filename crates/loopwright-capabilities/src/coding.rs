//! Files and commands together.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_sandbox::{BackendChoice, Sandbox, SandboxPolicy};

use crate::bash::{Background, Bash, BashPolicy, UseBash};
use crate::files::{UseFileTools, WorkspaceRoot};

/// Adds what working on the files of one directory takes: the tools of [`UseFileTools`] and
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
    /// Works below a directory. A [`WorkspaceRoot`] says more about it than a path does.
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

    /// Sets what commands may do.
    pub fn policy(mut self, policy: SandboxPolicy) -> Self {
        self.bash = self.bash.policy(policy);
        self
    }

    /// Changes what commands may do; see [`Bash::confine`].
    pub fn confine(mut self, change: impl FnOnce(SandboxPolicy) -> SandboxPolicy) -> Self {
        self.bash = self.bash.confine(change);
        self
    }

    /// Sets how long a command may take at most; see [`Bash::longest`].
    pub fn longest(mut self, longest: Duration) -> Self {
        self.bash = self.bash.longest(longest);
        self
    }

    /// Chooses what commands are run with; see [`SandboxPolicy::backend`].
    pub fn driver(mut self, driver: impl Into<BackendChoice>) -> Self {
        self.bash = self.bash.driver(driver);
        self
    }

    /// Sets what is shown of commands, and how long they may take.
    pub fn with_output_policy(mut self, display: BashPolicy) -> Self {
        self.bash = self.bash.with_output_policy(display);
        self
    }

    /// Collects what commands change in this folder until they have ended; see [`Bash::staging`].
    pub fn staging(mut self, folder: impl Into<PathBuf>) -> Self {
        self.bash = self.bash.staging(folder);
        self
    }

    /// Lets commands make their changes at once; see [`Bash::write_at_once`].
    pub fn write_at_once(mut self) -> Self {
        self.bash = self.bash.write_at_once();
        self
    }

    /// Lets commands leave behind what is refused otherwise; see [`Bash::allow`].
    pub fn allow(mut self, path: impl AsRef<Path>) -> Self {
        self.bash = self.bash.allow(path);
        self
    }

    /// Lets commands ask for more than the sandbox gives; see [`Bash::allow_needs`].
    pub fn allow_needs(mut self, home: Option<PathBuf>) -> Self {
        self.bash = self.bash.allow_needs(home);
        self
    }

    /// Lets each command begin in the directory that the one before ended in.
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
