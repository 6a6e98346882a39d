//! A command that is running.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;

#[cfg(target_os = "linux")]
use crate::live::Live;
use crate::output::{Output, OutputStream};

/// A command that is running. Dropping it ends every process of the command.
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

    /// A command of a double: it says what the output keeps, in two pieces, and ends.
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

    /// Waits for the next piece of output; nothing when the command has ended and all of it was read. A command
    /// whose output is not read stands still once the pipe is full, and its time runs on. The future can be
    /// dropped at any time without losing output.
    pub async fn read(&mut self) -> Option<(OutputStream, Bytes)> {
        match &mut self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.read().await,
            Inner::Scripted { said, .. } => said.pop_front(),
        }
    }

    /// Sends input to a command that was given [`Stdin::Piped`](crate::Stdin::Piped). Output that arrives
    /// meanwhile is kept for [`read`](Self::read).
    ///
    /// # Errors
    /// `BrokenPipe` if the command reads no more.
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

    /// Adds input that is sent while [`read`](Self::read) is awaited, for a caller that reads and writes in one place.
    /// Input for a command that reads no more is dropped.
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

    /// Lets the command see the end of its input, once all that was sent has arrived.
    pub fn close_stdin(&mut self) {
        match &mut self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.close_stdin(),
            Inner::Scripted { .. } => {}
        }
    }

    /// Waits for the end, keeping what the policy says of the output that was not read.
    pub async fn wait(self) -> Output {
        match self.inner {
            #[cfg(target_os = "linux")]
            Inner::Live(live) => live.wait().await,
            Inner::Scripted { output, .. } => *output,
        }
    }

    /// Asks the command to end, ends it after the grace, and waits for its last process.
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
