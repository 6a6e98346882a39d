//! The program killed at its system calls, and what is stored then.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::{Place, answers, said};
use crate::killed::{can_kill, instants, killed_at};

/// The stores of this machine, by the addresses that they have in some place.
fn stores(place: &Place) -> [String; 2] {
    let kept = place.world.path("kept");
    ["sqlite:", "files:"].map(|kind| format!("{kind}{}", kept.display()))
}

/// Checks that a store is whole, but for what was never there as a whole and a repair removes.
fn is_whole(place: &Place, store: &str, told: &str) {
    let doctor = || place.sessions(&["check", "--store", store]);
    let found = doctor();
    if found.status != 0 {
        let left = |line: &&str| line.ends_with("is a session whose creation was never completed");
        assert_eq!(found.stderr.lines().filter(left).count(), 1, "{told}: {found:?}");
        assert!(found.stderr.contains("\n1 problem found;"), "{told}: {found:?}");
        let repaired = place.sessions(&["check", "--store", store, "--repair"]);
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
    let instants = instants(&started(&Place::new(answers(["one"]))).0, 4);
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

/// A store with two sessions of two turns each, and a file to which the first was exported.
struct Kept {
    place: Place,
    kind: usize,
    ids: [String; 2],
}

const KEPT: &str = "kept";
/// The turns of each session.
const TURNS: [&str; 4] = ["1?", "one", "2?", "two"];

impl Kept {
    fn new(kind: usize) -> Self {
        let place = Place::new(answers(["one", "two", "one", "two"]));
        let store = stores(&place)[kind].clone();
        let ids = [(); 2].map(|()| {
            let id = place.ran(&["--store", &store, "1?"]);
            place.ran(&["--store", &store, "--resume", &id, "2?"]);
            id
        });
        let exported = place.sessions(&["export", "--store", &store, &ids[0], "../exported"]);
        assert_eq!(exported.status, 0, "{exported:?}");
        Self { place, kind, ids }
    }

    /// Returns the address of a copy of the store, which is the only one of its name.
    fn copy(&self) -> String {
        let (kept, copy) = (self.place.world.path(KEPT), self.place.world.path("copy"));
        self.remove("copy");
        let copied = Command::new("cp").arg("-a").arg(kept).arg(&copy).status();
        assert!(copied.unwrap().success());
        let scheme = ["sqlite:", "files:"][self.kind];
        format!("{scheme}{}", copy.display())
    }

    /// Removes everything whose name begins so, beside the working directory.
    fn remove(&self, beginning: &str) {
        for entry in fs::read_dir(self.place.world.path("")).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_str().unwrap().starts_with(beginning) {
                let path = entry.path();
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
                    .unwrap();
            }
        }
    }

    /// Checks a file or directory that was made: it is whole, and nothing is left beside it, unless it was there
    /// already when the command was given again.
    fn check_made(&self, made: &str, was_there: bool, store: &str, told: &str) {
        let beside = self.place.world.path(&format!("{made}.partial"));
        assert!(was_there || !beside.exists(), "{told}");
        let made = self.place.world.path(made);
        if made.is_dir() || fs::read(&made).unwrap().starts_with(b"SQLite format 3") {
            let copy = format!("{}{}", ["sqlite:", "files:"][self.kind], made.display());
            assert_eq!(self.said(&copy, told), self.said(store, told), "{told}");
        } else {
            let line = ["import", "--store", store, made.to_str().unwrap(), "--id", "imported"];
            let imported = self.place.sessions(&line);
            assert_eq!(imported.status, 0, "{told}: {imported:?}");
            assert_eq!(self.said(store, told)["imported"], TURNS, "{told}");
        }
    }

    /// Returns what was said in each session that is listed, by name.
    fn said(&self, store: &str, told: &str) -> BTreeMap<String, Vec<String>> {
        let list = self.place.json(&["list", "--all", "--store", store]);
        assert_eq!(list["unreadable"].as_array().map_or(0, Vec::len), 0, "{told}: {list}");
        let ids = list["sessions"].as_array().unwrap().iter();
        let ids = ids.map(|it| it["id"].as_str().unwrap().to_owned());
        ids.map(|id| {
            let said = said(&self.place.json(&["show", "--store", store, &id]));
            (id, said)
        })
        .collect()
    }
}

/// What a command may have done.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// Sessions are as they were, and there may be more of them like these.
    Same,
    /// Sessions may be gone, and those that are there are as they were.
    Fewer,
    /// The same, and the new one has a name that cannot be given twice.
    Named,
    /// The first session may have its first turn only.
    Shorter,
}

