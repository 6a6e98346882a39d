//! Signals, and readers that go away.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::{Reply, Server};
use crate::world::World;

fn kill(signal: &str, child: &Child) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
}

/// Starts a run against a provider that gives this reply, and waits for its request.
fn start(world: &World, reply: Reply, options: &[&str]) -> (Child, Server) {
    let server = Server::start([reply]);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let child = world.start(&[&model, options, &["x"]].concat());
    server.request();
    (child, server)
}

#[test]
fn an_interrupt_cancels_cleanly_and_ends_with_130() {
    let world = World::new();
    let (child, _server) = start(&world, Reply::Nothing, &["--json"]);
    kill("-INT", &child);
    let done = world.done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 130, "{}", done.stderr);
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["status"]), (&"result".into(), &"stopped".into()));
    assert_eq!((&last["stop_reason"], &last["exit_code"]), (&"user_requested".into(), &130.into()));
}

#[test]
fn a_signal_before_a_run_begins_is_its_result_too() {
    let world = World::new();
    let server = Server::start([Reply::Nothing]);
    // The provider is asked which models it has.
    let child = world.start(&["run", "--base-url", &server.url, "--json", "x"]);
    server.request();
    kill("-INT", &child);
    let done = world.done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 130, "{done:?}");
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["exit_code"]), (&"result".into(), &130.into()));
    assert_eq!(last["stop_reason"], "user_requested");
}

#[test]
fn a_termination_cancels_cleanly_and_ends_with_143() {
    let world = World::new();
    let (child, _server) = start(&world, Reply::Nothing, &["--output-format", "json"]);
    kill("-TERM", &child);
    let done = world.done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 143, "{}", done.stderr);
    assert!(done.stdout.contains(r#""stop_reason":"terminated""#), "{}", done.stdout);
}

#[test]
fn a_terminal_that_goes_away_ends_a_run_as_a_termination_does() {
    let world = World::new();
    let (child, _server) = start(&world, Reply::Nothing, &["--output-format", "json"]);
    kill("-HUP", &child);
    let done = world.done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 143, "{}", done.stderr);
    assert!(done.stdout.contains(r#""stop_reason":"terminated""#), "{}", done.stdout);
}

#[test]
fn a_second_interrupt_ends_at_once_while_the_output_is_blocked() {
    let world = World::new();
    let (mut child, _server) = start(&world, Reply::Flood(1 << 20), &[]);
    let began = Instant::now();
    let status = loop {
        kill("-INT", &child);
        std::thread::sleep(Duration::from_millis(20));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "it does not end");
    };
    assert_eq!(status.code(), Some(130));
}

#[test]
fn a_reader_that_has_read_enough_ends_the_run_quietly() {
    let world = World::new();
    let (mut child, _server) = start(&world, Reply::Flood(1 << 20), &["-C", "."]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), "x".repeat(99));
    let done = world.done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(!done.stderr.contains("error"), "{}", done.stderr);
}
