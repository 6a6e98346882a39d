//! Calls that wait for a decision: a run of which several calls wait, one of them two sub-agents deep, is
//! killed at every write, before, between and after the decisions, which other processes make. Every call runs, none runs
//! twice or without a decision, and none is asked about again, but for calls that a kill interrupted: whether these took
//! effect is asked, and the user looks.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use loopwright_core::{
    AgentState, ApprovalDecision, ExecutionStatus, OnInterrupted, PendingApproval, ToolOutput,
};
use loopwright_sessions::{
    MemoryStore, SessionId, SessionRepository, SessionRuntime, SessionStore,
};
use loopwright_survival::{
    ledger::Entry,
    open::open,
    payer::{FREE, Payer, visit},
    task::{Fault, Side, Task, Visit, What, Work},
    watched::{Watched, Watcher},
};
use loopwright_testing::FrozenClock;
use tokio::runtime::{Builder, Runtime};

use crate::{
    numbers::is_long,
    places::{Place, on_every_store},
    workers::{Notes, was_killed},
};

/// The sums that the run pays.
const SUMS: [u64; 3] = [0, 1, FREE];

/// The call that pays a sum.
fn address_of(sum: u64) -> Vec<u16> {
    match sum {
        0 => vec![0, 0, 0],
        sum => vec![u16::try_from(sum).unwrap()],
    }
}

// ------------------------------------------------------------------------------------------------
// Processes

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Killed,
    Done,
}

/// Processes that work on one session, one after another.
trait Processes {
    /// Lets the process of this number do one thing, and kills it at one of its writes.
    fn run(&self, number: u64, visit: &Visit, kill: Option<(u64, Side)>) -> Ended;

    /// Returns what the store keeps; `None` means that it has no such session.
    fn state(&self) -> Option<AgentState>;

    /// Returns the sums that were paid, in order.
    fn paid(&self) -> Vec<u64>;
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn state_of(store: Arc<dyn SessionStore>, id: &SessionId) -> Option<AgentState> {
    store.header(id).await.unwrap()?;
    let session = SessionRepository::new(store).load(id).await.unwrap();
    Some(session.state().clone())
}

/// Threads that stand for processes: one that is killed does nothing from then on.
struct Threads {
    store: Arc<MemoryStore>,
    id: SessionId,
    paid: Arc<Mutex<Vec<u64>>>,
}

struct Killer {
    at: Option<(u64, Side)>,
    died: Sender<Ended>,
}

impl Killer {
    fn dies(&self, write: u64, side: Side) {
        if self.at == Some((write, side)) {
            self.died.send(Ended::Killed).ok();
            loop {
                thread::park();
            }
        }
    }
}

impl Watcher for Killer {
    fn before(&self, write: u64) {
        self.dies(write, Side::Before);
    }

    fn after(&self, write: u64, _kept: Option<Entry>) {
        self.dies(write, Side::After);
    }
}

impl Processes for Threads {
    fn run(&self, number: u64, what: &Visit, kill: Option<(u64, Side)>) -> Ended {
        let (killed, ended) = channel();
        let done = killed.clone();
        let (store, id, paid) = (Arc::clone(&self.store), self.id.clone(), Arc::clone(&self.paid));
        let what = what.clone();
        thread::spawn(move || {
            runtime().block_on(async {
                let watched = Watched::new(store, Killer { at: kill, died: killed });
                let clock = FrozenClock::new();
                // The leases of those before it have ended.
                clock.advance(Duration::from_hours(24 * number));
                let payer = Payer::new(move |sum| paid.lock().unwrap().push(sum));
                let runtime = SessionRuntime::new(Arc::new(watched), payer)
                    .with_env(clock.env(number))
                    .with_interrupted(OnInterrupted::RequireApproval)
                    .with_owner(format!("process {number}"));
                visit(&runtime, &id, &what).await.unwrap();
            });
            done.send(Ended::Done).ok();
        });
        ended.recv_timeout(Duration::from_mins(1)).unwrap()
    }

