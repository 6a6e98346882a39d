//! The capability for commands.

use std::borrow::Cow;
use std::path::PathBuf;

use loopwright_agent::{BuildError, Capability, Configurator};
use serde::{Deserialize, Serialize};

use crate::bash::{Bash, background, settings::bash_settings};

/// Adds the tool `bash`, which runs commands in a sandbox.
///
/// ```
/// use loopwright_capabilities::bash::{Background, BashPolicy, UseBash};
///
/// let commands = UseBash::in_dir("/srv/project")
///     .with_output_policy(BashPolicy::with_limits(50_000, 8_000, 40_000))
///     .persist_cwd()
///     .with_background(Background::Allowed);
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
    /// run, unless they are [lasting](Bash::with_lasting_commands).
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

    bash_settings!();

    /// Sets whether commands may run in the background.
    pub fn with_background(mut self, background: Background) -> Self {
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
