//! Runs that pause where a caller has to decide what became of a call.

use loopwright_core::{AgentState, ToolOutcome, ToolOutput};
use loopwright_survival::{
    ledger::Entry,
    script::Kind,
    task::{Decision, Fault, Interruption, Side, Task, What, Work},
};

use crate::{
    places::{Place, on_every_store},
    workers::{Notes, task, was_killed},
};

const STEPS: u32 = 3;

/// Kills a worker when its first payment is done and before that is kept.
fn interrupted(place: &Place, name: &str) -> (String, Notes) {
    for write in 1.. {
        let session = format!("{name}-{write}");
        let notes = Notes::new(place, &session);
        let fault = Fault { write, side: Side::Before, what: What::Dies };
        let status = notes.run(&task(place, &session, STEPS, Some(fault)));
        assert!(was_killed(status), "{:?}", notes.entries().last());
        if payments(&notes) == 1 {
            return (session, notes);
        }
    }
    unreachable!("there are more numbers")
}

fn payments(notes: &Notes) -> usize {
    let is_payment = |entry: &&Entry| matches!(entry, Entry::Done { kind: Kind::Once, .. });
    notes.entries().iter().filter(is_payment).count()
}

fn go_on(place: &Place, session: &str, notes: &Notes, interrupted: Interruption) -> String {
    let work = Work::Run { steps: STEPS, interrupted, slow: 0 };
    let (url, session) = (place.url().to_owned(), session.to_owned());
    notes.run(&Task { url, session, work, fault: None });
    match notes.entries().last() {
        Some(Entry::Ended { status, .. }) => status.clone(),
        other => panic!("{other:?}"),
    }
}

fn decided(place: &Place, decision: Decision) -> (usize, ToolOutcome) {
    let (session, notes) = interrupted(place, &format!("{decision:?}"));
    let is_asked = |entry: &&Entry| matches!(entry, Entry::Asked { .. });
    let asked = || notes.entries().iter().filter(is_asked).count();
    let before = asked();
    assert_eq!(go_on(place, &session, &notes, Interruption::Ask), "paused");
    assert_eq!((asked(), payments(&notes)), (before, 1));
    assert_eq!(go_on(place, &session, &notes, Interruption::Decided(decision)), "completed");
    let state = AgentState::new().replay(place.stored(&session)).unwrap();
    let step = state.step_at(0).unwrap();
    let (_, outcome) = step.tool_executions().next().unwrap();
    let entries = notes.entries();
    let keys = entries.iter().filter_map(|it| match it {
        Entry::Done { kind: Kind::Once, key } => Some(key),
        _ => None,
    });
    let keys: Vec<_> = keys.collect();
    assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "{keys:?}");
    (keys.len(), outcome.clone())
}

fn each_decision(place: &Place) {
    let (times, outcome) = decided(place, Decision::Retry);
    assert!(matches!(outcome, ToolOutcome::Returned(_)), "{outcome:?}");
    assert_eq!(times, 2);
    let reason = "the call was interrupted after it started, so its effects are unknown; it was not repeated: left out";
    let blocked = ToolOutcome::Blocked { reason: reason.to_owned() };
    assert_eq!(decided(place, Decision::Skip), (1, blocked));
    let done = ToolOutcome::Returned(ToolOutput::text("was done"));
    assert_eq!(decided(place, Decision::Done), (1, done));
}

on_every_store!(each_decision:
    an_interrupted_payment_in_files_is_repeated_only_by_decision,
    an_interrupted_payment_in_sqlite_is_repeated_only_by_decision,
    an_interrupted_payment_in_postgres_is_repeated_only_by_decision);
