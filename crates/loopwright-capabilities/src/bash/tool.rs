//! `bash`.

use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::{
    AgentState, BoxError, FilesChanged, SideEffects, Tool, ToolCx, ToolOptions, ToolOutput, Writes,
};
use loopwright_sandbox::transaction::{PathChange, Transaction, not_staged};
use loopwright_sandbox::{
    Backend, BackendChoice, Command, ExitOutcome, Output, OutputStream, Sandbox, SandboxPolicy,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::background::BackgroundTasks;
use crate::bash::background::LastingCommands;
use crate::bash::collect::{Begun, Collect, Entry, Place, changed_files};
use crate::bash::confinement;
use crate::bash::danger::{self, OnDangerousCommand};
use crate::bash::denial_notes;
use crate::bash::directory::{DIRECTORY, Wrapped};
use crate::bash::error::BashError;
use crate::bash::format;
use crate::bash::needs::{self, Needs, NetworkUsed};
use crate::bash::policy::BashPolicy;
use crate::bash::watch::OutputWatch;
use crate::files::{FileJournal, on_thread};

/// Runs shell commands in a sandbox.
///
/// By default, the sandbox is the strongest one that works here, and commands can write only to the
/// directory and have no network. Dropping a call ends its command and all processes that it
/// started.
#[derive(Clone)]
#[must_use]
pub struct Bash {
    pub(super) sandbox: Arc<dyn Sandbox>,
    /// Shared by the tools of an agent.
    policy: Arc<SandboxPolicy>,
    pub(super) output_policy: BashPolicy,
    /// Whether the policy was given as a whole, with limits of its own.
    has_own_limits: bool,
    /// How long a command may take at most, where the user says so.
    longest: Option<Duration>,
    starts: Starts,
    collect: Collect,
    pub(super) needs: Needs,
    pub(super) tasks: BackgroundTasks,
    /// Commands in the background that outlive their runs; `None` if they end with them.
    pub(super) lasting: Option<LastingCommands>,
    watch: OutputWatch,
    description: String,
}

const WHAT: &str = "Runs a command with bash in the working directory and returns its output.";

/// Where a command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starts {
    AtRoot,
    WhereTheLastEnded,
}

/// The arguments of the tool `bash`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashArgs {
    /// The command, as typed into bash.
    pub command: String,
    /// Timeout of the command in seconds; 120 by default, usually at most 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub timeout_seconds: Option<NonZeroU32>,
    /// Hosts that the command must reach, such as `crates.io`. The user must approve them, so name
    /// only the hosts it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Full paths outside the working directory that the command must read. The user must approve
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Full paths outside the working directory that the command must write to. The user must
    /// approve them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Why the command needs these hosts and paths, in one sentence for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How long a command may take if the model asks for it, where nothing else is said.
const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// How long a command in the background takes at most that outlives its run.
const LASTING: Duration = Duration::from_hours(7 * 24);

impl Bash {
    /// Creates the tools for commands in a directory.
    pub fn in_dir(path: impl Into<PathBuf>) -> Self {
        let bash = Self {
            sandbox: loopwright_sandbox::auto_select(),
            policy: SandboxPolicy::in_dir(path).into(),
            output_policy: BashPolicy::default(),
            has_own_limits: false,
            longest: None,
            starts: Starts::AtRoot,
            collect: Collect::default(),
            needs: Needs::default(),
            tasks: BackgroundTasks::default(),
            lasting: None,
            watch: OutputWatch::default(),
            description: String::new(),
        };
        bash.described()
    }

    /// Writes the description again, because the policy may have changed.
    fn described(mut self) -> Self {
        let sandbox = self.sandbox_described();
        self.description = format!("{WHAT} {sandbox} Long output is cut in the middle.");
        self
    }

    /// Returns what the model reads of the sandbox.
    pub(super) fn sandbox_described(&self) -> String {
        let is_confined = self.policy.backend != BackendChoice::Only(Backend::Host);
        let needs = if is_confined { self.needs.describe() } else { "" };
        format!("{}{needs}", confinement::describe(&self.policy))
    }

    /// Returns `true` if each command has a loopback interface of its own.
    pub(super) fn has_own_loopback(&self) -> bool {
        confinement::has_own_loopback(&self.policy)
    }

    /// Lets commands request hosts and paths beyond the sandbox, which are then granted. Use it
    /// only with a capability that decides on each call before it runs, such as
    /// [`UsePermissions`](crate::permissions::UsePermissions); otherwise the model alone decides
    /// what it can reach. In paths, `~/` means the home folder, if one is given.
    pub fn allow_needs(mut self, home: Option<PathBuf>) -> Self {
        self.needs = Needs::Decided { home };
        self.described()
    }