    fn state(&self) -> Option<AgentState> {
        let store: Arc<dyn SessionStore> = Arc::clone(&self.store) as _;
        runtime().block_on(state_of(store, &self.id))
    }

    fn paid(&self) -> Vec<u64> {
        self.paid.lock().unwrap().clone()
    }
}

/// Processes of the machine, and what they note.
struct Workers<'p> {
    place: &'p Place,
    id: SessionId,
    notes: Notes,
}

impl Processes for Workers<'_> {
    fn run(&self, _number: u64, what: &Visit, kill: Option<(u64, Side)>) -> Ended {
        let fault = kill.map(|(write, side)| Fault { write, side, what: What::Dies });
        let (url, session) = (self.place.url().to_owned(), self.id.to_string());
        let status = self.notes.run(&Task { url, session, work: Work::Visit(what.clone()), fault });
        if was_killed(status) {
            return Ended::Killed;
        }
        assert!(status.success(), "{what:?}: {:?}", self.notes.entries().last());
        Ended::Done
    }

    fn state(&self) -> Option<AgentState> {
        runtime()
            .block_on(async { state_of(open(self.place.url()).await.unwrap(), &self.id).await })
    }

    fn paid(&self) -> Vec<u64> {
        let sum = |entry| if let Entry::Paid { sum } = entry { Some(sum) } else { None };
        self.notes.entries().into_iter().filter_map(sum).collect()
    }
}

// ------------------------------------------------------------------------------------------------
// One run

/// The process that is killed, and where.
#[derive(Clone, Copy, Debug)]
struct Kill {
    process: u64,
    write: u64,
    side: Side,
}

/// One run with all its processes, one of which is killed.
struct Case<P> {
    processes: P,
    kill: Option<Kill>,
    /// Whether the run continues after each decision, or after the last one.
    continues_between: bool,
    started: u64,
    /// The process to be killed was.
    is_killed: bool,
    /// The calls that a user has begun to approve, by their addresses.
    approving: BTreeSet<Vec<u16>>,
    /// Those whose approval was acknowledged.
    approved: BTreeSet<Vec<u16>>,
}

impl<P: Processes> Case<P> {
    fn new(processes: P, kill: Option<Kill>, continues_between: bool) -> Self {
        Self {
            processes,
            kill,
            continues_between,
            started: 0,
            is_killed: false,
            approving: BTreeSet::new(),
            approved: BTreeSet::new(),
        }
    }

    /// What is to be done next, as a user would; `None` means that the run has its answer.
    fn next(&self, state: Option<&AgentState>, has_continued: bool) -> Option<Visit> {
        let Some(state) = state else { return Some(Visit::Create) };
        let pending = state.pending();
        for waiting in pending.iter().filter(|it| !is_interrupted(it)) {
            let address = waiting.address();
            assert!(!self.approved.contains(&address), "{address:?} waits again: {:?}", self.kill);
        }
        match state.status() {
            ExecutionStatus::Pending => Some(Visit::Send),
            ExecutionStatus::Completed => None,
            ExecutionStatus::Paused if self.continues_between && !has_continued => {
                Some(Visit::Continue)
            }
            ExecutionStatus::Paused => Some(pending.first().map_or(Visit::Continue, |first| {
                let (address, decision) = (first.address(), self.decision(first));
                Visit::Decide { address, decision }
            })),
            _ => Some(Visit::Continue),
        }
    }

    /// Approves a call. One that was interrupted is made again only if it had no effect.
    fn decision(&self, pending: &PendingApproval<'_>) -> ApprovalDecision {
        let arguments = &pending.call.arguments;
        let has_paid =
            || self.processes.paid().iter().any(|sum| arguments.contains(&sum.to_string()));
        if is_interrupted(pending) && has_paid() {
            ApprovalDecision::Answer(ToolOutput::text("paid"))
        } else {
            ApprovalDecision::Approve
        }
    }

