//! Notes what a store keeps, and lets something happen at one of its writes.

use std::{thread, time::Duration};

use loopwright_sessions::LoadedSession;
use rustix::process::{Resource, Rlimit, Signal, getpid, getrlimit, kill_process, setrlimit};

use crate::{
    clock::SlowClock,
    ledger::{Entry, Ledger},
    task::{Fault, Side, What},
    watched::Watcher,
};

/// Notes what a store keeps, and lets something happen at one of its writes.
#[derive(Clone, Debug)]
pub struct Saboteur {
    /// Where it takes notes.
    pub ledger: Ledger,
    /// What happens, if anything does.
    pub fault: Option<Fault>,
    /// The clock that may go back.
    pub clock: SlowClock,
}

impl Saboteur {
    fn happens(&self, write: u64, side: Side) {
        let is_now = |fault: &Fault| (fault.write, fault.side) == (write, side);
        let Some(fault) = self.fault.filter(is_now) else { return };
        match fault.what {
            What::Dies => die(),
            What::Waits => {
                self.ledger.note(&Entry::Waits);
                // Whatever comes, and if nothing comes any more, it continues.
                let _read = std::io::stdin().read_line(&mut String::new());
            }
            What::IsFull => {
                self.ledger.note(&Entry::Waits);
                let full = Rlimit { current: Some(0), ..getrlimit(Resource::Fsize) };
                if setrlimit(Resource::Fsize, full).is_err() {
                    std::process::abort();
                }
            }
            What::IsEarlier(millis) => self.clock.set_back(millis),
        }
    }
}

impl Watcher for Saboteur {
    fn before(&self, write: u64) {
        self.happens(write, Side::Before);
    }

    fn after(&self, write: u64, kept: Option<Entry>) {
        if let Some(entry) = kept {
            self.ledger.note(&entry);
        }
        self.happens(write, Side::After);
    }

    fn found(&self, loaded: &LoadedSession) {
        self.ledger.note(&Entry::Found(loaded.changes.clone()));
    }
}

/// Ends this process as if the machine had stopped.
fn die() {
    let _sent = kill_process(getpid(), Signal::KILL);
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}
