//! `bash`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::{AgentState, BoxError, Tool, ToolCx, ToolOutput};
use loopwright_sandbox::{Command, DriverChoice, Outcome, Output, Policy, Sandbox, SandboxError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bash::confinement;
use crate::bash::danger::{self, OnDanger};
use crate::bash::directory::{DIRECTORY, Wrapped};
use crate::bash::format;
use crate::bash::policy::BashPolicy;

/// Runs shell commands in a sandbox.
///
/// By default the sandbox is the strongest that works here, commands work in the directory and write
/// nowhere else, and reach no network. Dropping a call ends its command with all that it started.
#[derive(Clone)]
#[must_use]
pub struct Bash {
    pub(super) sandbox: Arc<dyn Sandbox>,
    policy: Policy,
    pub(super) display: BashPolicy,
    /// Whether the policy was given as a whole, with limits of its own.
    has_own_limits: bool,
    starts: Starts,
    description: String,
}

const WHAT: &str = "Runs a command with bash in the working directory and returns what it says.";

/// Where a command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starts {
    AtRoot,
    WhereTheLastEnded,
}

/// What the model passes to `bash`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashArgs {
    /// The command, as it would be typed into bash.
    pub command: String,
}

/// Why a command has no answer; the model is told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BashError {
    /// It looks dangerous, and the policy says that it is not run.
    #[error("Command blocked by safety policy: it contains `{0}`; ask the user to run it")]
    Blocked(String),
    /// The sandbox did not run it.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The run was cancelled, or the command's watcher was ended from outside.
    #[error("{said}")]
    Ended {
        /// How it ended.
        outcome: Outcome,
        /// How it ended in words, and what it had said.
        said: String,
    },
    /// There is no command of that name in the background.
    #[error(
        "there is no command {0} in the background; commands end with the run that started them"
    )]
    NoSuchCommand(String),
    /// There are too many of them.
    #[error("{0} commands are in the background already; stop one with `bash_stop`")]
    TooMany(usize),
    /// Commands in the background need a runtime that keeps them going.
    #[error("commands cannot be kept in the background here; use `bash`")]
    NoRuntime,
}

impl Bash {
    /// Runs commands in a directory.
    pub fn in_dir(path: impl Into<PathBuf>) -> Self {
        let bash = Self {
            sandbox: loopwright_sandbox::auto(),
            policy: Policy::in_dir(path),
            display: BashPolicy::default(),
            has_own_limits: false,
            starts: Starts::AtRoot,
            description: String::new(),
        };
        bash.described()
    }

    /// Writes the description anew, because the model is to read what the policy says now.
    fn described(mut self) -> Self {
        let sandbox = confinement::describe(&self.policy);
        self.description = format!("{WHAT} {sandbox} Long output is cut in the middle.");
        self
    }

    /// Returns what the model reads of the sandbox.
    pub(super) fn sandbox_described(&self) -> String {
        confinement::describe(&self.policy)
    }

    /// Sets the sandbox.
    pub fn sandbox(mut self, sandbox: Arc<dyn Sandbox>) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Sets what commands may do. Its time and its bounds on output count then, in place of those of
    /// the [`BashPolicy`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self.has_own_limits = true;
        self.described()
    }

    /// Chooses what commands are run with; see [`Policy::driver`].
    pub fn driver(mut self, driver: impl Into<DriverChoice>) -> Self {
        self.policy = self.policy.driver(driver);
        self.described()
    }

    /// Adds a path, relative to the directory, that commands may not change.
    pub fn protect(mut self, path: impl Into<PathBuf>) -> Self {
        self.policy = self.policy.protect(path);
        self
    }

    /// Sets what is shown of commands, and how long they may take.
    pub fn display(mut self, display: BashPolicy) -> Self {
        self.display = display;
        self
    }

    /// Lets each command begin in the directory that the one before ended in.
    pub fn keep_directory(mut self) -> Self {
        self.starts = Starts::WhereTheLastEnded;
        self
    }

    /// Returns what commands may do.
    pub(super) fn rules(&self) -> Policy {
        if self.has_own_limits {
            return self.policy.clone();
        }
        self.policy.clone().wall(self.display.timeout).output(self.display.caps())
    }

    /// Returns the directory that commands begin in.
    pub(super) fn directory(&self, state: &AgentState) -> Option<String> {
        let keeps = self.starts == Starts::WhereTheLastEnded;
        keeps.then(|| state.get(&DIRECTORY)).flatten()
    }

    /// Returns a note on a command that looks dangerous.
    ///
    /// # Errors
    ///
    /// If such commands are not run.
    pub(super) fn judge(&self, command: &str) -> Result<Option<String>, BashError> {
        let Some(pattern) = danger::find(command, &self.display.dangerous_patterns) else {
            return Ok(None);
        };
        match self.display.on_danger {
            OnDanger::Block => Err(BashError::Blocked(pattern.to_owned())),
            OnDanger::Note => Ok(Some(format!(
                "[The command looks dangerous, because it contains `{pattern}`; it was run.]"
            ))),
        }
    }

    /// Runs a command that begins in a directory, which is the working directory if there is none.
    ///
    /// # Errors
    ///
    /// If the command is not run, or does not come to its end.
    pub async fn run(
        &self,
        args: &BashArgs,
        directory: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, BashError> {
        let note = self.judge(&args.command)?;
        let wrapped = match self.starts {
            Starts::AtRoot => None,
            Starts::WhereTheLastEnded => Some(Wrapped::new(&args.command, directory)),
        };
        let line = wrapped.as_ref().map_or(&args.command, |it| &it.command);
        let policy = self.rules();
        let command = Command::shell(line);
        let mut output = self.sandbox.run(&command, &policy, &mut |_, _| {}, cancel).await?;
        let left = wrapped.and_then(|it| it.unwrap(&mut output.stderr));
        let mut text = format::report(&output, &self.display, policy.limits.wall.as_secs_f64());
        if matches!(output.outcome, Outcome::Cancelled | Outcome::Lost) {
            return Err(BashError::Ended { outcome: output.outcome, said: text });
        }
        if let Some(note) = note {
            text = format!("{text}\n\n{note}");
        }
        Ok(remember(told(&text, &output), left))
    }
}

fn remember(output: ToolOutput, directory: Option<String>) -> ToolOutput {
    let plain = output.clone();
    match directory {
        // A path is text, which is always JSON.
        Some(directory) => output.with_value(&DIRECTORY, &directory).unwrap_or(plain),
        None => plain,
    }
}

/// Tells the model what the command said, and programs how it ended.
fn told(text: &str, output: &Output) -> ToolOutput {
    let value = json!({
        "exit_code": format::exit_code(output.outcome),
        "duration": output.elapsed.as_secs_f64(),
        "timed_out": matches!(output.outcome, Outcome::TimedOut(_)),
        "truncated_stdout": output.stdout.omitted() > 0,
        "truncated_stderr": output.stderr.omitted() > 0,
        "success": output.outcome.is_success(),
        "driver": output.driver,
        "not_enforced": output.enforced.missing(),
    });
    ToolOutput { value: Some(value.into()), ..ToolOutput::text(text) }
}

impl Tool for Bash {
    type Args = BashArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &str {
        &self.description
    }

    async fn call(&self, args: BashArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let directory = self.directory(cx.state);
        Ok(self.run(&args, directory.as_deref(), cx.cancel).await?)
    }
}

impl fmt::Debug for Bash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bash")
            .field("sandbox", &self.sandbox.name())
            .field("workdir", &self.policy.workdir)
            .finish_non_exhaustive()
    }
}