    /// Does one thing in a process of its own.
    fn process(&mut self, visit: &Visit) {
        self.started += 1;
        if let Visit::Decide { address, .. } = visit {
            self.approving.insert(address.clone());
        }
        let kill = self.kill.filter(|it| it.process == self.started);
        let ended = self.processes.run(self.started, visit, kill.map(|it| (it.write, it.side)));
        self.is_killed |= ended == Ended::Killed;
        if let (Visit::Decide { address, .. }, Ended::Done) = (visit, ended) {
            self.approved.insert(address.clone());
        }
        for sum in self.processes.paid().into_iter().filter(|sum| *sum != FREE) {
            let is_approved = self.approving.contains(&address_of(sum));
            assert!(is_approved, "{sum} was paid without a decision: {:?}", self.kill);
        }
    }

    /// Lets processes work until the run has its answer.
    fn run(&mut self) {
        let (mut has_continued, mut state) = (false, self.processes.state());
        while let Some(visit) = self.next(state.as_ref(), has_continued) {
            assert!(self.started < 40, "{visit:?}: {state:?}");
            self.process(&visit);
            has_continued = visit == Visit::Continue;
            state = self.processes.state();
        }
        let mut paid = self.processes.paid();
        paid.sort_unstable();
        let answer = state.map(|state| state.text());
        assert_eq!((answer.as_deref(), &*paid), (Some("go is done"), &SUMS[..]), "{:?}", self.kill);
    }
}

/// Returns `true` if a call waits because it was interrupted.
fn is_interrupted(pending: &PendingApproval<'_>) -> bool {
    pending.question.is_recovery()
}

const BOTH: [Side; 2] = [Side::Before, Side::After];

/// Kills one process on these sides of one of its writes, for each process and each write.
fn killed_at_every_write<P: Processes>(
    continues_between: bool,
    sides: &[Side],
    open: impl Fn(&str) -> P,
) {
    let name = |kill: &str| format!("{continues_between}-{kill}");
    let mut whole = Case::new(open(&name("whole")), None, continues_between);
    whole.run();
    let mut kills = 0;
    for process in 1..=whole.started {
        for &side in sides {
            for write in 1.. {
                let kill = Kill { process, write, side };
                let name = name(&format!("{process}-{side:?}-{write}").to_lowercase());
                let mut case = Case::new(open(&name), Some(kill), continues_between);
                case.run();
                if !case.is_killed {
                    break;
                }
                kills += 1;
            }
        }
    }
    println!("{kills} processes killed, of runs of {} processes", whole.started);
    assert!(kills > 40, "{kills}");
}

#[test]
fn calls_in_memory_that_wait_survive_a_kill_at_every_write() {
    let store = Arc::new(MemoryStore::new());
    for continues_between in [false, true] {
        killed_at_every_write(continues_between, &BOTH, |name| {
            let (store, id) = (Arc::clone(&store), SessionId::new(name).unwrap());
            Threads { store, id, paid: Arc::default() }
        });
    }
}

/// Without `LOOPWRIGHT_LONG`, only runs that continue after the last decision, and databases only before each write, which is
/// after the one before it.
fn on_a_disk(place: &Place) {
    let has_both = is_long() || place.url().starts_with("files:");
    let sides = if has_both { &BOTH[..] } else { &[Side::Before] };
    for continues_between in if is_long() { &[false, true][..] } else { &[false] } {
        killed_at_every_write(*continues_between, sides, |name| {
            let (id, notes) = (SessionId::new(name).unwrap(), Notes::new(place, name));
            Workers { place, id, notes }
        });
    }
}

on_every_store!(on_a_disk:
    calls_in_files_that_wait_survive_a_kill_at_every_write,
    calls_in_sqlite_that_wait_survive_a_kill_at_every_write,
    calls_in_postgres_that_wait_survive_a_kill_at_every_write);
