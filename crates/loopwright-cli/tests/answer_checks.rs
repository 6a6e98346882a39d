//! What `run` checks and keeps of an answer: `--schema`, `--output` and `--verify`.

use std::fs;

use serde_json::{Value, json};

use crate::server::{Reply, Server, error, streamed};
use crate::world::{Done, World};

const SCHEMA: &str =
    r#"{"type":"object","properties":{"files":{"type":"integer"}},"required":["files"]}"#;

/// Runs against a provider that gives these replies.
fn run(world: &World, replies: Vec<Reply>, options: &[&str]) -> (Done, Server) {
    let server = Server::start(replies);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    (world.run(&[&model, options, &["How many files?"]].concat()), server)
}

/// The result of a run in JSON.
fn report(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
}

#[test]
fn an_answer_that_matches_the_schema_is_printed_and_written() {
    let world = World::new().file("schema.json", SCHEMA);
    let replies = vec![streamed("There are 3 files.", "stop"), streamed(r#"{"files": 3}"#, "stop")];
    let (done, server) = run(&world, replies, &["--schema", "../schema.json", "-o", "../out.json"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "{\"files\":3}\n"), "{}", done.stderr);
    assert_eq!(fs::read_to_string(world.path("out.json")).unwrap(), "{\"files\":3}\n");
    let first = server.request();
    assert_eq!(first["response_format"]["type"], "json_schema", "{first}");
    let second = server.request().to_string();
    assert!(second.contains("There are 3 files.") && second.contains("JSON"), "{second}");
}

#[test]
fn a_schema_of_no_object_is_met_by_its_value() {
    let schema = r#"{"type":"array","items":{"type":"string"}}"#;
    let replies = vec![streamed(r#"{"value": ["a.txt"]}"#, "stop")];
    let options = ["--schema", schema, "--output-format", "json"];
    let (done, _server) = run(&World::new(), replies, &options);
    let report = report(&done);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(
        [&report["structured_output"], &report["text"]],
        [&json!(["a.txt"]), &json!(r#"["a.txt"]"#)]
    );
}

#[test]
fn a_run_whose_answers_do_not_match_ends_with_11_and_leaves_the_file_as_it_was() {
    let world = World::new().file("out.json", "old");
    let replies = vec![streamed(r#"{"files": "three"}"#, "stop"); 4];
    let options = ["--schema", SCHEMA, "--output", "../out.json", "--output-format", "json"];
    let (done, server) = run(&world, replies, &options);
    let report = report(&done);
    assert_eq!(done.status, 11, "{}", done.stderr);
    let ended = ["status", "stop_reason", "exit_code", "text"].map(|it| report[it].clone());
    assert_eq!(ended, [json!("stopped"), json!("schema_mismatch"), json!(11), json!("")]);
    assert_eq!(report.get("structured_output"), None);
    assert_eq!(fs::read_to_string(world.path("out.json")).unwrap(), "old");
    assert_eq!(server.heard().len(), 4);
    assert!(done.stderr.contains("is not of type \"integer\""), "{}", done.stderr);
}

#[test]
fn what_is_no_schema_or_no_place_for_an_answer_is_refused_before_the_run() {
    let cases = [
        ["--schema", r#"{"type": "objec"}"#, "not valid"],
        ["--schema", "{", "not JSON"],
        ["--schema", "missing.json", "cannot read the schema"],
        ["--output", "missing/out.txt", "in an existing directory"],
        ["--output", ".", "in an existing directory"],
    ];
    for [option, value, told] in cases {
        let (done, server) = run(&World::new(), Vec::new(), &[option, value]);
        assert_eq!(done.status, 2, "{}", done.stderr);
        assert!(done.stderr.contains(told), "{}", done.stderr);
        assert!(!server.was_asked());
    }
}

#[test]
fn the_verdict_of_the_command_is_in_the_result_and_in_the_exit_code() {
    let verified = |command: &str| {
        let replies = vec![streamed("One.", "stop")];
        let options = ["--verify", command, "--output-format", "json"];
        let (done, _server) = run(&World::new(), replies, &options);
        let report = report(&done);
        let mut verdict = report["verification"].clone();
        verdict.as_object_mut().unwrap().remove("duration_ms");
        (done.status, report["stop_reason"].clone(), report["text"].clone(), verdict)
    };
    let passed =
        json!({"command": "cat a.txt", "passed": true, "exit_code": 0, "output": "one\ntwo"});
    assert_eq!(verified("cat a.txt"), (0, json!("completed"), json!("One."), passed));
    let output = "Exit code: 3\n\nbroken";
    let command = "echo broken; exit 3";
    let failed = json!({"command": command, "passed": false, "exit_code": 3, "output": output});
    assert_eq!(verified(command), (12, json!("verify_failed"), json!("One."), failed));
}

#[test]
fn the_hint_of_a_run_that_waits_repeats_the_checks_of_its_answer() {
    let replies = vec![crate::server::streamed_call("", "touch new.txt")];
    let checks = ["--schema", SCHEMA, "-o", "../out.json", "--verify", "test -f new.txt"];
    let options = [&checks[..], &["--permission-mode", "ask"]].concat();
    let (done, _server) = run(&World::new(), replies, &options);
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let hint = format!(" --schema '{schema}' -o ../out.json --verify 'test -f new.txt'\n");
    assert_eq!((done.status, done.stderr.contains(&hint)), (9, true), "{}", done.stderr);
}

#[test]
fn a_complete_answer_is_written_and_verified_even_if_calls_before_it_were_denied() {
    let world = World::new();
    let replies = vec![crate::server::streamed_call("", "rm a.txt"), streamed("No.", "stop")];
    let checks = ["-o", "../out.txt", "--verify", "cat a.txt", "--output-format", "json"];
    let options = [&checks[..], &["--deny", "Bash(rm *)"]].concat();
    let (done, _server) = run(&world, replies, &options);
    let report = report(&done);
    let found = (done.status, &report["stop_reason"], &report["verification"]["passed"]);
    assert_eq!(found, (8, &json!("denied"), &json!(true)), "{}", done.stderr);
    assert_eq!(fs::read_to_string(world.path("out.txt")).unwrap(), "No.\n");
}

#[test]
fn the_command_runs_in_the_sandbox_and_sees_what_the_agent_wrote() {
    let world = World::new();
    let write = crate::server::streamed_tool(
        "",
        "write_file",
        &json!({"path": "new.txt", "content": "new"}),
    );
    let replies = vec![write, streamed("Written.", "stop")];
    let command = "cat new.txt && touch ../outside";
    let (done, _server) = run(&world, replies, &["--verify", command]);
    assert_eq!((done.status, done.stdout.as_str()), (12, "Written.\n"), "{}", done.stderr);
    assert!(done.stderr.contains("✗ verify cat new.txt"), "{}", done.stderr);
    assert!(done.stderr.contains("    new\n"), "{}", done.stderr);
    assert!(!world.path("outside").exists());
}

#[test]
fn what_the_sandbox_refused_of_a_command_that_passes_is_told() {
    let verified = |options: &[&str]| {
        let world = World::new();
        let options = [&["--verify", "echo x > .envrc; echo y > y.txt"], options].concat();
        let (done, _server) = run(&world, vec![streamed("One.", "stop")], &options);
        assert_eq!(done.status, 0, "{}", done.stderr);
        let there = [".envrc", "y.txt"].map(|it| world.path("project").join(it).exists());
        assert_eq!(there, [false, true], "{}", done.stderr);
        done
    };
    let shown = verified(&[]);
    assert!(shown.stderr.contains("✓ verify echo x"), "{}", shown.stderr);
    assert!(shown.stderr.contains("`.envrc`"), "{}", shown.stderr);
    let told = report(&verified(&["--output-format", "json"]))["verification"]["notes"].clone();
    assert!(told[0].as_str().unwrap().contains("`.envrc`"), "{told}");
}

#[test]
fn pipes_and_devices_are_refused_before_the_model_is_asked() {
    let world = World::new();
    for pipe in ["project/pipe.json", "project/pipe.png"] {
        let made = std::process::Command::new("mkfifo").arg(world.path(pipe)).status().unwrap();
        assert!(made.success());
    }
    for (option, file, told) in [
        ("--schema", "pipe.json", "it is a named pipe, not a regular file"),
        ("--schema", "/dev/zero", "it is a device, not a regular file"),
        ("--image", "pipe.png", "it is a named pipe, not a regular file"),
        ("--image", "/dev/zero", "it is a device, not a regular file"),
        ("-o", "pipe.json", "it is a named pipe, not a regular file"),
        ("-o", "/dev/zero", "it is a device, not a regular file"),
    ] {
        let (done, server) = run(&world, vec![], &[option, file]);
        assert!(done.status == 2 && done.stderr.contains(told), "{option} {file}: {done:?}");
        assert!(!server.was_asked());
    }
}

#[test]
fn what_another_program_prints_can_be_the_schema_and_take_the_answer() {
    let world = World::new();
    let server = Server::start([streamed(r#"{"value": [1]}"#, "stop")]);
    let line = format!(
        "loopwright run -m openai-compatible/test --base-url {} -q \
         --schema <(echo '{{\"type\": \"array\"}}') -o >(tr 1 2 > copy.json) 'Go on.' > answer.json; cat answer.json; \
         for n in $(seq 100); do [ -s copy.json ] && break; sleep 0.1; done; cat copy.json",
        server.url
    );
    let done = world.shell(&line);
    assert_eq!((done.status, done.stdout.as_str()), (0, "[1]\n[2]\n"), "{}", done.stderr);
}

#[test]
fn a_run_without_a_complete_answer_is_not_verified() {
    let world = World::new();
    let options = ["--verify", "touch ran", "--output-format", "json"];
    let (done, _server) = run(&world, vec![error(400, "no")], &options);
    let report = report(&done);
    assert_eq!((done.status, report.get("verification")), (5, None), "{}", done.stderr);
    assert!(!world.path("project/ran").exists());
}
