//! Supervises a command: its time, its memory, its agent, and its end.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid,
};

use super::account::Account;
use super::cgroup::Groups;
use super::cover_watch::CoverWatch;
use super::quarantine::Sweep;
use super::start::{Inner, Started};
use super::{container, guarantees, init_process, process_tree};
use crate::guarantee::{Enforcement, Guarantee};
use crate::job::{self, Event, HelperCommand, InitReport, LaunchRequest, Refusal};
use crate::output::{ExitOutcome, Limit, TimeoutKind};
use crate::removal;

/// The interval between two measurements.
const CALM: Duration = Duration::from_millis(50);
/// The interval for a command that uses much of its memory.
const CLOSE: Duration = Duration::from_millis(10);

struct Watch<'a> {
    job: &'a LaunchRequest,
    pid: Pid,
    pidfd: OwnedFd,
    /// When this end is closed, the first process ends.
    control: Option<File>,
    reports: Option<File>,
    reported: Vec<u8>,
    agent: Option<UnixStream>,
    asked: Vec<u8>,
    notes: Vec<String>,
    kind: Kind,
    sweep: Option<Sweep>,
    /// The mounts over hidden and protected paths.
    covers: Option<CoverWatch>,
    /// The paths that are no longer covered.
    lost: Vec<PathBuf>,
    groups: Option<Groups>,
    account: Account,
    /// Whether a request to measure the held memory has no answer yet.
    counting: bool,
    /// Whether the kernel does not count its processes.
    uncounted: bool,
    /// The time at which the command was started, or before that its helper.
    began: Instant,
    elapsed: Duration,
    running: bool,
    refusal: Option<Refusal>,
    status: Option<ExitOutcome>,
    cause: Option<ExitOutcome>,
    end_at: Option<Instant>,
    look_at: Instant,
}

/// The kind of the helper's child.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The first process of a sandbox, or the process that started it.
    First,
    /// The command.
    Direct,
    /// The client of a container.
    Client,
}

/// Watches until every process of the command has ended, and reports to the agent.
pub(crate) fn watch(job: &LaunchRequest, started: Started, agent: UnixStream) -> io::Result<()> {
    let Started { pid, inner, notes, sweep, scratch, groups, layers, uncounted } = started;
    let began = Instant::now();
    let (mut complaints, mut kept_mounts) = (None, None);
    let mut watch = Watch {
        job,
        pid,
        pidfd: pidfd_open(pid, PidfdFlags::empty())?,
        control: None,
        reports: None,
        reported: Vec::new(),
        agent: Some(agent),
        asked: Vec::new(),
        notes,
        kind: Kind::Direct,
        sweep,
        covers: None,
        lost: Vec::new(),
        groups,
        account: Account::new(),
        counting: false,
        uncounted,
        began,
        elapsed: Duration::ZERO,
        running: false,
        refusal: None,
        status: None,
        cause: None,
        end_at: None,
        look_at: began + CALM,
    };
    match inner {
        Inner::First { control, reports, complaints: pipe, mounts } => {
            kept_mounts = mounts;
            watch.kind = Kind::First;
            (watch.control, watch.reports) = (Some(control.into()), Some(reports.into()));
            complaints = pipe;
        }
        Inner::Direct => watch.is_running(),
        Inner::Client => {
            watch.kind = Kind::Client;
            watch.is_running();
        }
    }
    watch.until_the_end();
    if let (Kind::Client, Some(scratch)) = (watch.kind, &scratch) {
        watch.end_container(scratch);
    }
    if let Err(count) = process_tree::end_all() {
        watch.notes.push(format!(
            "{count} processes start new processes faster than they can be \
            stopped"
        ));
    }
    if watch.kind != Kind::Client {
        watch.elapsed = watch.began.elapsed();
    }
    // Other commands can keep their changes to caches from now on.
    drop(layers);
    watch.read_last_reports();
    if watch.groups.take().is_some_and(|groups| groups.ran_out_of_memory()) && watch.cause.is_none()
    {
        watch.cause = Some(ExitOutcome::LimitReached(Limit::Memory));
    }
    if watch.running {
        watch.look_at_covers();
        let told = watch.sweep.take().map(|sweep| sweep.run(&watch.lost));
        watch.notes.extend(told.into_iter().flatten());
    }
    if let Some(scratch) = scratch {
        removal::remove(&scratch).ok();
    }
    let told = watch.tell(complaints);
    // The agent does not wait until the kernel has removed them.
    drop(kept_mounts);
    told
}

/// Returns `true` if `/proc` no longer has the process.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::SRCH)
}

