//! Sessions that lost something.

use std::fs;

use super::{Place, answers, said};

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
    assert!(shown.stderr.contains("are torn: its last write is missing\n"), "{}", shown.stderr);
    let accept = format!("loopwright sessions resume {}", &id[..8]);
    assert!(shown.stderr.trim_end().ends_with(&accept), "{}", shown.stderr);
    let refused = place.run(&["--store", &store, "-c", "3?"]);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("its last write is missing"), "{}", refused.stderr);
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
