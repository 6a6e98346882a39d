//! Questions of the model: how users answer and decline, and runs without a user.

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_tool};
use crate::terminal::Terminal;
use crate::world::{Done, World};

const MODEL: [&str; 4] = ["run", "-m", "openai-compatible/test", "--base-url"];

fn asking(question: &Value) -> Vec<Reply> {
    vec![streamed_tool("", "ask_user", question), streamed("Done.", "stop")]
}

fn colors() -> Value {
    json!({ "question": "Which color?", "options": ["red", "blue"] })
}

fn run(replies: Vec<Reply>, on_ask: &str) -> (World, Done, Server) {
    let (world, server) = (World::new(), Server::start(replies));
    let options = ["--on-ask", on_ask, "--output-format", "json", "Go."];
    let done = world.run(&[&MODEL[..], &[&server.url], &options].concat());
    (world, done, server)
}

/// What the model reads as the result of its call.
fn told(server: &Server) -> Value {
    server.results().swap_remove(0)
}

/// The status of a run, and what the model reads, after a user typed lines, each after a text that is shown.
fn answered(question: &Value, lines: &[(&'static str, &'static str)]) -> (i32, Value) {
    let server = Server::start(asking(question));
    let world = World::at_terminal();
    let terminal =
        lines.iter().fold(Terminal::new(100), |it, (after, line)| it.typing(after, line));
    let seen = terminal.run(&world, &[&MODEL[..], &[&server.url], &["Go."]].concat());
    (seen.status, told(&server))
}

#[test]
fn a_question_is_answered_by_text_or_number_at_the_terminal_and_can_be_declined() {
    let text = json!({ "question": "Add tests?" });
    let hint = "type the answer";
    assert_eq!(answered(&colors(), &[("2 blue", "2")]), (0, "blue".into()));
    assert_eq!(
        answered(&colors(), &[(hint, "green"), ("answer with 1 or 2 (red, blue)", "red")]),
        (0, "red".into())
    );
    assert_eq!(answered(&text, &[(hint, "no")]), (0, "no".into()));
    let declined = "Blocked: the user declined to answer";
    assert_eq!(answered(&text, &[(hint, "/decline")]), (8, declined.into()));
}

#[test]
fn a_command_is_no_answer_to_a_question_and_a_backslash_makes_a_text_of_it() {
    let text = json!({ "question": "Add tests?" });
    let (hint, refused) = ("type the answer", "a question is waiting");
    assert_eq!(answered(&text, &[(hint, "/quit"), (refused, "\\/cost")]), (0, "/cost".into()));
    assert_eq!(answered(&text, &[(hint, "/mode plan"), (hint, "/tmp")]), (0, "/tmp".into()));
}

#[test]
fn a_question_is_shown_without_its_arguments() {
    let server = Server::start(asking(&colors()));
    let world = World::at_terminal();
    let line = [&MODEL[..], &[&server.url], &["Go."]].concat();
    let seen = Terminal::new(100).typing("2 blue", "2").run(&world, &line);
    assert!(seen.text().contains("Which color?"), "{}", seen.text());
    assert!(!seen.text().contains("\"options\""), "{}", seen.text());
}

#[test]
fn without_a_terminal_a_question_waits_is_declined_or_ends_the_run() {
    let (world, paused, server) = run(asking(&colors()), "pause");
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let report: Value = serde_json::from_str(&paused.stdout).unwrap();
    let pending = json!([{
        "call": "0", "request": report["pending"][0]["request"], "tool": "ask_user", "arguments": colors(), "question": "Which color?", "kind": "question",
        "schema": { "type": "string", "enum": ["red", "blue"] },
    }]);
    assert_eq!(report["pending"], pending);
    let id = report["session_id"].as_str().unwrap();
    let decide = |answer| world.run(&["sessions", "decide", id, "reply", answer]);
    assert_eq!(decide("green").status, 2);
    assert_eq!(decide("blue").status, 0);
    let line = [&MODEL[..], &[&server.url], &["--resume", id]].concat();
    let done = world.run(&line);
    assert_eq!((done.status, told(&server)), (0, "blue".into()), "{}", done.stderr);

    let (_, declined, server) = run(asking(&colors()), "deny");
    assert_eq!(declined.status, 8, "{}", declined.stderr);
    let reason = "the question was declined: no user is present; continue without an answer";
    assert_eq!(told(&server), format!("Blocked: {reason}"));
    let report: Value = serde_json::from_str(&declined.stdout).unwrap();
    let denied = json!([{ "tool": "ask_user", "arguments": colors(), "reason": reason }]);
    assert_eq!(report["denials"], denied);

    let (_, failed, _) = run(asking(&colors()), "fail");
    assert_eq!(failed.status, 8, "{}", failed.stderr);
    let report: Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!(report["denials"][0]["reason"], "`ask_user` needs an answer (Which color?)");
}

#[test]
fn a_worker_that_does_not_wait_declines_a_question_or_stops_the_job() {
    let declined =
        "Blocked: the question was declined: no user is present; continue without an answer";
    for (on_ask, counts, told_to_model) in [
        ("deny", "1 completed, 0 need input, 0 stopped", Some(declined)),
        ("fail", "0 completed, 0 need input, 1 stopped", None),
    ] {
        let (world, server) = (World::new(), Server::start(asking(&colors())));
        let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
        let submitted = world.run(&[&["submit"], &model[..], &["Go."]].concat());
        assert_eq!(submitted.status, 0, "{}", submitted.stderr);
        let worker = ["worker", "--exit-when-idle", "--on-ask", on_ask];
        let done = world.run(&[&worker[..], &model].concat());
        assert!(done.stderr.contains(counts), "{on_ask}: {}", done.stderr);
        match told_to_model {
            Some(text) => assert_eq!(told(&server), text),
            None => assert_eq!(server.heard().len(), 1),
        }
    }
}
