//! A running command.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;

use crate::access::NetworkAccess;
#[cfg(target_os = "linux")]
use crate::live::Live;
use crate::output::{Output, OutputStream};

/// A running command. Dropping it ends every process of the command.
#[derive(Debug)]
pub struct SandboxChild {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    #[cfg(target_os = "linux")]
    Live(Box<Live>),
    /// What a double says and how it ends.
    Scripted { said: VecDeque<(OutputStream, Bytes)>, output: Box<Output> },
}

impl SandboxChild {
    #[cfg(target_os = "linux")]
    pub(crate) fn live(live: Live) -> Self {
        Self { inner: Inner::Live(Box::new(live)) }
    }

    /// Creates a command of a test double, which writes the given output in two pieces and exits.
    pub fn scripted(output: Output) -> Self {
        let said = [(OutputStream::Stdout, &output.stdout), (OutputStream::Stderr, &output.stderr)]
            .into_iter()
            .map(|(stream, captured)| {
                (stream, [&captured.head[..], &captured.tail[..]].concat().into())
            })
            .filter(|(_, bytes): &(OutputStream, Bytes)| !bytes.is_empty())
            .collect();
        Self { inner: Inner::Scripted { said, output: Box::new(output) } }
    }

    /// Waits for the next piece of output. Returns `None` if the command has exited and all output
    /// was read. If its output is not read, the command blocks when the pipe is full, while its
    /// time limit still applies. The future can be dropped at any time without losing output.
    pub async fn read(&mut self) -> Option<(OutputStream, Bytes)> {
        match &mut self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.read().await,
            Inner::Scripted { said, .. } => said.pop_front(),
        }
    }

    /// Sends input to a command with [`Stdin::Piped`](crate::Stdin::Piped). Output that arrives
    /// meanwhile is kept for [`read`](Self::read).
    ///
    /// # Errors
    /// `BrokenPipe` if the command no longer reads.
    pub async fn write_stdin(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.write(bytes).await,
            Inner::Scripted { .. } => {
                // A double reads nothing.
                let _ = bytes;
                Ok(())
            }
        }
    }

    /// Queues input that is sent while [`read`](Self::read) is awaited, for a caller that reads and
    /// writes in one place. Input for a command that no longer reads is dropped.
    pub fn queue_stdin(&mut self, bytes: &[u8]) {
        match &mut self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.queue_stdin(bytes),
            Inner::Scripted { .. } => {
                // A double reads nothing.
                let _ = bytes;
            }
        }
    }

    /// Returns the number of bytes of input that are not sent yet.
    pub fn queued_stdin(&self) -> usize {
        match &self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.queued_stdin(),
            Inner::Scripted { .. } => 0,
        }
    }

    /// Closes the input of the command after all queued input was sent.
    pub fn close_stdin(&mut self) {
        match &mut self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.close_stdin(),
            Inner::Scripted { .. } => {}
        }
    }

    /// Returns the hosts that were reached and refused so far, if the policy names hosts.
    pub fn network_accesses(&self) -> Vec<NetworkAccess> {
        match &self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.network_accesses(),
            Inner::Scripted { output, .. } => output.network.clone(),
        }
    }

    /// Waits for the end. Keeps unread output as far as the policy says.
    pub async fn wait(self) -> Output {
        match self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.wait().await,
            Inner::Scripted { output, .. } => *output,
        }
    }

    /// Asks the command to exit, kills it after the grace period, and waits for its last process.
    pub async fn stop(self, grace: Duration) -> Output {
        self.cancel(Some(grace)).await
    }

    /// The same with the grace of the policy.
    pub(crate) async fn cancel(self, grace: Option<Duration>) -> Output {
        match self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.cancel(grace).await,
            Inner::Scripted { output, .. } => {
                let _ = grace;
                *output
            }
        }
    }
}
