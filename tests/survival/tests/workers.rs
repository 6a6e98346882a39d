//! Processes that work on a store, and what they note.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use loopwright_survival::{
    audit::problems,
    ledger::{Entry, read},
    task::{Fault, Interruption, Task, Work},
};

use crate::places::Place;

/// How long a process may take: a guard against one that never ends.
const PATIENCE: Duration = Duration::from_mins(2);

/// Notes of all processes that worked on one session.
pub(crate) struct Notes(PathBuf);

impl Notes {
    pub(crate) fn new(place: &Place, session: &str) -> Self {
        Self(place.folder().join(format!("{session}.ledger")))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        read(&fs::read(&self.0).unwrap())
    }

    /// Starts a process.
    pub(crate) fn start(&self, task: &Task) -> Worker {
        self.start_as(task, |_| {})
    }

    /// Starts a process in a way of its own.
    pub(crate) fn start_as(&self, task: &Task, change: impl FnOnce(&mut Command)) -> Worker {
        let ledger = File::options().create(true).append(true).open(&self.0).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_survival-worker"));
        command.arg(serde_json::to_string(task).unwrap());
        command.stdin(Stdio::piped()).stdout(ledger);
        change(&mut command);
        Worker(command.spawn().unwrap())
    }

    /// Runs a process to its end in which no file may grow once that is said. It takes its notes
    /// through a pipe.
    pub(crate) fn run_in_little_room(&self, task: &Task) -> ExitStatus {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "trap '' XFSZ; exec \"$0\" \"$1\"",
            env!("CARGO_BIN_EXE_survival-worker"),
        ]);
        command.arg(serde_json::to_string(task).unwrap()).stderr(Stdio::inherit());
        let output = command.output().unwrap();
        let mut ledger = File::options().create(true).append(true).open(&self.0).unwrap();
        ledger.write_all(&output.stdout).unwrap();
        output.status
    }

    /// Runs a process to its end.
    pub(crate) fn run(&self, task: &Task) -> ExitStatus {
        self.start(task).end()
    }

    /// Waits until something is noted.
    pub(crate) fn wait_for(&self, is_there: impl Fn(&[Entry]) -> bool) {
        let began = Instant::now();
        while !is_there(&self.entries()) {
            assert!(began.elapsed() < PATIENCE, "it is never noted: {:?}", self.entries());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A process that works on a store.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn go(&mut self) {
        // Whoever ended needs no telling.
        let _told = self.0.stdin.take().unwrap().write_all(b"\n");
    }

    /// Returns its number.
    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }

    /// Tells whether it ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "a worker does not end");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Kills it after so long. Tells whether it was killed before it ended.
    pub(crate) fn kill_after(mut self, delay: Duration) -> bool {
        thread::sleep(delay);
        self.0.kill().unwrap();
        was_killed(self.0.wait().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has ended already, unless a test failed.
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}

pub(crate) fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}

/// Runs the scripted agent.
pub(crate) fn task(place: &Place, session: &str, steps: u32, fault: Option<Fault>) -> Task {
    let work = Work::Run { steps, interrupted: Interruption::Tell, slow: 0 };
    Task { url: place.url().to_owned(), session: session.to_owned(), work, fault }
}

/// Checks all that happened to a session whose run has ended.
#[track_caller]
pub(crate) fn check_end(place: &Place, session: &str, notes: &Notes, steps: u32, told: &str) {
    let entries = notes.entries();
    assert!(matches!(entries.last(), Some(Entry::Ended { .. })), "{told}: {:?}", entries.last());
    let found = problems(&entries, &place.stored(session), steps);
    assert!(found.is_empty(), "{told}: {found:#?}");
}
