//! The demonstration, word for word.

use std::path::Path;

use serde_json::Value;

use crate::world::{World, redact};

/// Names the folder that was made for it always the same.
fn settled(text: &str) -> String {
    let Some(at) = text.find("loopwright-demo-") else { return text.to_owned() };
    let name = &text[at..at + "loopwright-demo-".len() + 8];
    let text = text.replace(name, "loopwright-demo-X");
    let bytes = text.split('(').nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    if bytes.is_empty() { text } else { text.replace(&format!("({bytes} "), "(N ") }
}

#[test]
fn the_demonstration_reads_like_this() {
    let done = installed().run(&["demo"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(done.stdout, include_str!("demo.stdout"));
    let stderr = settled(&redact(&done.stderr));
    assert_eq!(stderr, include_str!("demo.stderr"), "{stderr}");
    assert!(stderr.lines().all(|line| line.chars().count() <= 80), "{stderr}");
}

/// A user in whose `PATH` the program is.
fn installed() -> World {
    let program = Path::new(env!("CARGO_BIN_EXE_loopwright"));
    World::new().env("PATH", &format!("/usr/bin:{}", program.parent().unwrap().display()))
}

#[test]
fn a_program_that_is_not_installed_is_named_by_its_path() {
    let done = World::new().run(&["demo"]);
    let line = format!("\n  {} run -C ", env!("CARGO_BIN_EXE_loopwright"));
    assert!(done.stderr.contains(&line), "{}", done.stderr);
}

#[test]
fn the_state_of_the_demonstration_is_kept_where_it_says() {
    let world = World::new();
    let done = world.run(&["demo"]);
    let line = done.stderr.lines().find(|line| line.ends_with("/state.json")).unwrap();
    let path = world.path(line.trim().trim_start_matches('/'));
    let state: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(state["executions"], 2);
}

#[test]
fn a_folder_of_the_user_is_shown_as_it_is() {
    let done = World::new().run(&["demo", "-C", "."]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("✓ read_file a.txt"), "{}", done.stderr);
    assert!(done.stderr.contains("       1  one\n"), "{}", done.stderr);
    let done = World::new().run(&["demo", "-C", "missing"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
}

#[test]
fn a_quiet_demonstration_prints_two_answers() {
    let done = World::new().run(&["demo", "-q", "--output-format", "stream-json"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let lines: Vec<Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|it| &it["type"]).collect::<Vec<_>>(), ["result", "result"]);
}
