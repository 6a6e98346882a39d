//! The interface between callers that run commands and backends that confine them.

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::child::SandboxChild;
use crate::command::Command;
use crate::error::{SandboxError, Unavailable};
use crate::guarantee::Guarantees;
use crate::output::{ExitOutcome, Output, OutputStream};
use crate::policy::SandboxPolicy;
#[cfg(target_os = "linux")]
use crate::transaction::{Transaction, not_staged};

/// Runs commands under policies.
///
/// An implementation never starts a command that it cannot confine as the policy requires: it
/// refuses with a remedy. All processes of a command end with it, for whatever reason it ends.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Returns the name for reports.
    fn name(&self) -> &str;

    /// Tests what this sandbox enforces here, by running a harmless command.
    async fn probe(&self) -> Result<Guarantees, Unavailable>;

    /// Starts a command. If this fails, or the future is dropped, no process is left running.
    async fn spawn(
        &self,
        command: &Command,
        policy: &SandboxPolicy,
    ) -> Result<SandboxChild, SandboxError>;
}

impl dyn Sandbox + '_ {
    /// Runs a command to its end. The observer receives all output as it arrives, regardless of how
    /// much is kept. A cancelled command is asked to exit and then killed, and its output so far is
    /// returned.
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

    /// Runs a command and stages its changes to the working folder in a transaction, which is
    /// returned if it has changes to apply or to discard. If changes cannot be staged, they are
    /// applied immediately, or the folder is read-only if they are to be discarded, and a note
    /// reports that.
    #[cfg(target_os = "linux")]
    pub async fn run_staged(
        &self,
        transaction: Transaction,
        command: &Command,
        policy: &SandboxPolicy,
        observer: &mut (dyn FnMut(OutputStream, &[u8]) + Send),
        cancel: &CancellationToken,
    ) -> Result<(Output, Option<Transaction>), SandboxError> {
        let staged = policy.clone().with_transaction(&transaction);
        match self.run(command, &staged, observer, cancel).await {
            Err(SandboxError::NotStaged { reason }) => {
                if !policy.discards_changes() {
                    transaction.mark_direct().map_err(|error| SandboxError::NotStaged {
                        reason: format!("{reason}; {error}"),
                    })?;
                }
                let mut output = self.run(command, policy, observer, cancel).await?;
                output.notes.push(not_staged(policy, &reason));
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
