//! A sandbox for tests: it runs nothing, records commands and returns prepared output.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::child::SandboxChild;
use crate::command::Command;
use crate::error::{SandboxError, Unavailable};
use crate::guarantee::Guarantees;
use crate::output::Output;
use crate::policy::SandboxPolicy;
use crate::sandbox::Sandbox;

/// A sandbox that runs nothing. It refuses commands without prepared output.
///
/// ```
/// use loopwright_sandbox::{Command, FakeSandbox, Output, SandboxPolicy, Sandbox as _};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let sandbox = FakeSandbox::new().enqueue("git status", Output::exited(0, "clean", ""));
/// let command = Command::new("git").args(["status"]);
/// let output = sandbox.spawn(&command, &SandboxPolicy::in_dir(".")).await.unwrap().wait().await;
/// assert_eq!(output.stdout.to_text(), "clean");
/// assert_eq!(sandbox.commands(), [command]);
/// # });
/// ```
#[derive(Debug, Default)]
pub struct FakeSandbox {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<String, VecDeque<Output>>,
    any: VecDeque<Output>,
    otherwise: Option<Output>,
    asked: Vec<(Command, SandboxPolicy)>,
}

impl FakeSandbox {
    /// Creates a sandbox that refuses every command.
    pub fn new() -> Self {
        Self::default()
    }

    /// Prepares the next output of the command whose program and arguments, joined by spaces, are this line.
    #[must_use]
    pub fn enqueue(self, line: impl Into<String>, output: Output) -> Self {
        self.state().queues.entry(line.into()).or_default().push_back(output);
        self
    }

    /// Prepares the output of the next command that has no output of its own.
    #[must_use]
    pub fn enqueue_any(self, output: Output) -> Self {
        self.state().any.push_back(output);
        self
    }

    /// Prepares the output of all other commands.
    #[must_use]
    pub fn otherwise(self, output: Output) -> Self {
        self.state().otherwise = Some(output);
        self
    }

    /// Returns the commands so far, including refused ones.
    pub fn commands(&self) -> Vec<Command> {
        self.state().asked.iter().map(|(command, _)| command.clone()).collect()
    }

    /// Returns the policies of these commands.
    pub fn policies(&self) -> Vec<SandboxPolicy> {
        self.state().asked.iter().map(|(_, policy)| policy.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sandbox for FakeSandbox {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn probe(&self) -> Result<Guarantees, Unavailable> {
        Ok(Guarantees::default())
    }

    async fn spawn(
        &self,
        command: &Command,
        policy: &SandboxPolicy,
    ) -> Result<SandboxChild, SandboxError> {
        let mut state = self.state();
        state.asked.push((command.clone(), policy.clone()));
        let line = command.to_line();
        let output = state.queues.get_mut(&line).and_then(VecDeque::pop_front);
        let output = output.or_else(|| state.any.pop_front()).or_else(|| state.otherwise.clone());
        output.map(SandboxChild::scripted).ok_or(SandboxError::NotEnqueued(line))
    }
}

#[cfg(test)]
mod tests;