    /// Returns what a command may do, with what it asks for.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot have what it asks for.
    pub(super) fn rules_of(&self, args: &BashArgs) -> Result<SandboxPolicy, BashError> {
        self.needs.grant(args, self.rules_for(args.timeout_seconds))
    }

    /// Has what commands print watched while they run. Commands in the background are not watched.
    pub fn with_output_watch(mut self, watch: OutputWatch) -> Self {
        self.watch = watch;
        self
    }

    /// Sets the sandbox.
    pub fn with_sandbox(mut self, sandbox: Arc<dyn Sandbox>) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Sets the policy of commands. Its limits for time and output replace those of the
    /// [`BashPolicy`].
    pub fn with_policy(mut self, policy: SandboxPolicy) -> Self {
        self.policy = policy.into();
        self.has_own_limits = true;
        self.described()
    }

    /// Changes the policy of commands. The [`BashPolicy`] still limits time and output.
    pub fn confine(mut self, change: impl FnOnce(SandboxPolicy) -> SandboxPolicy) -> Self {
        self.policy = change(Arc::unwrap_or_clone(self.policy)).into();
        self.described()
    }

    /// Sets the maximum timeout that the model can request. By default, this is 10 minutes, or the
    /// timeout of the [`BashPolicy`] if that is longer.
    pub fn with_max_timeout(mut self, longest: Duration) -> Self {
        self.longest = Some(longest);
        self
    }

    /// Selects the sandbox backend; see [`SandboxPolicy::with_backend`].
    pub fn with_backend(self, driver: impl Into<BackendChoice>) -> Self {
        self.confine(|policy| policy.with_backend(driver))
    }

    /// Adds a path, relative to the directory, that commands cannot change.
    pub fn protect(mut self, path: impl Into<PathBuf>) -> Self {
        self.policy = Arc::unwrap_or_clone(self.policy).protect(path).into();
        self
    }

    /// Stages the changes of commands in this folder, which is created if it does not exist. It
    /// must be on the same file system as the directory, and outside it. By default, a folder of
    /// the user is used; see [`staging_for`](loopwright_sandbox::transaction::staging_for).
    pub fn with_staging(mut self, folder: impl Into<PathBuf>) -> Self {
        self.collect.place = Place::In(folder.into());
        self
    }

    /// Applies the changes of commands immediately. An interrupted command may have made some of
    /// its changes, and none can be undone.
    pub fn write_at_once(mut self) -> Self {
        self.collect.place = Place::Nowhere;
        self
    }

    /// Allows changes that the [`Screen`](loopwright_sandbox::screen::Screen) refuses: a name, or
    /// several joined by `/`, at any depth.
    pub fn allow(mut self, path: impl AsRef<Path>) -> Self {
        self.collect.screen = self.collect.screen.allow(path);
        self
    }

    /// Sets the journal that records changes of commands before they are applied, so that they can
    /// be undone.
    pub fn with_journal(mut self, journal: Arc<dyn FileJournal>) -> Self {
        self.collect.journal = Some(journal);
        self
    }

    /// Sets the list in which background commands appear.
    pub fn with_background_tasks(mut self, tasks: BackgroundTasks) -> Self {
        self.tasks = tasks;
        self
    }

    /// Lets background commands live on when the run that started them ends. By default, they end with it. They appear in the
    /// list of `commands`, and have no time limit unless the model or [`with_max_timeout`](Self::with_max_timeout) sets one.
    pub fn with_lasting_commands(mut self, commands: LastingCommands) -> Self {
        self.lasting = Some(commands);
        self
    }

    /// Returns what a command in the background may do.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot have what it asks for.
    pub(super) fn rules_of_background(&self, args: &BashArgs) -> Result<SandboxPolicy, BashError> {
        let policy = self.rules_of(args)?;
        let is_limited = args.timeout_seconds.is_some() || self.has_own_limits;
        Ok(if self.lasting.is_none() || is_limited {
            policy
        } else {
            policy.with_timeout(self.longest.unwrap_or(LASTING))
        })
    }

    /// Sets the limits for output and duration of commands.
    pub fn with_output_policy(mut self, display: BashPolicy) -> Self {
        self.output_policy = display;
        self
    }

