//! The program killed at its system calls, and what is stored then.

use super::{Place, answers, said};
use crate::killed::{can_kill, instants, killed_at};

/// The stores of this machine, by the addresses that they have in some place.
fn stores(place: &Place) -> [String; 2] {
    let kept = place.world.path("kept");
    ["sqlite:", "files:"].map(|kind| format!("{kind}{}", kept.display()))
}

/// Checks that a store is whole, but for what was never there as a whole and a repair removes.
fn is_whole(place: &Place, store: &str, told: &str) {
    let doctor = || place.sessions(&["doctor", "--store", store]);
    let found = doctor();
    if found.status != 0 {
        let left = |line: &&str| line.ends_with("is a session that was never there as a whole");
        assert_eq!(found.stderr.lines().filter(left).count(), 1, "{told}: {found:?}");
        assert!(found.stderr.contains("\n1 problem left;"), "{told}: {found:?}");
        let repaired = place.sessions(&["doctor", "--store", store, "--repair"]);
        assert_eq!(repaired.status, 0, "{told}: {repaired:?}");
        assert_eq!(doctor().status, 0, "{told}");
    }
}

/// Checks a store after a kill: it is whole, and each session that it lists has its first message. Returns how many
/// are listed.
fn listed(place: &Place, store: &str, told: &str) -> usize {
    is_whole(place, store, told);
    let list = place.json(&["list", "--all", "--store", store]);
    let sessions = list["sessions"].as_array().unwrap();
    for session in sessions {
        let id = session["id"].as_str().unwrap();
        let shown = place.json(&["show", "--store", store, id]);
        assert_eq!(said(&shown).first().unwrap(), "1?", "{told}: {shown}");
        assert_eq!(session["title"], "1?", "{told}");
    }
    assert_eq!(list["unreadable"].as_array().map_or(0, Vec::len), 0, "{told}: {list}");
    sessions.len()
}

/// A new run in a store that does not exist, killed at each instant.
fn new_run(kind: usize) {
    if !can_kill() {
        return;
    }
    let started = |place: &Place| {
        let store = stores(place)[kind].clone();
        let line = ["--store", &store, "--output-format", "stream-json", "1?"];
        (place.world.command(&place.line(&line)), store)
    };
    let instants = instants(&started(&Place::new(answers(["one"]))).0);
    let (mut without, mut with, mut announced) = (0, 0, 0);
    for instant in instants {
        let place = Place::new(answers(["one"]));
        let (command, store) = started(&place);
        // Calls are not the same in every run: this one may have fewer.
        let Some(output) = killed_at(&command, instant) else { continue };
        let stdout = String::from_utf8(output.stdout).unwrap();
        let told = format!("{store} {instant:?}");
        let sessions = listed(&place, &store, &told);
        // What names the session comes after it is durable.
        let is_announced = stdout.contains("session_id");
        assert!(sessions == 1 || !is_announced, "{told}: {stdout}");
        announced += usize::from(is_announced);
        *[&mut without, &mut with][sessions] += 1;
    }
    println!("{without} kills before there is a session, {with} after, {announced} announced");
    assert!(without > 0 && with > 0 && announced > 0, "{without}, {with}, {announced}");
}

#[test]
fn a_new_run_killed_at_any_instant_leaves_no_session_in_sqlite_or_one_with_its_first_message() {
    new_run(0);
}

#[test]
fn a_new_run_killed_at_any_instant_leaves_no_session_in_files_or_one_with_its_first_message() {
    new_run(1);
}
