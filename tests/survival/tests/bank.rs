//! Calls of a server of the Model Context Protocol, one of which waits for the user: the
//! process of the run is killed at every write, before and after it. Every sum is paid, none twice, and the user is asked
//! once, but for calls that a kill interrupted: whether these took effect is asked, and the user looks.

use std::{collections::BTreeSet, sync::Arc};

use loopwright_core::{AgentState, ApprovalDecision, ExecutionStatus, PendingApproval, ToolOutput};
use loopwright_sessions::{SessionId, SessionRepository, SessionStore};
use loopwright_survival::{
    bank::SUMS,
    ledger::Entry,
    open::open,
    task::{Fault, Side, Task, Visit, What, Work},
};
use serde_json::json;
use tokio::runtime::Builder;

use crate::{
    places::{Place, on_every_store},
    workers::{Notes, was_killed},
};

/// The process that is killed, and where.
#[derive(Clone, Copy, Debug)]
struct Kill {
    process: u64,
    write: u64,
    side: Side,
}

/// One run with all its processes, one of which is killed.
struct Case<'p> {
    place: &'p Place,
    id: SessionId,
    notes: Notes,
    kill: Option<Kill>,
    started: u64,
    is_killed: bool,
    /// The calls that were answered, and those that were interrupted, by their addresses.
    answered: BTreeSet<Vec<u16>>,
    interrupted: BTreeSet<Vec<u16>>,
}

impl<'p> Case<'p> {
    fn new(place: &'p Place, name: &str, kill: Option<Kill>) -> Self {
        let (id, notes) = (SessionId::new(name).unwrap(), Notes::new(place, name));
        let (answered, interrupted) = (BTreeSet::new(), BTreeSet::new());
        Self { place, id, notes, kill, started: 0, is_killed: false, answered, interrupted }
    }

    fn state(&self) -> Option<AgentState> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store: Arc<dyn SessionStore> = open(self.place.url()).await.unwrap();
            store.header(&self.id).await.unwrap()?;
            let session = SessionRepository::new(store).load(&self.id).await.unwrap();
            Some(session.state().clone())
        })
    }

    fn paid(&self) -> Vec<u64> {
        let sum = |entry| if let Entry::Paid { sum } = entry { Some(sum) } else { None };
        self.notes.entries().into_iter().filter_map(sum).collect()
    }

    /// What is to be done next, as a user would; `None` means that the run has its answer.
    fn next(&mut self, state: Option<&AgentState>) -> Option<Visit> {
        let Some(state) = state else { return Some(Visit::Create) };
        match state.status() {
            ExecutionStatus::Pending => Some(Visit::Send),
            ExecutionStatus::Completed => None,
            ExecutionStatus::Paused => Some(match state.pending().first() {
                Some(first) => self.decide(first, state),
                None => Visit::Continue,
            }),
            _ => Some(Visit::Continue),
        }
    }

    fn decide(&mut self, asked: &PendingApproval<'_>, state: &AgentState) -> Visit {
        // The address of a call is that of its step, too: the run has two.
        let address = asked.address();
        let mut call = address.clone();
        call.push(u16::try_from(state.step_count()).unwrap());
        let decision = if asked.question.is_recovery() {
            self.interrupted.insert(call);
            let has_paid = |sum: &u64| asked.call.arguments.contains(&sum.to_string());
            if self.paid().iter().any(has_paid) {
                ApprovalDecision::Answer(ToolOutput::text("paid"))
            } else {
                ApprovalDecision::Approve
            }
        } else {
            let is_first = !self.answered.contains(&call) || self.interrupted.contains(&call);
            assert!(is_first, "{call:?} asks again: {:?}", self.kill);
            ApprovalDecision::Reply(json!({ "agreed": true }))
        };
        Visit::Decide { address, decision }
    }

    /// Lets processes work until the run has its answer.
    fn run(&mut self) {
        let mut state = self.state();
        while let Some(visit) = self.next(state.as_ref()) {
            assert!(self.started < 40, "{visit:?}: {state:?}");
            self.started += 1;
            let kill = self.kill.filter(|it| it.process == self.started);
            let fault = kill.map(|it| Fault { write: it.write, side: it.side, what: What::Dies });
            let (url, session) = (self.place.url().to_owned(), self.id.to_string());
            let task = Task { url, session, work: Work::Bank(visit.clone()), fault };
            let status = self.notes.run(&task);
            self.is_killed |= was_killed(status);
            let is_done = status.success();
            assert!(is_done || was_killed(status), "{visit:?}: {:?}", self.notes.entries().last());
            if let (Visit::Decide { address, decision: ApprovalDecision::Reply(_) }, true) =
                (visit, is_done)
            {
                let mut call = address;
                call.push(u16::try_from(state.as_ref().unwrap().step_count()).unwrap());
                self.answered.insert(call);
            }
            state = self.state();
        }
        let mut paid = self.paid();
        paid.sort_unstable();
        let answer = state.map(|state| state.text());
        assert_eq!((answer.as_deref(), &*paid), (Some("go is done"), &SUMS[..]), "{:?}", self.kill);
    }
}

fn killed_at_every_write(place: &Place) {
    let mut whole = Case::new(place, "whole", None);
    whole.run();
    assert!(whole.interrupted.is_empty() && whole.answered.len() == 1, "{:?}", whole.answered);
    let mut kills = 0;
    for process in 1..=whole.started {
        for side in [Side::Before, Side::After] {
            for write in 1.. {
                let name = format!("{process}-{side:?}-{write}").to_lowercase();
                let mut case = Case::new(place, &name, Some(Kill { process, write, side }));
                case.run();
                if !case.is_killed {
                    break;
                }
                kills += 1;
            }
        }
    }
    println!("{kills} processes killed, of runs of {} processes", whole.started);
    assert!(kills > 20, "{kills}");
}

on_every_store!(killed_at_every_write:
    payments_through_a_server_survive_a_kill_at_every_write_of_files,
    payments_through_a_server_survive_a_kill_at_every_write_of_sqlite,
    payments_through_a_server_survive_a_kill_at_every_write_of_postgres);
