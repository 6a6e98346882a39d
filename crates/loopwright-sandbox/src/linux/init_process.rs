//! The first process in a sandbox. It starts the command, reaps ended processes, and ends when the command or its
//! supervisor ends. Then the kernel ends every process in its namespace.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::process::exit;
use std::thread;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

use super::confine::{self, Confinement, Streams};
use super::sys::{self, Side};
use super::{gate, held};
use crate::job::{self, InitReport, LaunchRequest, Refusal};
use crate::output::{ExitOutcome, Limit};
use crate::policy::Network;

/// The exit status of a process that failed; no caller relies on it.
pub(crate) const FAILED: i32 = 125;

/// The request to end the command.
pub(crate) const END: u8 = b'T';
/// The request to measure the memory that the namespaces hold.
pub(crate) const COUNT: u8 = b'M';

/// The connections of the first process to its supervisor.
pub(crate) struct InitPipes {
    /// Receives [`END`] and [`COUNT`]. When it is closed, everything ends.
    pub(crate) control: OwnedFd,
    /// Sends [`InitReport`]s.
    pub(crate) reports: OwnedFd,
    /// The channel for the socket that reaches hosts by name.
    pub(crate) gate: Option<OwnedFd>,
}

/// Starts the command as a child of this process, and waits until it is running.
pub(crate) fn start(
    job: &LaunchRequest,
    confinement: Confinement,
    streams: Streams,
) -> Result<Pid, Refusal> {
    let at = |error: io::Error| Refusal::setup("starting the command", &error);
    let (mut failure, failed) = io::pipe().map_err(at)?;
    match sys::clone_process(0).map_err(at)? {
        Side::Child => {
            drop(failure);
            let refusal = confine::exec(job, &confinement, &streams);
            let mut failed = failed;
            // If this does not arrive, the end of this process tells the supervisor the same.
            job::send(&mut failed, &refusal).ok();
            exit(FAILED)
        }
        Side::Parent(pid) => {
            drop((failed, streams, confinement));
            match job::receive(&mut failure).map_err(at)? {
                Some(refusal) => Err(refusal),
                None => Ok(pid),
            }
        }
    }
}

/// Runs the command as the first process of a namespace. Does not return.
pub(crate) fn run(
    job: &LaunchRequest,
    confinement: Confinement,
    streams: Streams,
    wires: InitPipes,
) -> ! {
    let InitPipes { control, reports, gate } = wires;
    let mut reports = File::from(reports);
    let opened = gate.map_or(Ok(()), |channel| gate::open(&channel));
    let opened = opened.map_err(|error| Refusal::setup("proxy", &error));
    let command = match opened.and_then(|()| start(job, confinement, streams)) {
        Ok(pid) => pid,
        Err(refusal) => {
            job::send(&mut reports, &InitReport::Refused(refusal)).ok();
            exit(FAILED)
        }
    };
    if job::send(&mut reports, &InitReport::Started).is_err() || confine::keep_signalling().is_err()
    {
        exit(FAILED);
    }
    let Ok(answers) = reports.try_clone() else { exit(FAILED) };
    let network = job.policy.network.clone();
    if thread::Builder::new().spawn(move || obey(control.into(), answers, &network)).is_err() {
        exit(FAILED);
    }
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => {
                job::send(&mut reports, &InitReport::Ended(outcome(status))).ok();
                exit(0)
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => exit(FAILED),
        }
    }
}

/// Executes requests to end and to measure, and ends when the supervisor is gone.
fn obey(mut control: File, mut answers: File, network: &Network) {
    let mut request = [0];
    loop {
        match control.read(&mut request) {
            // A report is short enough to be written to a pipe at once, so reports of two threads do not mix.
            Ok(1) if request == [COUNT] => {
                job::send(&mut answers, &InitReport::Held(held::now(network))).ok();
            }
            Ok(1) => {
                sys::signal_everyone(Signal::TERM);
                sys::signal_everyone(Signal::CONT);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => exit(0),
        }
    }
}

/// Returns the outcome of a process that ended by itself.
pub(crate) fn outcome(status: WaitStatus) -> ExitOutcome {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => ExitOutcome::Exited(status),
        (None, Some(libc::SIGXFSZ)) => ExitOutcome::LimitReached(Limit::FileSize),
        (None, Some(libc::SIGXCPU)) => ExitOutcome::LimitReached(Limit::Cpu),
        (None, Some(signal)) => ExitOutcome::Signalled(signal),
        (None, None) => ExitOutcome::Lost,
    }
}
