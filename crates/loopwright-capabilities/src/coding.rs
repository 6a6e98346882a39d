//! Files and commands together.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::bash::{Background, Bash, UseBash, settings::bash_settings};
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
        let bash = match root.journal() {
            Some(journal) => bash.with_journal(Arc::clone(journal)),
            None => bash,
        };
        let bash = UseBash::from_tool(bash);
        Self { files: UseFileTools::in_dir(root), bash }
    }

    bash_settings!();

    /// Sets whether commands may run in the background.
    pub fn with_background(mut self, background: Background) -> Self {
        self.bash = self.bash.with_background(background);
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
