//! Workers that are killed, at every write and at random instants, and a caller that continues after them.

use std::time::{Duration, Instant};

use loopwright_core::{Change, ChangeRecord, ToolOutcome};
use loopwright_survival::{
    ledger::Entry,
    task::{Fault, Side, What},
};

use crate::{
    numbers::{Numbers, is_long, numbers_of_env},
    places::{Place, on_every_store},
    workers::{Notes, check_end, task, was_killed},
};

/// The steps of a run, of which each write is tried: a few, or with `LOOPWRIGHT_LONG` thirty.
fn steps() -> u32 {
    if is_long() { 30 } else { 7 }
}

/// How often a worker is killed at random on each store: in all about a hundred times, or with
/// `LOOPWRIGHT_LONG` a thousand times on each.
fn kills() -> u32 {
    if is_long() { 1_000 } else { 34 }
}

// ------------------------------------------------------------------------------------------------
// At every write

/// Kills a worker at one write, and lets another one continue. Tells whether there was such a write.
fn kill_at(place: &Place, fault: Fault) -> bool {
    let (steps, told) = (steps(), format!("{fault:?}"));
    let session = format!("{:?}-{}", fault.side, fault.write);
    let notes = Notes::new(place, &session);
    let is_killed = was_killed(notes.run(&task(place, &session, steps, Some(fault))));
    if is_killed {
        let status = notes.run(&task(place, &session, steps, None));
        assert!(status.success(), "{told}: {:?}", notes.entries().last());
    }
    check_end(place, &session, &notes, steps, &told);
    is_killed
}

fn every_write(place: &Place) {
    for side in [Side::Before, Side::After] {
        let at = |write: &u64| kill_at(place, Fault { write: *write, side, what: What::Dies });
        let writes = (1..1_000).take_while(at).count();
        println!("{side:?}: killed at each of {writes} writes");
        assert!(writes > 2 * steps() as usize, "{writes} writes are too few");
    }
}

on_every_store!(every_write:
    a_worker_killed_at_any_write_to_files_loses_nothing_and_repeats_nothing,
    a_worker_killed_at_any_write_to_sqlite_loses_nothing_and_repeats_nothing,
    a_worker_killed_at_any_write_to_postgres_loses_nothing_and_repeats_nothing);

// ------------------------------------------------------------------------------------------------
// At random instants

/// How often workers in a row may be killed without a step between them, so that no step counts as one
/// that always crashes.
const IN_VAIN: u32 = 2;

/// Kills the workers of one session at random instants until its run has ended. Returns how often, and
/// how many calls have an unknown outcome.
fn kill_at_random(
    place: &Place,
    session: &str,
    whole: Duration,
    numbers: &mut Numbers,
) -> (u32, usize) {
    let steps = 30;
    let notes = Notes::new(place, session);
    let task = task(place, session, steps, None);
    let (mut killed, mut in_vain, mut before) = (0, 0, 0);
    let share = u64::try_from(whole.as_micros()).unwrap() / 3;
    while in_vain < IN_VAIN {
        let delay = Duration::from_micros(numbers.below(share));
        if !notes.start(&task).kill_after(delay) {
            break;
        }
        killed += 1;
        let now = reached(&notes.entries());
        in_vain = if now > before { 0 } else { in_vain + 1 };
        before = now;
    }
    if !matches!(notes.entries().last(), Some(Entry::Ended { .. })) {
        assert!(notes.run(&task).success(), "{session}: {:?}", notes.entries().last());
    }
    check_end(place, session, &notes, steps, session);
    let is_unknown = |it: &ChangeRecord| match &it.change {
        Change::ToolCallCompleted { outcome, .. } => **outcome == ToolOutcome::Unknown,
        _ => false,
    };
    (killed, place.stored(session).iter().filter(|it| is_unknown(it)).count())
}

/// Returns how far the run came: the highest step that a model was asked for.
fn reached(entries: &[Entry]) -> u32 {
    let step = |entry: &Entry| if let Entry::Asked { step } = entry { *step } else { 0 };
    entries.iter().map(step).max().unwrap_or_default()
}

fn random_instants(place: &Place) {
    let mut numbers = numbers_of_env();
    let notes = Notes::new(place, "whole");
    let began = Instant::now();
    assert!(notes.run(&task(place, "whole", 30, None)).success(), "{:?}", notes.entries().last());
    let whole = began.elapsed();
    check_end(place, "whole", &notes, 30, "whole");
    let (mut killed, mut unknown, mut runs) = (0, 0, 0);
    while killed < kills() {
        runs += 1;
        let run = kill_at_random(place, &format!("random-{runs}"), whole, &mut numbers);
        (killed, unknown) = (killed + run.0, unknown + run.1);
    }
    println!(
        "{killed} workers killed in {runs} runs, {unknown} outcomes unknown; a run that nobody \
         disturbs takes {whole:?}"
    );
}

on_every_store!(random_instants:
    workers_killed_at_random_instants_lose_nothing_and_repeat_nothing_in_files,
    workers_killed_at_random_instants_lose_nothing_and_repeat_nothing_in_sqlite,
    workers_killed_at_random_instants_lose_nothing_and_repeat_nothing_in_postgres);
