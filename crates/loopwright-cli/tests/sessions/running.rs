//! Sessions that somebody runs, or that were interrupted.

use std::fs;
use std::io::Read as _;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Place, answers, said};
use crate::server::{Reply, streamed, streamed_call};
use crate::terminal::Terminal;
use crate::world::{World, mark, until_asleep};

/// What the model reads before the reason if an interrupted call is not repeated.
const NOT_REPEATED: &str = "Blocked: the call was interrupted after it started, so its effects are unknown; it was not \
    repeated";

/// Starts a run in a session, and waits until the provider is asked.
fn start(place: &Place, id: &str, prompt: &str) -> Child {
    let child = place.world.start(&place.line(&["-r", id, prompt]));
    place.server.request();
    child
}

fn kill(signal: &str, child: &Child) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
}

#[test]
fn a_session_in_use_is_refused_and_who_uses_it_can_be_told() {
    let [one, two] = answers(["one", "two"]);
    let place = Place::new([one, Reply::Nothing, two]);
    let id = place.ran(&["1?"]);
    place.server.request();
    let child = start(&place, &id, "2?");
    let done = place.run(&["-r", &id, "3?"]);
    assert_eq!((done.status, done.stdout.as_str()), (7, ""));
    let who = format!("is in use by process {}", child.id());
    assert!(done.stderr.contains(&who) && done.stderr.contains("--steer"), "{}", done.stderr);
    assert_eq!(last_run(&place), "running");
    let mut chat = place.line(&[]);
    chat[0] = "chat";
    let chosen = place.world.run_with(&chat, "/resume\n\n");
    assert!(chosen.stderr.contains("1?  (running)\n"), "{}", chosen.stderr);
    let done = place.run(&["-r", &id, "--json", "3?"]);
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["exit_code"], &last["stop_reason"]), (&7.into(), &"busy".into()));
    for line in [&["rewind", &id, "0"][..], &["suspend", &id]] {
        assert_eq!(place.sessions(line).status, 7, "{line:?}");
    }
    let done = place.run(&["-r", &id, "--steer", "3?"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("message sent to the running session"), "{}", done.stderr);
    let done = place.sessions(&["cancel", &id]);
    assert!(done.stderr.contains("will stop now; the run belongs to process "), "{}", done.stderr);
    let ended = place.world.done(child.wait_with_output().unwrap());
    assert_eq!(ended.status, 130, "{}", ended.stderr);
    assert_eq!(said(&place.shown(&id)), ["1?", "one", "2?", "3?"]);
    assert_eq!(last_run(&place), "stopped");
}

/// How the last run of the only session ended, as the list says.
fn last_run(place: &Place) -> String {
    let listed = place.sessions(&["list", "--json"]).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    listed["sessions"][0]["last_run"].as_str().unwrap().to_owned()
}

#[test]
fn an_answer_that_was_interrupted_is_shown_as_far_as_it_came() {
    let place = Place::new([Reply::Flood(100)]);
    let mut child = place.world.start(&place.line(&["1?"]));
    let mut begun = [0; 10];
    child.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    kill("-INT", &child);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    let listed = place.sessions(&["list", "--json"]).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let words = said(&place.shown(listed["sessions"][0]["id"].as_str().unwrap()));
    let [asked, came] = &words[..] else { panic!("{words:?}") };
    let begun = String::from_utf8(begun.to_vec()).unwrap();
    assert!(came.starts_with(begun.trim_end()), "{came}");
    assert!(came.ends_with("\n\n[interrupted by the user]"), "{came}");
    assert_eq!(asked, "1?");
}

#[test]
fn a_killed_run_continues_without_a_message() {
    let [one, two] = answers(["one", "two"]);
    let place = Place::new([one, Reply::Nothing, two]);
    let id = place.ran(&["1?"]);
    place.server.request();
    let mut child = start(&place, &id, "2?");
    kill("-KILL", &child);
    child.wait().unwrap();
    let shown = place.sessions(&["show", &id]).stdout;
    assert!(shown.contains("interrupted in step 2\n"), "{shown}");
    assert_eq!(last_run(&place), "incomplete");
    let began = Instant::now();
    let done = place.run(&["--resume", &id]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "two\n"), "{}", done.stderr);
    // The lease of who is gone is not waited for.
    assert!(began.elapsed() < Duration::from_secs(25));
    assert_eq!(said(&place.shown(&id)), ["1?", "one", "2?", "two"]);
    let done = place.run(&["--continue"]);
    assert_eq!(done.status, 2);
    assert!(done.stderr.contains("has no unfinished work"), "{}", done.stderr);
    assert!(!done.stderr.contains("resume with"), "{}", done.stderr);
}

/// Kills a run in a command that may have done anything, because there is no sandbox.
fn killed_in_a_command() -> Place {
    let world = World::new().env("TERM", "xterm-256color").file(
        ".config/loopwright/config.toml",
        "[sandbox]\nbackend = \"host\"\n[permissions]\nmode = \"unconfined\"\n",
    );
    let slow = "touch begun; sleep 1000";
    let again = streamed("I see.", "stop");
    let place = Place::within(world, [streamed_call("", slow), again]);
    let mut child = place.world.start(&place.line(&["go"]));
    place.server.request();
    let begun = place.world.path("project/begun");
    while !begun.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill("-KILL", &child);
    child.wait().unwrap();
    place
}