impl Watch<'_> {
    fn is_running(&mut self) {
        self.running = true;
        self.began = Instant::now();
        let covered = self.sweep.as_ref().map_or(&[][..], Sweep::covered);
        let mut enforced = guarantees::by(self.job.backend, &self.job.policy);
        match CoverWatch::of(self.job.backend, self.pid, covered) {
            Ok(covers) => self.covers = covers,
            Err(error) if has_ended(&error) => {}
            Err(_) => {
                let covers = [Guarantee::ProtectedPaths, Guarantee::FileReads];
                enforced = enforced.with(Enforcement::BestEffort, covers);
            }
        }
        if self.uncounted && enforced.enforces(Guarantee::Processes) && self.kind == Kind::First {
            enforced = enforced.with(Enforcement::BestEffort, [Guarantee::Processes]);
        }
        if let Some(groups) = &self.groups {
            enforced = enforced.with(Enforcement::Enforced, [Guarantee::MemoryTotal]);
            if groups.limit_processes() {
                enforced = enforced.with(Enforcement::Enforced, [Guarantee::Processes]);
            }
        }
        let notes = std::mem::take(&mut self.notes);
        self.say(&Event::Started { enforced, notes });
    }

    /// Sends an event to the agent. If the agent is gone, the next check of the connection notices it.
    fn say(&mut self, event: &Event) {
        if let Some(agent) = &mut self.agent {
            job::send(agent, event).ok();
        }
    }

    /// Removes the container of a client that has ended.
    fn end_container(&mut self, scratch: &Path) {
        if self.cause.is_none() && !container::was_started(self.job, scratch, self.status) {
            self.notes.push(
                "the container did not start: its program failed, and the command was not run"
                    .to_owned(),
            );
            self.cause = Some(ExitOutcome::Lost);
        }
        self.elapsed = self.began.elapsed();
        container::remove(self.job);
    }

    fn until_the_end(&mut self) {
        loop {
            let now = Instant::now();
            self.keep_time(now);
            if now >= self.look_at && self.running && self.cause.is_none() {
                self.look();
            }
            let ready = self.wait(now);
            if ready.agent {
                self.hear();
            }
            if ready.reports {
                self.read_reports();
            }
            if ready.covers {
                self.look_at_covers();
            }
            if ready.ended {
                let status = waitpid(Some(self.pid), WaitOptions::empty()).ok().flatten();
                if self.kind != Kind::First {
                    self.status = status.map(|(_, status)| init_process::outcome(status));
                }
                return;
            }
        }
    }

    fn keep_time(&mut self, now: Instant) {
        if self.cause.is_none() && self.wall_ends().is_some_and(|end| now >= end) {
            self.stop(ExitOutcome::TimedOut(TimeoutKind::Wall), self.job.policy.limits.grace);
        }
        if self.end_at.is_some_and(|end_at| now >= end_at) {
            self.end();
        }
    }

    /// Returns when the time runs out, or `None` if the limit is too long for the clock.
    fn wall_ends(&self) -> Option<Instant> {
        self.began.checked_add(self.job.policy.limits.timeout)
    }

    /// Asks the command to end, and sets the time at which it is killed.
    fn stop(&mut self, cause: ExitOutcome, grace: Duration) {
        if self.status.is_some() {
            return;
        }
        if self.cause.is_none() {
            self.cause = Some(cause);
        }
        let end_at = Instant::now().checked_add(grace);
        self.end_at = self.end_at.into_iter().chain(end_at).min();
        if grace.is_zero() {
            self.end();
            return;
        }
        match &mut self.control {
            Some(control) => {
                io::Write::write_all(control, &[init_process::END]).ok();
            }
            None => process_tree::ask_to_end(rustix::process::getpid()),
        }
    }

    /// Ends the command if a path is no longer hidden or protected.
    fn look_at_covers(&mut self) {
        let Some(Ok(lost)) = self.covers.as_mut().map(CoverWatch::lost) else { return };
        if lost.is_empty() {
            return;
        }
        self.covers = None;
        self.notes.extend(lost.iter().map(|path| {
            format!(
                "another program replaced {}, which was then no longer hidden or protected; the \
                    command was stopped",
                path.display()
            )
        }));
        self.lost = lost;
        self.stop(ExitOutcome::Cancelled, Duration::ZERO);
    }

    /// Kills the child. Its descendants end with its namespace, or are killed afterwards.
    fn end(&mut self) {
        self.end_at = None;
        pidfd_send_signal(&self.pidfd, Signal::KILL).ok();
        // For a first process that is not the child itself.
        self.control = None;
    }

    fn look(&mut self) {
        let limits = &self.job.policy.limits;
        let root = if self.kind == Kind::First { self.pid } else { rustix::process::getpid() };
        let usage = process_tree::usage(root);
        let heavy = usage.memory > limits.memory / 4;
        self.look_at = Instant::now() + if heavy { CLOSE } else { CALM };
        // The kernel kills one process; the others would continue without it.
        let is_out_of_memory = self.groups.as_ref().is_some_and(Groups::ran_out_of_memory);
        let reached = if is_out_of_memory || self.account.exceeds(root, usage, limits.memory) {
            Some(Limit::Memory)
        } else if limits.cpu.is_some_and(|cpu| usage.cpu > cpu) {
            Some(Limit::Cpu)
        } else if usage.processes > limits.processes.saturating_add(limits.processes / 4 + 8) {
            Some(Limit::Processes)
        } else {
            None
        };
        if let Some(limit) = reached {
            self.stop(ExitOutcome::LimitReached(limit), Duration::ZERO);
        } else if let (Some(control), false) = (&mut self.control, self.counting) {
            // The answer counts at the next measurement.
            self.counting = io::Write::write_all(control, &[init_process::COUNT]).is_ok();
        }
    }

    fn wait(&self, now: Instant) -> PollReady {
        let mut until =
            if self.running && self.cause.is_none() { self.look_at } else { now + CALM };
        until = until.min(self.end_at.unwrap_or(until));
        if self.cause.is_none() {
            until = until.min(self.wall_ends().unwrap_or(until));
        }
        let left = until.saturating_duration_since(now) + Duration::from_micros(200);
        let timeout = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut polled = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
        let agent =
            self.agent.as_ref().map(|agent| push(&mut polled, agent.as_fd(), PollFlags::IN));
        let reports =
            self.reports.as_ref().map(|reports| push(&mut polled, reports.as_fd(), PollFlags::IN));
        let covers =
            self.covers.as_ref().map(|covers| push(&mut polled, covers.as_fd(), PollFlags::PRI));
        if poll(&mut polled, Some(&timeout)).is_err() {
            return PollReady::default();
        }
        let is = |at: usize| !polled[at].revents().is_empty();
        // The table of mounts can always be read; a change is an exceptional condition.
        let has_changed =
            |at: usize| polled[at].revents().intersects(PollFlags::PRI | PollFlags::ERR);
        PollReady {
            ended: is(0),
            agent: agent.is_some_and(is),
            reports: reports.is_some_and(is),
            covers: covers.is_some_and(has_changed),
        }
    }

    /// Reads from the agent, whose end is the end of the command.
    fn hear(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        match job::read_some(agent, &mut self.asked) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => {
                self.agent = None;
                self.stop(ExitOutcome::Cancelled, Duration::ZERO);
            }
            Ok(_) => match job::take(&mut self.asked) {
                Ok(Some(HelperCommand::Stop { cause, grace })) => self.stop(cause, grace),
                Ok(None) => {}
                Err(_) => self.stop(ExitOutcome::Cancelled, Duration::ZERO),
            },
        }
    }

    fn read_reports(&mut self) {
        let Some(reports) = &mut self.reports else { return };
        match job::read_some(reports, &mut self.reported) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => self.reports = None,
            Ok(_) => {}
        }
        self.take_reports();
    }

    /// Reads the reports that arrived between the last check and the end. No process is left that could block this.
    fn read_last_reports(&mut self) {
        while self.reports.is_some() {
            self.read_reports();
        }
    }

    fn take_reports(&mut self) {
        while let Ok(Some(report)) = job::take(&mut self.reported) {
            match report {
                InitReport::Started => self.is_running(),
                InitReport::Refused(refusal) => self.refusal = Some(refusal),
                InitReport::Ended(outcome) => self.status = Some(outcome),
                InitReport::Held(held) => {
                    self.account.held = held;
                    self.counting = false;
                }
            }
        }
    }

    fn tell(mut self, complaints: Option<OwnedFd>) -> io::Result<()> {
        let event = if let Some(refusal) = self.refusal.take() {
            Event::Refused(refusal)
        } else if self.running || self.cause.is_some() {
            let outcome = match (self.cause, self.status) {
                (Some(cause), _) => cause,
                (None, Some(outcome)) => outcome,
                (None, None) => ExitOutcome::Lost,
            };
            Event::Ended { outcome, elapsed: self.elapsed, notes: std::mem::take(&mut self.notes) }
        } else {
            let said = complaints.and_then(|pipe| io::read_to_string(File::from(pipe)).ok());
            let said = said.map(|said| said.trim().chars().take(500).collect::<String>());
            let stage = match said {
                Some(said) if !said.is_empty() => format!("first process ({said})"),
                _ => "first process".to_owned(),
            };
            Event::Refused(Refusal::Setup { stage, errno: 0 })
        };
        match &mut self.agent {
            Some(agent) => job::send(agent, &event),
            None => Ok(()),
        }
    }
}

/// The descriptors that are ready.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each descriptor is ready or not")]
struct PollReady {
    ended: bool,
    agent: bool,
    reports: bool,
    covers: bool,
}

fn push<'fd>(
    polled: &mut Vec<PollFd<'fd>>,
    fd: std::os::fd::BorrowedFd<'fd>,
    flags: PollFlags,
) -> usize {
    polled.push(PollFd::from_borrowed_fd(fd, flags));
    polled.len() - 1
}
