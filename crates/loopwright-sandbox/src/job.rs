//! The messages between the agent and the helper process.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::guarantee::Guarantees;
use crate::output::ExitOutcome;
use crate::policy::{Backend, SandboxPolicy};
use crate::screen::UserSettings;

/// The name under which a program is started to be the helper.
pub(crate) const NAME: &str = "loopwright-sandbox-helper";

/// The first argument of a program that is started to be the first process of a sandbox.
pub(crate) const STAGE: &str = "stage";

/// No message is longer; a longer one is a mistake and not allocated.
const MAX_LENGTH: usize = 64 << 20;

/// One command for the helper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LaunchRequest {
    pub(crate) backend: Backend,
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) policy: SandboxPolicy,
    /// The agent's home folder, which is not to be writable as a whole.
    pub(crate) home: Option<PathBuf>,
    /// Settings of the user's that may name files in the folder.
    pub(crate) settings: UserSettings,
    /// The program of a driver that needs one, such as `bwrap`.
    pub(crate) program: Option<PathBuf>,
    /// The name of the container, for drivers that use one.
    pub(crate) container: Option<String>,
    /// What the program of the driver needs of the agent's environment; the command does not see it.
    pub(crate) client_env: Vec<(OsString, OsString)>,
}

/// What the helper tells the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    Started {
        enforced: Guarantees,
        notes: Vec<String>,
    },
    Refused(Refusal),
    /// `elapsed` runs from the start of the command to the end of its last process.
    Ended {
        outcome: ExitOutcome,
        elapsed: Duration,
        notes: Vec<String>,
    },
}

/// Bytes that the namespaces of a command hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    /// Files in memory, and shared memory of System V: what the kernel counts as shared memory.
    pub(crate) shared: u64,
    /// Messages and semaphores of System V, and the buffers of sockets.
    pub(crate) kernel: u64,
}

/// Why nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The policy cannot be enforced as given.
    Policy(String),
    /// The kernel, or the driver's program, refused a step.
    Setup { stage: String, errno: i32 },
    /// The sandbox stands and the program does not start.
    Start { errno: i32 },
}

/// What the agent tells the helper after the job; the end of the connection means the same as no grace.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HelperCommand {
    /// Asks the command to end, and ends it after the grace.
    Stop { cause: ExitOutcome, grace: Duration },
}

/// What the first process inside of a sandbox tells the helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InitReport {
    Started,
    Refused(Refusal),
    /// How the command ended by itself.
    Ended(ExitOutcome),
    /// What its namespaces hold, when that was asked.
    #[cfg(target_os = "linux")]
    Held(Held),
}

impl Refusal {
    pub(crate) fn setup(stage: impl Into<String>, error: &io::Error) -> Self {
        Self::Setup { stage: stage.into(), errno: error.raw_os_error().unwrap_or(0) }
    }
}

/// A message with its length before it.
pub(crate) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// Sends one message.
pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&frame(message)?)
}

/// Waits for one message; `None` at the end of the stream.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut body = vec![0; checked(length)?];
    from.read_exact(&mut body)?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Takes one message from the front of what has arrived, if it has arrived whole.
pub(crate) fn take<T: DeserializeOwned>(arrived: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some(length) = arrived.first_chunk::<4>() else { return Ok(None) };
    let end = 4 + checked(*length)?;
    if arrived.len() < end {
        return Ok(None);
    }
    let message = serde_json::from_slice(&arrived[4..end])?;
    arrived.drain(..end);
    Ok(Some(message))
}

fn checked(length: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_LENGTH {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    Ok(length)
}

/// Sends up to four descriptors to the other end of a socket.
pub(crate) fn send_descriptors(
    channel: &impl AsFd,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("the message has no space for the descriptors"));
    }
    sendmsg(channel, &[IoSlice::new(b"d")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Receives the descriptors that were sent together.
pub(crate) fn receive_descriptors(channel: &impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut mark = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(channel, &mut [IoSliceMut::new(&mut mark)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut received = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            received.extend(descriptors);
        }
    }
    Ok(received)
}

/// Reads what has arrived without waiting for the rest.
pub(crate) fn read_some(from: &mut impl io::Read, arrived: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; 4096];
    let count = from.read(&mut buffer)?;
    arrived.extend_from_slice(&buffer[..count]);
    Ok(count)
}
