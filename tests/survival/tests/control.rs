//! Requests to stop and cancel, among messages, to sessions whose runners are killed.

use std::{thread, time::Duration};

use loopwright_core::{
    AgentState, Change, ChangeRecord, Clock as _, ExecutionStatus, StopReason, messages::Message,
};
use loopwright_sessions::{ControlMessage, LeaseRequest, SessionId, StoreError};
use loopwright_survival::{
    clock::SlowClock,
    task::{Task, Work},
};

use crate::{
    numbers::{Numbers, is_long, numbers_of_env},
    places::{Place, on_every_store},
    steering::heard,
    workers::Notes,
};

/// How many sessions are controlled on each store.
fn sessions() -> u32 {
    if is_long() { 80 } else { 4 }
}

/// How many runners of a session are killed at most.
const KILLED: u32 = 4;
/// More steps than a runner takes before it ends because of a request.
const STEPS: u32 = 4_000;
/// The most milliseconds between two things that happen.
const LULL: u64 = 25;

/// A session, and what was accepted for it.
struct Controlled<'a> {
    place: &'a Place,
    id: SessionId,
    notes: Notes,
    said: Vec<String>,
    requests: u32,
}

impl Controlled<'_> {
    fn task(&self, work: Work) -> Task {
        let (url, session) = (self.place.url().to_owned(), self.id.as_str().to_owned());
        Task { url, session, work, fault: None }
    }

    /// Posts a message, or, one time in four, a request. It is not accepted before the session exists.
    fn post_any(&mut self, numbers: &mut Numbers) {
        match numbers.below(8) {
            0 => self.request(&ControlMessage::Stop),
            1 => self.request(&ControlMessage::Cancel),
            number => {
                let text = format!("message {} of {number}", self.said.len());
                if self.post(&ControlMessage::SendMessage(Message::user(text.clone()))) {
                    self.said.push(text);
                }
            }
        }
    }

    fn request(&mut self, control: &ControlMessage) {
        self.requests += u32::from(self.post(control));
    }

    fn post(&self, control: &ControlMessage) -> bool {
        self.place.with(async |store| store.send_control(&self.id, control).await.is_ok())
    }

    fn state(&self) -> AgentState {
        AgentState::new().replay(self.place.stored(self.id.as_str())).unwrap()
    }

    fn exists(&self) -> bool {
        self.place.with(async |store| store.header(&self.id).await.unwrap().is_some())
    }

    fn has_ended(&self) -> bool {
        let loaded = self.place.with(async |store| store.load(&self.id).await.unwrap());
        let ends = |changes: &[ChangeRecord]| {
            changes.iter().any(|it| matches!(it.change, Change::ExecutionEnded(_)))
        };
        loaded.is_some_and(|it| ends(&it.changes))
    }

    /// Returns the control messages that are kept.
    fn kept(&self) -> Vec<ControlMessage> {
        self.place.with(async |store| {
            let (now, ttl) = (SlowClock::default().now(), Duration::from_secs(1));
            let claim = LeaseRequest { owner: "test", replaces: None, now, ttl };
            let lease = match store.lease(&self.id, claim).await {
                // The runner was killed after its run had ended.
                Err(StoreError::Busy { owner, .. }) => {
                    let claim = LeaseRequest { replaces: Some(&owner), ..claim };
                    store.lease(&self.id, claim).await.unwrap()
                }
                lease => lease.unwrap(),
            };
            let kept = store.take_control(&lease).await.unwrap();
            store.release(&lease).await.unwrap();
            kept.into_iter().map(|it| it.control).collect()
        })
    }

    /// Runs it under kills until it ends. Returns how many runners were killed.
    fn run(&mut self, numbers: &mut Numbers) -> u32 {
        let task = self.task(Work::TakeOver { steps: STEPS });
        let mut killed = 0;
        while (killed < KILLED || !self.exists()) && !self.has_ended() {
            let runner = self.notes.start(&task);
            for _ in 0..2 {
                thread::sleep(Duration::from_millis(numbers.below(LULL)));
                self.post_any(numbers);
            }
            killed += u32::from(runner.kill_after(Duration::from_millis(numbers.below(LULL))));
        }
        if self.requests == 0 {
            // No runner is there to hear it: the next one does.
            self.request(&ControlMessage::Stop);
        }
        if !self.has_ended() {
            let status = self.notes.run(&task);
            assert!(status.success(), "{}: {:?}", self.id, self.notes.entries().last());
        }
        killed
    }

    fn check(&self) {
        let state = self.state();
        let ExecutionStatus::Stopped(signal) = state.status() else {
            panic!("{}: {} requests, but {:?}", self.id, self.requests, state.status())
        };
        assert_eq!(signal.reason, StopReason::UserRequested, "{}", self.id);
        let changes = self.place.stored(self.id.as_str());
        let ends = changes.iter().filter(|it| matches!(it.change, Change::ExecutionEnded(_)));
        assert_eq!(ends.count(), 1, "{}", self.id);
        let kept = self.kept().into_iter().filter_map(|control| match control {
            ControlMessage::SendMessage(message) => Some(message.text()),
            _ => None,
        });
        let accepted: Vec<String> =
            heard(self.place, self.id.as_str()).into_iter().chain(kept).collect();
        assert_eq!(accepted, self.said, "{}: heard or kept", self.id);
        // A run that is started anew heeds no request that was sent to the one before.
        let status = self.notes.run(&self.task(Work::Listen { steps: 1 }));
        assert!(status.success(), "{}: {:?}", self.id, self.notes.entries().last());
        let state = self.state();
        assert_eq!(state.status(), &ExecutionStatus::Completed, "{}", self.id);
        let heard = heard(self.place, self.id.as_str());
        assert_eq!((heard, self.kept()), (self.said.clone(), Vec::new()), "{}", self.id);
    }
}

fn controlled(place: &Place) {
    let mut numbers = numbers_of_env();
    let (mut killed, mut said, mut requests) = (0, 0, 0);
    for number in 0..sessions() {
        let session = format!("controlled-{number}");
        let (id, notes) = (SessionId::new(session.clone()).unwrap(), Notes::new(place, &session));
        let mut controlled = Controlled { place, id, notes, said: Vec::new(), requests: 0 };
        killed += controlled.run(&mut numbers);
        controlled.check();
        said += controlled.said.len();
        requests += controlled.requests;
    }
    println!(
        "{killed} runners killed, {said} messages and {requests} requests accepted: each has its effect once"
    );
    assert!(killed > 0 && said > 0 && requests > 0, "{killed} {said} {requests}");
}

on_every_store!(controlled:
    accepted_requests_end_the_run_once_however_often_runners_of_files_are_killed,
    accepted_requests_end_the_run_once_however_often_runners_of_sqlite_are_killed,
    accepted_requests_end_the_run_once_however_often_runners_of_postgres_are_killed);
