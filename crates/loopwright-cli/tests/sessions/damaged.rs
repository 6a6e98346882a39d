//! Sessions that lost something.

use std::fs;

use super::{Place, answers, said};
use crate::server::{streamed, streamed_call};

/// A session of two turns in files. Returns it and its log.
fn two_turns() -> (Place, String, String, std::path::PathBuf) {
    let place = Place::new(answers(["one", "two", "three"]));
    let kept = place.world.path("kept");
    let store = format!("files:{}", kept.display());
    let id = place.ran(&["--store", &store, "1?"]);
    place.ran(&["--store", &store, "-c", "2?"]);
    let log = kept.join("sessions").join(&id).join("log");
    (place, store, id, log)
}

#[test]
fn a_session_that_lost_its_end_is_shown_with_the_loss_and_runs_once_that_is_accepted() {
    let (place, store, id, log) = two_turns();
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() - 9]).unwrap();
    let shown = place.sessions(&["show", "--store", &store, &id]);
    assert_eq!(shown.status, 0, "{}", shown.stderr);
    let loss = format!("warning: session {} is incomplete: the last ", &id[..8]);
    assert!(shown.stderr.starts_with(&loss), "{}", shown.stderr);
    assert!(
        shown.stderr.contains("are incomplete: the last write is missing\n"),
        "{}",
        shown.stderr
    );
    let accept = format!("loopwright sessions resume {}", &id[..8]);
    assert!(shown.stderr.trim_end().ends_with(&accept), "{}", shown.stderr);
    let refused = place.run(&["--store", &store, "-c", "3?"]);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("the last write is missing"), "{}", refused.stderr);
    assert!(refused.stderr.contains(&accept), "{}", refused.stderr);
    let accepted = place.sessions(&["resume", "--store", &store, &id]);
    assert_eq!(accepted.status, 0, "{}", accepted.stderr);
    let done = place.run(&["--store", &store, "-c", "3?"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(!place.sessions(&["show", "--store", &store, &id]).stderr.contains("incomplete"));
}

#[test]
fn the_intact_steps_of_a_session_with_damage_in_its_middle_are_shown() {
    let (place, store, id, log) = two_turns();
    let mut bytes = fs::read(&log).unwrap();
    let asked = bytes.windows(4).position(|it| it == b"\"1?\"").unwrap();
    bytes[asked + 1] ^= 1;
    // The first record holds the session; what was said first comes with it or right after it.
    let records = bytes.windows(4).enumerate().filter(|(_, it)| *it == b"\xfeLWf");
    let second = records.map(|(place, _)| place).nth(1).unwrap();
    if asked < second {
        bytes[asked + 1] ^= 1;
        bytes[second + 60] ^= 1;
    }
    fs::write(&log, &bytes).unwrap();
    let shown = place.sessions(&["show", "--store", &store, &id]);
    assert_eq!(shown.status, 1, "{}", shown.stderr);
    assert!(shown.stdout.contains("\n> 2?\n\ntwo\n"), "{}", shown.stdout);
    assert!(shown.stderr.contains("is damaged at byte"), "{}", shown.stderr);
    let shown = place.json(&["show", "--store", &store, &id]);
    assert!(said(&shown).ends_with(&["2?".to_owned(), "two".to_owned()]), "{shown}");
    assert_eq!(shown["gaps"].as_array().unwrap().len(), 1, "{shown}");
    assert!(shown["missing"].as_str().unwrap().contains("is damaged at byte"), "{shown}");
}

#[test]
fn a_database_holds_everything_by_itself_once_the_program_ended() {
    let place = Place::new(answers(["one"]));
    let id = place.ran(&["1?"]);
    let state = place.world.path(".local/state/loopwright");
    let names = fs::read_dir(&state).unwrap().map(|it| it.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["sessions.db"]);
    let copy = place.world.path("copy.db");
    fs::copy(state.join("sessions.db"), &copy).unwrap();
    let store = format!("sqlite:{}", copy.display());
    assert_eq!(said(&place.json(&["show", "--store", &store, &id])), ["1?", "one"]);
}

#[test]
fn a_backup_is_a_store_and_replaces_nothing() {
    let place = Place::new(answers(["one", "two"]));
    for kind in ["sqlite", "files"] {
        let at = |name: &str| format!("{kind}:{}", place.world.path(name).display());
        let store = at(kind);
        let id = place.ran(&["--store", &store, "1?"]);
        let to = format!("../copy-of-{kind}");
        let done = place.sessions(&["backup", "--store", &store, &to]);
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert_eq!(done.stderr, format!("copied all sessions to /project/../copy-of-{kind}\n"));
        let copy = at(&format!("copy-of-{kind}"));
        assert_eq!(said(&place.json(&["show", "--store", &copy, &id])).first().unwrap(), "1?");
        assert_eq!(place.sessions(&["check", "--store", &copy]).status, 0);
        assert_eq!(place.sessions(&["backup", "--store", &store, &to]).status, 1);
    }
}

#[test]
fn a_run_whose_store_is_deleted_fails_and_says_so() {
    let wait = "until [ -e go ]; do sleep 0.02; done";
    let place = Place::new([streamed_call("", wait), streamed("done", "stop")]);
    let child = place.world.start(&place.line(&["1?"]));
    place.server.request();
    let state = place.world.path(".local/state/loopwright");
    for entry in fs::read_dir(&state).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    fs::write(place.world.path("project/go"), "").unwrap();
    let done = place.world.done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stderr.contains("was deleted or replaced while in use"), "{}", done.stderr);
}

