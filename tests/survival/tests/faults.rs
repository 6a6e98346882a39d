//! Stores that fail in the middle of a run: it stops before the next effect, says why, and continues
//! when the fault is gone.

use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use loopwright_survival::{
    ledger::Entry,
    task::{Fault, Interruption, Side, Task, What, Work},
};

use crate::{
    numbers::is_long,
    places::{Place, on_every_store},
    workers::{Notes, check_end, task, was_killed},
};

const STEPS: u32 = 9;

/// A write in the middle of a run.
const MIDDLE: u64 = 14;

const SESSION: &str = "faulty";

fn faulty(place: &Place, session: &str, what: What) -> Task {
    let fault = Fault { write: MIDDLE, side: Side::Before, what };
    task(place, session, STEPS, Some(fault))
}

/// What the runtime says of a store that fails, whatever the reason.
pub(crate) const UNAVAILABLE: &str = "the session store is unavailable: ";

/// Checks that the worker said why it stopped, and that nothing began since the fault.
#[track_caller]
pub(crate) fn check_stopped(entries: &[Entry], fault: usize, told: &[&str]) {
    let Some(Entry::Refused { chain }) = entries.last() else { panic!("{:?}", entries.last()) };
    assert!(told.iter().all(|text| chain[0].contains(text)), "{chain:?}");
    let begins = |entry: &&Entry| matches!(entry, Entry::Asked { .. } | Entry::Began { .. });
    let begun: Vec<_> = entries[fault..].iter().filter(begins).collect();
    assert!(begun.is_empty(), "{begun:?}");
}

/// Checks that the run continues where it was and comes to its end.
#[track_caller]
fn check_goes_on(place: &Place, notes: &Notes) {
    let status = notes.run(&task(place, SESSION, STEPS, None));
    assert!(status.success(), "{:?}", notes.entries().last());
    check_end(place, SESSION, notes, STEPS, "after the fault");
}

fn position_of_wait(entries: &[Entry]) -> usize {
    entries.iter().position(|it| *it == Entry::Waits).unwrap()
}

// ------------------------------------------------------------------------------------------------
// No room

fn full(place: &Place, told: &str) {
    let notes = Notes::new(place, SESSION);
    let status = notes.run_in_little_room(&faulty(place, SESSION, What::IsFull));
    assert_eq!(status.code(), Some(1), "{:?}", notes.entries().last());
    let entries = notes.entries();
    check_stopped(&entries, position_of_wait(&entries), &[UNAVAILABLE, told]);
    check_goes_on(place, &notes);
}

#[test]
fn a_run_whose_files_cannot_grow_stops_before_its_next_effect() {
    full(&Place::files(), "raise the file size limit");
}

#[test]
fn a_run_whose_sqlite_file_cannot_grow_stops_before_its_next_effect() {
    full(&Place::sqlite(), "disk");
}

// ------------------------------------------------------------------------------------------------
// No permission

/// Whoever may not do everything, where the tests may.
fn as_nobody(command: &mut Command) {
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
}