    /// Starts each command in the directory where the previous one ended.
    pub fn persist_cwd(mut self) -> Self {
        self.starts = Starts::WhereTheLastEnded;
        self
    }

    /// Returns the directory in which the previous command of the agent ended, if commands start
    /// there.
    pub fn last_directory(state: &AgentState) -> Option<String> {
        state.get(&DIRECTORY)
    }

    /// Returns what commands may do.
    fn rules(&self) -> SandboxPolicy {
        self.rules_for(None)
    }

    /// Returns what a command may do for which the model asks for this much time.
    fn rules_for(&self, seconds: Option<NonZeroU32>) -> SandboxPolicy {
        let policy = (*self.policy).clone();
        let wanted = seconds.map(|it| Duration::from_secs(it.get().into()));
        if self.has_own_limits {
            let given = policy.limits.timeout;
            return policy.with_timeout(wanted.map_or(given, |it| it.min(given)));
        }
        let usual = self.output_policy.timeout;
        let longest = self.longest.unwrap_or(MAX_TIMEOUT.max(usual));
        policy
            .with_timeout(wanted.unwrap_or(usual).min(longest))
            .with_output(self.output_policy.caps())
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
    /// Returns an error if such commands are not run.
    pub(super) fn judge(&self, command: &str) -> Result<Option<String>, BashError> {
        let Some(pattern) = danger::find(command, &self.output_policy.dangerous_patterns) else {
            return Ok(None);
        };
        match self.output_policy.on_danger {
            OnDangerousCommand::Block => Err(BashError::Blocked(pattern.to_owned())),
            OnDangerousCommand::Warn => Ok(Some(format!(
                "[The command looks dangerous because it contains `{pattern}`, but it was run.]"
            ))),
        }
    }

    /// Runs a command that starts in a directory; `None` means the working directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the command does not run or does not finish.
    pub async fn run(
        &self,
        args: &BashArgs,
        directory: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, BashError> {
        self.run_call(args, directory, cancel, None, &mut |_| {}, &mut |_| {}).await
    }

    async fn run_call(
        &self,
        args: &BashArgs,
        directory: Option<&str>,
        cancel: &CancellationToken,
        entry: Option<Entry>,
        on_network: &mut (dyn FnMut(NetworkUsed) + Send),
        on_output: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<ToolOutput, BashError> {
        let note = self.judge(&args.command)?;
        let wrapped = match self.starts {
            Starts::AtRoot => None,
            Starts::WhereTheLastEnded => Some(Wrapped::new(&args.command, directory)),
        };
        let line = wrapped.as_ref().map_or(&args.command, |it| &it.command);
        let policy = self.rules_of(args)?;
        let begun = {
            let (collect, policy, usual) = (self.collect.clone(), policy.clone(), self.rules());
            blocking(move || collect.begin(&policy, &usual, entry.as_ref())).await?
        };
        let (begun, direct) = match begun {
            Begun::Finished(output) => return Ok(*output),
            Begun::Direct(reason) => (None, reason),
            Begun::Collected(transaction) => (Some(transaction), None),
        };
        let command = Command::shell(line);
        let mut observer = |_: OutputStream, bytes: &[u8]| {
            // What tells where the command ended is no output.
            on_output(wrapped.as_ref().map_or(bytes, |it| it.before_mark(bytes)));
        };
        let is_collected = begun.is_some();
        let (mut output, transaction) = match begun {
            Some(transaction) => {
                let sandbox = &*self.sandbox;
                sandbox.run_staged(transaction, &command, &policy, &mut observer, cancel).await?
            }
            None => (self.sandbox.run(&command, &policy, &mut observer, cancel).await?, None),
        };
        let left = wrapped.and_then(|it| it.unwrap(&mut output.stderr));
        if Backend::named(&output.driver).is_some() {
            output.notes.extend(direct.map(|reason| not_staged(&policy, &reason)));
        }
        output.notes.extend(denial_notes(&output, &policy));
        output.notes.extend(reduced_time_note(args, &policy));
        output.notes.extend(needs::notes(&output, &policy, &self.needs));
        if !output.network.is_empty() {
            on_network(NetworkUsed { hosts: output.network.clone() });
        }
        let seconds = policy.limits.timeout.as_secs_f64();
        if matches!(output.outcome, ExitOutcome::Cancelled | ExitOutcome::Lost) {
            if is_collected && output.staged {
                output.notes.push("the command's changes to the folder were discarded".to_owned());
            }
            let said = format::report(&output, &self.output_policy, seconds);
            return Err(BashError::Interrupted { outcome: output.outcome, said });
        }
        let Some(transaction) = transaction else {
            let answer = self.answer(&output, seconds, note, left);
            return Ok(answer.with_changed_files(FilesChanged::Unknown));
        };
        let bash = self.clone();
        blocking(move || bash.settle(transaction, &policy, output, (seconds, note, left))).await
    }

    /// Applies what a command changed, unless its policy discards that, and reports it. `ended` is how the command ended:
    /// its time limit, the note on it, and the directory.
    fn settle(
        &self,
        transaction: Transaction,
        policy: &SandboxPolicy,
        mut output: Output,
        ended: (f64, Option<String>, Option<String>),
    ) -> Result<ToolOutput, BashError> {
        let (seconds, note, left) = ended;
        let (changes, notes) = self.collect.judge(&transaction, policy)?;
        output.notes.extend(notes);
        let answer = self.answer(&output, seconds, note.clone(), left.clone());
        if policy.discards_changes() {
            return Ok(answer.with_changed_files(changed_files([])));
        }
        let answer = answer.with_changed_files(changed_files(changes.made()));
        let applied = self.collect.apply(transaction, changes, &answer)?;
        let late = applied.notes();
        if late.is_empty() {
            return Ok(answer);
        }
        output.notes.extend(late);
        let answer = self.answer(&output, seconds, note, left);
        let is_made = |change: &&PathChange| {
            applied.conflicts.iter().all(|conflict| conflict.path != change.path)
        };
        let made = applied.changed.iter().filter(is_made);
        Ok(answer.with_changed_files(changed_files(made)))
    }

    fn answer(
        &self,
        output: &Output,
        seconds: f64,
        note: Option<String>,
        left: Option<String>,
    ) -> ToolOutput {
        let mut text = format::report(output, &self.output_policy, seconds);
        if let Some(note) = note {
            text = format!("{text}\n\n{note}");
        }
        remember(told(&text, output), left)
    }
}

/// Says that a command has less time than the model asked for. `None` means that it has all of it.
pub(super) fn reduced_time_note(args: &BashArgs, policy: &SandboxPolicy) -> Option<String> {
    let wanted = Duration::from_secs(args.timeout_seconds?.get().into());
    let given = policy.limits.timeout;
    let note = || {
        format!(
            "the requested time of {} seconds was reduced to the maximum of {} seconds",
            wanted.as_secs(),
            given.as_secs_f64()
        )
    };
    (given < wanted).then(note)
}

/// Runs work that blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BashError> + Send + 'static,
) -> Result<T, BashError> {
    on_thread(work).await.unwrap_or(Err(BashError::OutcomeUnknown))
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
    let mut value = json!({
        "exit_code": format::exit_code(output.outcome),
        "duration": output.elapsed.as_secs_f64(),
        "timed_out": matches!(output.outcome, ExitOutcome::TimedOut(_)),
        "truncated_stdout": output.stdout.omitted() > 0,
        "truncated_stderr": output.stderr.omitted() > 0,
        "success": output.outcome.is_success(),
        "driver": output.driver,
        "changes_collected": output.staged,
        "not_enforced": output.enforced.missing(),
    });
    if !output.network.is_empty() {
        value["network"] = json!(output.network);
    }
    if !output.notes.is_empty() {
        value["notes"] = json!(output.notes);
    }
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

    fn options(&self) -> ToolOptions {
        let effects = if self.collect.is_resumable(&self.rules()) {
            // One that was interrupted did not happen, or is found to have been applied whole.
            SideEffects::Resumable
        } else {
            SideEffects::AtMostOnce
        };
        ToolOptions { side_effects: effects, ..ToolOptions::default() }
    }

    fn is_repeatable(&self, args: &BashArgs) -> bool {
        // What a command does with the hosts and paths that it requests is not collected.
        self.rules_of(args).map_or(true, |policy| self.collect.is_resumable(&policy))
    }

    fn writes(&self, _args: &BashArgs) -> Writes {
        // What a command writes is known when it has ended.
        Writes::Unknown
    }

    async fn call(&self, args: BashArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let directory = self.directory(cx.state);
        let entry = Some(Entry::of(cx));
        let mut on_network = |used| cx.events.emit(|| used);
        let mut on_output = self.watch.begin(cx);
        let (directory, cancel) = (directory.as_deref(), cx.cancel);
        let ran = self.run_call(&args, directory, cancel, entry, &mut on_network, &mut *on_output);
        Ok(ran.await?)
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
