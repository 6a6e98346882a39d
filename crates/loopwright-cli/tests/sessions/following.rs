//! Watching from another terminal.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};

use serde_json::Value;

use super::{Place, answers};
use crate::server::{Reply, streamed, streamed_call};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn status(line: &Value) -> Option<&str> {
    line["payload"]["status"].as_str()
}

#[test]
fn the_latest_run_of_a_session_is_shown_from_its_beginning() {
    let again = streamed("It is there.", "stop");
    let [one] = answers(["one"]);
    let place = Place::new([one, streamed_call("Let me see.", "true"), again]);
    let id = place.ran(&["1?"]);
    place.ran(&["-r", &id, "2?"]);
    let done = place.sessions(&["follow", &id]);
    assert_eq!(
        (done.status, done.stdout.as_str()),
        (0, "Let me see.\nIt is there.\n"),
        "{}",
        done.stderr
    );
    assert!(done.stderr.starts_with("  ✓ bash command: 'true' · "), "{}", done.stderr);
}

#[test]
fn a_follower_reconnects_with_the_number_of_the_last_event() {
    let [one] = answers(["one"]);
    let place = Place::new([one]);
    let id = place.ran(&["1?"]);
    let whole = place.sessions(&["follow", &id, "--json", "--after", "0"]);
    let all = lines(&whole.stdout);
    let numbers: Vec<u64> = all.iter().map(|it| it["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    assert_eq!(status(&all[0]), Some("processing"));
    assert_eq!(status(all.last().unwrap()), Some("completed"));
    assert!(all.iter().all(|it| it["session_id"] == *id));
    for after in [1, all.len() - 1, all.len()] {
        let rest = place.sessions(&["follow", &id, "--json", "--after", &after.to_string()]);
        assert_eq!((rest.status, lines(&rest.stdout)), (0, all[after..].to_vec()));
    }
}

/// Starts watching, and waits until the run is seen.
fn watch(place: &Place, id: &str) -> (Child, Value) {
    let mut watcher = place.world.start(&["sessions", "follow", id, "--json"]);
    let mut line = String::new();
    BufReader::new(watcher.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (watcher, serde_json::from_str(&line).unwrap())
}

#[test]
fn a_run_continues_without_its_follower() {
    let [one] = answers(["one"]);
    let place = Place::new([one, Reply::Nothing]);
    let id = place.ran(&["1?"]);
    place.server.request();
    let mut run = place.world.start(&place.line(&["-r", &id, "2?"]));
    place.server.request();
    // Until the run has told something, its predecessor is the latest.
    let (watcher, first) = loop {
        let (mut watcher, first) = watch(&place, &id);
        if first["seq"].as_u64().unwrap() > 1 {
            break (watcher, first);
        }
        watcher.wait().unwrap();
    };
    assert_eq!(status(&first), Some("processing"));
    Command::new("kill").args(["-INT", &watcher.id().to_string()]).status().unwrap();
    assert_eq!(place.world.done(watcher.wait_with_output().unwrap()).status, 130);
    assert!(run.try_wait().unwrap().is_none(), "the run ended with the watching");
    let (watcher, again) = watch(&place, &id);
    assert_eq!(again, first);
    place.sessions(&["cancel", &id]);
    let seen = place.world.done(watcher.wait_with_output().unwrap());
    assert_eq!(seen.status, 0, "{}", seen.stderr);
    assert_eq!(status(lines(&seen.stdout).last().unwrap()), Some("cancelled"));
    assert_eq!(place.world.done(run.wait_with_output().unwrap()).status, 130);
}

#[test]
fn following_ends_when_the_running_process_has_exited() {
    let place = Place::new([Reply::Nothing]);
    let mut run = place.world.start(&place.line(&["1?"]));
    place.server.request();
    let id = place.json(&["list"])["sessions"][0]["id"].as_str().unwrap().to_owned();
    Command::new("kill").args(["-KILL", &run.id().to_string()]).status().unwrap();
    run.wait().unwrap();
    let done = place.sessions(&["follow", &id]);
    let expect = format!(
        "error: the process running session {0} exited before the run finished; resume it with \
         `loopwright run --resume {0}`\n",
        &id[..8]
    );
    assert_eq!((done.status, done.stderr), (1, expect));
}

#[test]
fn following_after_an_unknown_event_is_an_error() {
    let [one] = answers(["one"]);
    let place = Place::new([one]);
    let id = place.ran(&["1?"]);
    let done = place.sessions(&["follow", &id, "--after", "999"]);
    assert_eq!(done.status, 2);
    assert!(done.stderr.contains("unknown event 999 of session "), "{}", done.stderr);
}

#[test]
fn events_are_shown_in_lines_and_then_the_answer() {
    let [one] = answers(["one"]);
    let place = Place::new([one]);
    let done = place.run(&["--output-format", "events", "1?"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let label = |it: &str| it.split("] [").nth(1).map_or("", |it| &it[..4]).to_owned();
    let labels: Vec<String> = done.stdout.lines().map(label).collect();
    assert_eq!(labels, ["EXEC", "STEP", "LLM ", "LLM ", "STEP", "EVAL", "DONE", ""]);
    assert_eq!(done.stdout.lines().last(), Some("one"));
}
