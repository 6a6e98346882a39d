//! The seam between those who run commands and those who confine them.

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::child::Child;
use crate::command::Command;
use crate::error::{SandboxError, Unavailable};
use crate::guarantee::Guarantees;
use crate::output::{Outcome, Output, Stream};
use crate::policy::Policy;

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
    async fn spawn(&self, command: &Command, policy: &Policy) -> Result<Child, SandboxError>;
}

impl dyn Sandbox + '_ {
    /// Runs a command to its end. The observer sees all of its output as it comes, whatever is kept of it. A
    /// cancelled command is asked to end and then ended, and what it said until then is in the output.
    pub async fn run(
        &self,
        command: &Command,
        policy: &Policy,
        observer: &mut (dyn FnMut(Stream, &[u8]) + Send),
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

    fn cancelled_before_its_start(&self) -> Output {
        Output { driver: self.name().to_owned(), ..Output::ended(Outcome::Cancelled) }
    }
}