#[test]
fn an_id_prefix_finds_a_session_and_an_ambiguous_one_names_both() {
    let place = Place::new(answers(["one"]));
    let id = place.ran(&["1?"]);
    let export = place.sessions(&["export", &id]).stdout;
    for name in ["xyz-1", "xyz-2"] {
        place.world.run_with(&["sessions", "import", "-", "--id", name], &export);
    }
    assert_eq!(place.sessions(&["show", "xyz-1"]).status, 0);
    assert_eq!(place.sessions(&["show", &id[..8]]).status, 0);
    let done = place.sessions(&["show", "xy"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
    assert!(
        done.stderr.contains("use more of its characters\n  xyz-1 1?\n  xyz-2 1?\n"),
        "{}",
        done.stderr
    );
    assert_eq!(place.sessions(&["show", "xyx"]).status, 2);
}

#[test]
fn sessions_on_a_read_only_disk_are_listed_shown_and_checked() {
    let unshared = |script: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-rm", "sh", "-c", script]).stdin(std::process::Stdio::null());
        command.output()
    };
    if !unshared("true").is_ok_and(|it| it.status.success()) {
        println!("skipped: this user may make no namespaces");
        return;
    }
    let place = Place::new(answers(["one", "two"]));
    let kept = place.world.path("kept");
    fs::create_dir(&kept).unwrap();
    for (kind, name) in [("sqlite", "sessions.db"), ("files", "sessions")] {
        let store = format!("{kind}:{}/{name}", kept.display());
        let id = place.ran(&["--store", &store, "1?"]);
        fs::remove_file(kept.join("sessions/lock")).ok();
        fs::remove_file(kept.join("sessions/index.lock")).ok();
        let program = env!("CARGO_BIN_EXE_loopwright");
        let (kept, home) = (kept.display(), place.world.path(""));
        for command in ["list --all".to_owned(), format!("show {id}"), "check".to_owned()] {
            let script = format!(
                "set -e; mount --bind {kept} {kept}; mount -o remount,ro,bind {kept}
                if touch {kept}/x; then exit 99; fi
                HOME={} exec {program} sessions {command} --store {store}",
                home.display()
            );
            let done = unshared(&script).unwrap();
            let stderr = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(0), "{kind} {command}: {stderr}");
            let shown = String::from_utf8_lossy(&done.stdout);
            assert!(command == "check" || shown.contains("1?"), "{kind} {command}: {shown}");
        }
    }
}
