//! Messages to sessions whose workers are killed.

use std::{thread, time::Duration};

use loopwright_core::{
    AgentState,
    messages::{Message, Role},
};
use loopwright_sessions::{ControlMessage, LeaseRequest, SessionId};
use loopwright_survival::{
    clock::SlowClock,
    task::{Task, Work},
};

use crate::{
    numbers::{is_long, numbers_of_env},
    places::{Place, on_every_store},
    workers::Notes,
};

/// How many sessions are steered on each store.
fn sessions() -> u32 {
    if is_long() { 60 } else { 2 }
}

/// How many workers of a session are killed.
const KILLED: u32 = 4;

/// Sends a message. Tells whether it was accepted: not before there is a session.
fn say(place: &Place, id: &SessionId, text: &str) -> bool {
    let control = ControlMessage::SendMessage(Message::user(text));
    place.with(async |store| store.send_control(id, &control).await.is_ok())
}

/// Returns what the user said, but for the first message.
pub(crate) fn heard(place: &Place, session: &str) -> Vec<String> {
    let state = AgentState::new().replay(place.stored(session)).unwrap();
    let turns = state.transcript().iter().filter(|turn| turn.message().role() == Role::User);
    turns.map(|turn| turn.message().text()).filter(|text| text != "go").collect()
}

fn steered(place: &Place) {
    let mut numbers = numbers_of_env();
    let (mut accepted_by_all, mut killed) = (0, 0);
    for number in 0..sessions() {
        let session = format!("steered-{number}");
        let (id, notes) = (SessionId::new(session.clone()).unwrap(), Notes::new(place, &session));
        let work = Work::Listen { steps: 40 };
        let task =
            Task { url: place.url().to_owned(), session: session.clone(), work, fault: None };
        let mut accepted = Vec::new();
        for kill in 0..KILLED {
            let worker = notes.start(&task);
            for part in ["first", "second"] {
                thread::sleep(Duration::from_millis(numbers.below(40)));
                let text = format!("{part} of {kill}");
                if say(place, &id, &text) {
                    accepted.push(text);
                }
            }
            killed += u32::from(worker.kill_after(Duration::from_millis(numbers.below(40))));
        }
        // What was sent when nobody ran the session comes after all that was sent before.
        if say(place, &id, "last") {
            accepted.push("last".to_owned());
        }
        let status = notes.run(&task);
        assert!(status.success(), "{session}: {:?}", notes.entries().last());
        assert_eq!(heard(place, &session), accepted, "{session}");
        let left = place.with(async |store| {
            let now = loopwright_core::Clock::now(&SlowClock::default());
            let lasts = Duration::from_secs(1);
            let claim = LeaseRequest { owner: "test", replaces: None, now, ttl: lasts };
            store.take_control(&store.lease(&id, claim).await.unwrap()).await.unwrap()
        });
        assert_eq!(left, [], "{session}");
        accepted_by_all += accepted.len();
    }
    println!(
        "{accepted_by_all} messages accepted, {killed} workers killed: all heard once, in order"
    );
    assert!(accepted_by_all > 0 && killed > 0);
}

on_every_store!(steered:
    accepted_messages_are_heard_once_and_in_order_however_often_workers_of_files_are_killed,
    accepted_messages_are_heard_once_and_in_order_however_often_workers_of_sqlite_are_killed,
    accepted_messages_are_heard_once_and_in_order_however_often_workers_of_postgres_are_killed);