fn set_modes(path: &Path, folders: u32, files: u32) {
    let is_folder = path.is_dir();
    if is_folder {
        // Beneath a folder that may be read only, nothing could be changed.
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        for entry in fs::read_dir(path).unwrap() {
            set_modes(&entry.unwrap().path(), folders, files);
        }
    }
    let mode = if is_folder { folders } else { files };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn read_only(place: &Place, remedy: &str) {
    let notes = Notes::new(place, SESSION);
    let dies = faulty(place, SESSION, What::Dies);
    assert!(was_killed(notes.start_as(&dies, as_nobody).end()), "{:?}", notes.entries().last());
    set_modes(&place.store(), 0o555, 0o444);
    let fault = notes.entries().len();
    let goes_on = task(place, SESSION, STEPS, None);
    let status = notes.start_as(&goes_on, as_nobody).end();
    assert_eq!(status.code(), Some(1), "{:?}", notes.entries().last());
    check_stopped(&notes.entries(), fault, &[remedy]);
    set_modes(&place.store(), 0o777, 0o666);
    let status = notes.start_as(&goes_on, as_nobody).end();
    assert!(status.success(), "{:?}", notes.entries().last());
    check_end(place, SESSION, &notes, STEPS, "after the fault");
}

#[test]
fn a_run_whose_files_may_only_be_read_does_not_go_on() {
    read_only(&Place::files(), "let this user read and write the store's directory");
}

#[test]
fn a_run_whose_sqlite_file_may_only_be_read_does_not_go_on() {
    let remedy = "make the file, its directory and its disk writable";
    read_only(&Place::sqlite(), remedy);
}

// ------------------------------------------------------------------------------------------------
// No server

#[test]
fn a_run_whose_database_is_gone_stops_before_its_next_effect_and_goes_on_when_it_is_back() {
    let mut place = Place::postgres();
    let notes = Notes::new(&place, SESSION);
    let mut worker = notes.start(&faulty(&place, SESSION, What::Waits));
    notes.wait_for(|entries| entries.contains(&Entry::Waits));
    place.server().stop().unwrap();
    worker.go();
    assert_eq!(worker.end().code(), Some(1), "{:?}", notes.entries().last());
    let entries = notes.entries();
    let remedy = "check that the server is running";
    check_stopped(&entries, position_of_wait(&entries), &[UNAVAILABLE, remedy]);
    // As long as it is gone, nobody begins.
    let fault = entries.len();
    let status = notes.run(&task(&place, SESSION, STEPS, None));
    assert_eq!(status.code(), Some(1), "{:?}", notes.entries().last());
    check_stopped(&notes.entries(), fault, &[remedy]);
    place.server().go_on().unwrap();
    check_goes_on(&place, &notes);
}

/// For how long a database does not respond: longer than a connection is waited for, in the long form.
fn stall() -> Duration {
    if is_long() { Duration::from_secs(45) } else { Duration::from_millis(300) }
}

#[test]
fn a_run_whose_database_does_not_answer_for_a_while_goes_on() {
    let mut place = Place::postgres();
    let notes = Notes::new(&place, SESSION);
    let mut worker = notes.start(&faulty(&place, SESSION, What::Waits));
    notes.wait_for(|entries| entries.contains(&Entry::Waits));
    place.server().stand_still(true).unwrap();
    worker.go();
    thread::sleep(stall());
    let is_over = worker.is_over();
    place.server().stand_still(false).unwrap();
    assert!(!is_over, "{:?}", notes.entries().last());
    assert!(worker.end().success(), "{:?}", notes.entries().last());
    check_end(&place, SESSION, &notes, STEPS, "after the stall");
}

#[test]
fn a_run_whose_database_was_gone_for_a_moment_goes_on() {
    let mut place = Place::postgres();
    let notes = Notes::new(&place, SESSION);
    let mut worker = notes.start(&faulty(&place, SESSION, What::Waits));
    notes.wait_for(|entries| entries.contains(&Entry::Waits));
    place.server().stop().unwrap();
    place.server().go_on().unwrap();
    worker.go();
    assert!(worker.end().success(), "{:?}", notes.entries().last());
    check_end(&place, SESSION, &notes, STEPS, "after the fault");
}

// ------------------------------------------------------------------------------------------------
// Another time

const HOUR: u64 = 3_600_000;

fn earlier(place: &Place) {
    let notes = Notes::new(place, SESSION);
    let goes_back = faulty(place, SESSION, What::IsEarlier(HOUR));
    assert!(notes.run(&goes_back).success(), "{:?}", notes.entries().last());
    check_end(place, SESSION, &notes, STEPS, "in one run");

    // A caller that continues an hour earlier does not wait for the lease of the process that is gone.
    let session = "resumed";
    let notes = Notes::new(place, session);
    let dies = faulty(place, session, What::Dies);
    assert!(was_killed(notes.run(&dies)), "{:?}", notes.entries().last());
    let written = || {
        let id = loopwright_sessions::SessionId::new(session).unwrap();
        place.with(async |store| store.header(&id).await.unwrap().unwrap().updated_at)
    };
    let before = written();
    let work = Work::Run { steps: STEPS, interrupted: Interruption::Tell, slow: HOUR };
    let goes_on = Task { work, ..task(place, session, STEPS, None) };
    assert!(notes.run(&goes_on).success(), "{:?}", notes.entries().last());
    check_end(place, session, &notes, STEPS, "an hour earlier");
    assert!(written() >= before);
}

on_every_store!(earlier:
    a_clock_that_is_set_back_does_not_hold_up_a_run_in_files,
    a_clock_that_is_set_back_does_not_hold_up_a_run_in_sqlite,
    a_clock_that_is_set_back_does_not_hold_up_a_run_in_postgres);