/// Kills a command at each instant: the store is whole, each session is as it was or as the command leaves it, and the
/// command can be given again. `{0}` and `{1}` are the names of the sessions.
fn command_killed(command: &[&str], outcome: Outcome, makes: Option<&str>) {
    if !can_kill() {
        return;
    }
    for kind in [0, 1] {
        let kept = Kept::new(kind);
        let line = |store: &str| {
            let name = |word: &&str| word.replace("{0}", &kept.ids[0]).replace("{1}", &kept.ids[1]);
            let mut line: Vec<_> = command.iter().map(name).collect();
            line.splice(1..1, ["--store".to_owned(), store.to_owned()]);
            line.insert(0, "sessions".to_owned());
            line
        };
        let prepared = |store: &str| {
            if let Some(made) = makes {
                kept.remove(made);
            }
            let line = line(store);
            let line: Vec<_> = line.iter().map(String::as_str).collect();
            kept.place.world.command(&line)
        };
        let mut killed = 0;
        for instant in instants(&prepared(&kept.copy()), 2) {
            let store = kept.copy();
            if killed_at(&prepared(&store), instant).is_none() {
                continue;
            }
            killed += 1;
            let told = format!("{command:?} {kind} {instant:?}");
            is_whole(&kept.place, &store, &told);
            check(&kept, outcome, &kept.said(&store, &told), &told);
            let was_made = makes.is_some_and(|it| kept.place.world.path(it).exists());
            let line = line(&store);
            let again = kept.place.world.run(&line.iter().map(String::as_str).collect::<Vec<_>>());
            // It was done, and only its end is missing.
            let was_done = match outcome {
                Outcome::Fewer => again.status == 2,
                Outcome::Named => again.stderr.contains("is already taken"),
                _ => was_made && again.stderr.contains("already exists"),
            };
            assert!(again.status == 0 || was_done, "{told}: {again:?}");
            is_whole(&kept.place, &store, &told);
            check(&kept, outcome, &kept.said(&store, &told), &told);
            if let Some(made) = makes {
                kept.check_made(made, was_made, &store, &told);
            }
        }
        println!("{command:?} in {}: killed {killed} times", ["SQLite", "files"][kind]);
        assert!(killed > 0, "{command:?}");
    }
}

fn check(kept: &Kept, outcome: Outcome, found: &BTreeMap<String, Vec<String>>, told: &str) {
    if !matches!(outcome, Outcome::Fewer) {
        for id in &kept.ids {
            assert!(found.contains_key(id), "{told}: {found:?}");
        }
    }
    for (id, said) in found {
        let is_shorter = matches!(outcome, Outcome::Shorter) && *id == kept.ids[0];
        let is_right = said == &TURNS || is_shorter && said == &TURNS[..2];
        assert!(is_right, "{told}: {id} {said:?}");
    }
}

#[test]
fn pruning_that_is_killed_leaves_whole_sessions_and_can_be_done_again() {
    command_killed(&["prune", "--older-than", "1ms"], Outcome::Fewer, None);
}

#[test]
fn deleting_that_is_killed_leaves_whole_sessions_and_can_be_done_again() {
    command_killed(&["delete", "{0}", "--yes"], Outcome::Fewer, None);
}

#[test]
fn a_fork_that_is_killed_is_there_as_a_whole_or_not_at_all() {
    command_killed(&["fork", "{0}"], Outcome::Same, None);
}

#[test]
fn a_rewind_that_is_killed_happened_or_did_not() {
    command_killed(&["rewind", "{0}", "1"], Outcome::Shorter, None);
}

#[test]
fn an_import_that_is_killed_is_there_as_a_whole_or_not_at_all() {
    command_killed(&["import", "../exported", "--id", "{0}-new"], Outcome::Named, None);
}

#[test]
fn an_export_that_is_killed_leaves_no_part_of_a_file_and_can_be_done_again() {
    command_killed(&["export", "{0}", "../made"], Outcome::Same, Some("made"));
}

#[test]
fn a_backup_that_is_killed_leaves_no_part_of_a_store_and_can_be_done_again() {
    command_killed(&["backup", "../made"], Outcome::Same, Some("made"));
}

#[test]
fn a_check_that_is_killed_changes_nothing() {
    command_killed(&["check", "--repair"], Outcome::Same, None);
}

/// Damages a store: the beginning of the file, or the middle of the first session's log.
fn damage(kept: &Kept) {
    let copy = kept.place.world.path("copy");
    if kept.kind == 0 {
        let mut bytes = fs::read(&copy).unwrap();
        bytes[..512].fill(0);
        fs::write(copy, bytes).unwrap();
    } else {
        let log = copy.join("sessions").join(&kept.ids[0]).join("log");
        let mut bytes = fs::read(&log).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(log, bytes).unwrap();
    }
}

/// Returns `true` if a file or directory holds what begins so.
fn holds(folder: &std::path::Path, beginning: &str) -> bool {
    let names = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
    names.into_iter().any(|it| it.to_str().unwrap().starts_with(beginning))
}

#[test]
fn a_repair_that_is_killed_loses_nothing_that_can_be_read_and_can_be_done_again() {
    if !can_kill() {
        return;
    }
    for kind in [0, 1] {
        let kept = Kept::new(kind);
        let repair = |store: &str| {
            kept.place.world.command(&["sessions", "check", "--repair", "--store", store])
        };
        let damaged = || {
            kept.remove("copy");
            let store = kept.copy();
            damage(&kept);
            store
        };
        let mut killed = 0;
        for instant in instants(&repair(&damaged()), 3) {
            let store = damaged();
            if killed_at(&repair(&store), instant).is_none() {
                continue;
            }
            killed += 1;
            let told = format!("{kind} {instant:?}");
            let again = kept.place.sessions(&["check", "--repair", "--store", &store]);
            assert_eq!(again.status, 0, "{told}: {again:?}");
            is_whole(&kept.place, &store, &told);
            let said = kept.said(&store, &told);
            assert_eq!(said[&kept.ids[1]], TURNS, "{told}");
            let first = &said[&kept.ids[0]];
            assert!(TURNS.starts_with(&first.iter().map(String::as_str).collect::<Vec<_>>()));
            // What was damaged is kept as it was.
            let home = kept.place.world.path("");
            let log = home.join("copy/sessions").join(&kept.ids[0]);
            let (folder, aside) =
                if kind == 0 { (home, "copy.damaged-1") } else { (log, "log.damaged-1") };
            assert!(holds(&folder, aside), "{told}");
            assert!(kind == 1 || *first == TURNS, "{told}: {first:?}");
        }
        println!("a repair in {}: killed {killed} times", ["SQLite", "files"][kind]);
        assert!(killed > 0);
    }
}
