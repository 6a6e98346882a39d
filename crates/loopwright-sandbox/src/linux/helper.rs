//! The helper process, one for each command. It runs outside the sandbox, starts the command, supervises it, and
//! ends it when the agent ends.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::exit;

use rustix::process::DumpableBehavior;

use super::confine::{self, Streams};
use super::{stage, start, supervisor, sys};
use crate::job::{self, Event, LaunchRequest, NAME, Refusal, STAGE};

/// Returns `true` if this process was started as a helper.
pub(crate) fn is_wanted() -> bool {
    let name = std::env::args_os().next();
    name.is_some_and(|name| {
        std::path::Path::new(&name).file_name().is_some_and(|name| name == NAME)
    })
}

/// Runs the helper. Does not return.
pub(crate) fn main() -> ! {
    if threads() != 1 {
        // A process with several threads cannot be cloned. Without an answer, the agent refuses the command.
        exit(FAILED)
    }
    if std::env::args_os().nth(1).is_some_and(|argument| argument == STAGE) {
        stage::main()
    }
    match serve() {
        Ok(()) => exit(0),
        Err(_) => exit(FAILED),
    }
}

const FAILED: i32 = super::init_process::FAILED;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

fn serve() -> io::Result<()> {
    sys::close_from(3)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::setsid().ok();
    std::env::set_current_dir("/")?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let null = confine::open_null()?;
    rustix::stdio::dup2_stdin(&null)?;
    drop(null);
    let (job, streams) = take_job(&socket)?;
    match start::start(&job, streams) {
        Ok(started) => supervisor::watch(&job, started, socket),
        Err(refusal) => refuse(&socket, refusal),
    }
}

/// Reports why nothing was started.
fn refuse(mut socket: &UnixStream, refusal: Refusal) -> io::Result<()> {
    job::send(&mut socket, &Event::Refused(refusal))
}

/// Receives the command's streams, and then the job.
fn take_job(mut socket: &UnixStream) -> io::Result<(LaunchRequest, Streams)> {
    let mut received = job::receive_descriptors(socket)?;
    let gate = if received.len() > 3 { received.pop() } else { None };
    let [stdin, stdout, stderr] = <[OwnedFd; 3]>::try_from(received)
        .map_err(|_| io::Error::other("the streams are missing"))?;
    let job = job::receive(&mut socket)?.ok_or_else(|| io::Error::other("the job is missing"))?;
    Ok((job, Streams { stdin, stdout, stderr, gate }))
}
