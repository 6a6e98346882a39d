//! The seam between those who run commands and those who confine them.

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::child::SandboxChild;
use crate::command::Command;
use crate::error::{SandboxError, Unavailable};
use crate::guarantee::Guarantees;
use crate::output::{ExitOutcome, Output, OutputStream};
use crate::policy::SandboxPolicy;
#[cfg(target_os = "linux")]
use crate::transaction::{Transaction, made_at_once};

/// Runs commands under policies.
///
/// An implementor starts nothing that it cannot confine as the policy says: it refuses instead, and says what
/// can be done. What a child leaves behind ends with it, however it ends.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// The name for reports.
    fn name(&self) -> &str;

    /// Tries out what this sandbox enforces here, by running a harmless command.
    async fn probe(&self) -> Result<Guarantees, Unavailable>;

    /// Starts a command. If this fails, nothing was started; if the future is dropped, nothing is left running.
    async fn spawn(
        &self,
        command: &Command,
        policy: &SandboxPolicy,
    ) -> Result<SandboxChild, SandboxError>;
}

impl dyn Sandbox + '_ {
    /// Runs a command to its end. The observer sees all of its output as it comes, whatever is kept of it. A
    /// cancelled command is asked to end and then ended, and what it said until then is in the output.
    pub async fn run(
        &self,
        command: &Command,
        policy: &SandboxPolicy,
        observer: &mut (dyn FnMut(OutputStream, &[u8]) + Send),
        cancel: &CancellationToken,
    ) -> Result<Output, SandboxError> {
        let mut child = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(self.cancelled_before_its_start()),
            child = self.spawn(command, policy) => child?,
        };
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(child.cancel(None).await),
                piece = child.read() => match piece {
                    Some((stream, bytes)) => observer(stream, &bytes),
                    None => return Ok(child.wait().await),
                },
            }
        }
    }

    /// The same, with the changes to the working folder collected in a transaction, which is returned when there is
    /// something in it to apply. Where changes cannot be collected they are made at once, with a note that says so.
    #[cfg(target_os = "linux")]
    pub async fn run_staged(
        &self,
        transaction: Transaction,
        command: &Command,
        policy: &SandboxPolicy,
        observer: &mut (dyn FnMut(OutputStream, &[u8]) + Send),
        cancel: &CancellationToken,
    ) -> Result<(Output, Option<Transaction>), SandboxError> {
        let staged = policy.clone().staged(&transaction);
        match self.run(command, &staged, observer, cancel).await {
            Err(SandboxError::NotStaged { reason }) => {
                transaction.mark_direct().map_err(|error| SandboxError::NotStaged {
                    reason: format!("{reason}; {error}"),
                })?;
                let mut output = self.run(command, policy, observer, cancel).await?;
                output.notes.push(made_at_once(&reason));
                transaction.discard();
                Ok((output, None))
            }
            output => {
                let output = output?;
                // A double collects nothing, and a command that was ended from outside has changed nothing.
                let is_over = matches!(output.outcome, ExitOutcome::Cancelled | ExitOutcome::Lost);
                let is_kept = output.staged && !is_over;
                Ok((output, Some(transaction).filter(|_| is_kept)))
            }
        }
    }

    fn cancelled_before_its_start(&self) -> Output {
        Output { driver: self.name().to_owned(), ..Output::ended(ExitOutcome::Cancelled) }
    }
}