#[test]
fn a_call_that_was_interrupted_is_decided_about() {
    let place = killed_in_a_command();
    let done = place.run(&["--continue", "--on-interrupted", "require-decision"]);
    assert_eq!(done.status, 9, "{}", done.stderr);
    assert!(done.stderr.contains("decide with: loopwright sessions decide "), "{}", done.stderr);
    let id = place.json(&["list"])["sessions"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(place.shown(&id)["pending"][0]["tool"], "bash");
    let shown = place.sessions(&["show", &id]).stdout;
    assert!(shown.contains(" 0 retry|done [RESULT]|skip|stop"), "{shown}");
    assert_eq!(place.sessions(&["decide", &id, "maybe"]).status, 2);
    assert_eq!(place.sessions(&["decide", &id, "5", "deny"]).status, 2);
    let listed = place.world.run(&["approvals", "--json"]).stdout;
    assert!(listed.contains(r#""kind":"interrupted""#), "{listed}");
    assert_eq!(place.sessions(&["decide", &id, "skip"]).status, 0);
    assert_eq!(place.sessions(&["decide", &id, "skip"]).status, 2);
    let done = place.run(&["--continue"]);
    assert_eq!((done.status, done.stdout.as_str()), (8, "I see.\n"), "{}", done.stderr);
    let told = place.asked().pop().unwrap();
    assert_eq!(told, format!("{NOT_REPEATED}: the user decided not to repeat the call"));
}

#[test]
fn a_terminal_asks_about_an_interrupted_call_before_the_run_continues() {
    let place = killed_in_a_command();
    let model = ["chat", "-m", "openai-compatible/test", "--base-url", &place.server.url];
    let terminal = Terminal::new(100)
        .typing("type /continue", "/continue")
        .typing("1 run it again", "3 Look first.")
        .typing("I see.", "/quit");
    let seen = terminal.run(&place.world, &[&model[..], &["--continue"]].concat());
    assert_eq!(seen.status, 0, "{}", seen.text());
    let told = place.asked().pop().unwrap();
    assert_eq!(told, format!("{NOT_REPEATED}: Look first."), "{}", seen.text());
}

#[test]
fn a_run_that_is_interrupted_by_the_user_is_kept() {
    let place = Place::new([Reply::Nothing, streamed("two", "stop")]);
    let child = place.world.start(&place.line(&["1?"]));
    place.server.request();
    kill("-INT", &child);
    let done = place.world.done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 130);
    assert!(done.stderr.contains("resume with: loopwright run --resume "), "{}", done.stderr);
    let done = place.run(&["--continue", "2?"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "two\n"), "{}", done.stderr);
}

#[test]
fn a_run_that_stopped_or_failed_before_its_answer_continues_without_a_message() {
    let [one] = answers(["one"]);
    let refused = Reply::Whole(400, serde_json::json!({"error": {"message": "no"}}));
    let place = Place::new([Reply::Nothing, refused, one]);
    let child = place.world.start(&place.line(&["1?"]));
    place.server.request();
    kill("-INT", &child);
    assert_eq!(place.world.done(child.wait_with_output().unwrap()).status, 130);
    let done = place.run(&["--continue"]);
    assert_eq!(done.status, 5, "{}", done.stderr);
    let done = place.run(&["--continue"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "one\n"), "{}", done.stderr);
    let id = place.json(&["list"])["sessions"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(said(&place.shown(&id)), ["1?", "one"]);
}

#[test]
fn a_run_that_a_limit_ended_continues_without_a_message() {
    let [one] = answers(["one"]);
    let place = Place::new([streamed_call("", "true"), one]);
    let done = place.run(&["--max-steps", "1", "1?"]);
    assert_eq!(done.status, 6, "{}", done.stderr);
    let done = place.run(&["--continue"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "one\n"), "{}", done.stderr);
    let id = place.json(&["list"])["sessions"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(said(&place.shown(&id)), ["1?", "", "one"]);
}

#[test]
fn a_session_that_is_deleted_while_it_runs_is_told_so() {
    let mark = mark();
    let place = Place::new([streamed_call("", &format!("sleep {mark}"))]);
    let child = place.world.start(&place.line(&["go"]));
    place.server.request();
    until_asleep(&mark);
    let id = place.json(&["list"])["sessions"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(place.sessions(&["delete", &id, "--yes"]).status, 0);
    // The command would continue for ever.
    let done = place.world.done(child.wait_with_output().unwrap());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stderr.contains("was deleted during its run"), "{}", done.stderr);
}

#[test]
fn an_imported_run_that_was_interrupted_waits_to_be_allowed() {
    let mark = mark();
    let slow = format!("[ -e flag ] || sleep {mark}");
    let place = Place::new([streamed_call("", &slow), streamed("I see.", "stop")]);
    let mut child = place.world.start(&place.line(&["go"]));
    place.server.request();
    until_asleep(&mark);
    fs::write(place.world.path("project/flag"), "").unwrap();
    kill("-KILL", &child);
    child.wait().unwrap();
    let id = place.json(&["list"])["sessions"][0]["id"].as_str().unwrap().to_owned();
    let export = place.sessions(&["export", &id]);
    let done = place.world.run_with(&["sessions", "import", "-", "--id", "b"], &export.stdout);
    assert_eq!((done.status, done.stdout.as_str()), (0, "b\n"), "{}", done.stderr);
    assert!(done.stderr.contains("`loopwright sessions resume b`"), "{}", done.stderr);
    assert_eq!(place.run(&["-r", "b"]).status, 2);
    assert_eq!(place.sessions(&["resume", "b"]).status, 0);
    let done = place.run(&["-r", "b"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "I see.\n"), "{}", done.stderr);
}
