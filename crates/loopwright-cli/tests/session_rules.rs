//! Rules that the user chooses for one session.

use serde_json::{Value, json};

use crate::prompt_line::{chatting, done};
use crate::server::{Reply, Server, streamed, streamed_call};
use crate::terminal::Terminal;
use crate::world::{Done, World};

const RULE: &str = "allow Bash(rm a.txt) in ";

fn removing() -> [Reply; 2] {
    [streamed_call("", "rm a.txt"), streamed("Done.", "stop")]
}

fn run(world: &World, options: &[&str]) -> Done {
    std::fs::write(world.path("project/a.txt"), "x").unwrap();
    let server = Server::start(removing());
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let ask = ["--permission-mode", "ask", "--output-format", "json"];
    world.run(&[&model[..], &ask, options].concat())
}

fn session(done: &Done) -> String {
    let report: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    report["session_id"].as_str().unwrap().to_owned()
}

/// Returns a world in which a rule was chosen for a session, and the session.
fn chosen() -> (World, String) {
    let world = World::new().file("project/a.txt", "x");
    let paused = run(&world, &["Go."]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let id = session(&paused);
    let decide = |what: &[&str]| world.run(&[&["sessions", "decide", &id], what].concat());
    let unconfirmed = decide(&["approve", "--session"]);
    assert_eq!((unconfirmed.status, unconfirmed.stderr.contains(RULE)), (2, true));
    let done = decide(&["approve", "--session", "--yes"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let told = format!("for the rest of the session: {RULE}");
    assert!(done.stderr.contains(&told), "{}", done.stderr);
    (world, id)
}

#[test]
fn a_rule_that_was_chosen_for_a_session_holds_in_it_and_its_forks_and_in_no_other() {
    let (world, id) = chosen();
    for (options, status) in [
        (&["--resume", &id][..], 0),
        (&["--resume", &id, "Again."], 0),
        (&["--fork", &id, "Again."], 0),
        (&["Go."], 9),
    ] {
        let done = run(&world, options);
        let is_there = world.path("project/a.txt").exists();
        assert_eq!((done.status, is_there), (status, status == 9), "{options:?} {}", done.stderr);
    }
    assert!(!world.path(".config/loopwright/folders.toml").exists());
}

#[test]
fn restrictions_of_a_command_last_until_another_command_loosens_them() {
    let world = World::new().file("project/a.txt", "x");
    let commands = ["touch b.txt", "rm a.txt", "touch c.txt", "rm a.txt"];
    let calls = commands.map(|command| streamed_call("", command));
    let server = Server::start(calls.into_iter().chain([streamed("Done.", "stop")]));
    let go = |options: &[&str]| {
        let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        world.run(&[&model[..], &["--output-format", "json"], options].concat())
    };
    let there = || ["a.txt", "b.txt", "c.txt"].map(|it| world.path("project").join(it).exists());
    let restricted = ["--permission-mode", "ask", "--deny", "Bash(rm *)", "--tools", "Bash"];
    let paused = go(&[&restricted[..], &["Go."]].concat());
    assert_eq!((paused.status, there()), (9, [true, false, false]), "{}", paused.stderr);
    let id = session(&paused);
    let approve = || assert_eq!(world.run(&["sessions", "decide", &id, "approve"]).status, 0);
    approve();
    let resumed = go(&["--resume", &id]);
    assert_eq!((resumed.status, there()), (9, [true, true, false]), "{}", resumed.stderr);
    approve();
    let loosened = ["--permission-mode", "auto", "--allow", "Bash(rm *)", "--tools", "Bash,Read"];
    let done = go(&[&loosened[..], &["--resume", &id]].concat());
    assert_eq!((done.status, there()), (0, [false, true, true]), "{}", done.stderr);
    let tools = |body: &Value| -> Vec<String> {
        let tools = body["tools"].as_array().unwrap().iter();
        tools.map(|it| it["function"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let offered: Vec<_> = server.heard().iter().map(|(_, body)| tools(body)).collect();
    let commands = ["bash", "bash_start", "bash_read", "bash_stop"];
    assert_eq!(offered[..3], [commands, commands, commands]);
    assert!(offered[3].contains(&"read_file".to_owned()), "{:?}", offered[3]);
}

#[test]
fn an_imported_session_brings_no_rules() {
    let (world, id) = chosen();
    assert_eq!(run(&world, &["--resume", &id]).status, 0);
    let exported = world.run(&["sessions", "export", &id]).stdout;
    assert!(exported.contains("Bash(rm a.txt)"), "{exported}");
    let imported = world.run_with(&["sessions", "import", "-", "--id", "copy"], &exported);
    assert_eq!(imported.status, 0, "{}", imported.stderr);
    assert_eq!(run(&world, &["--resume", "copy", "Again."]).status, 9);
}

#[test]
fn a_worker_applies_the_rules_of_the_session() {
    let world = World::new().file("project/a.txt", "x");
    let replies = [streamed_call("", "rm a.txt"), streamed_call("", "rm a.txt")];
    let server = Server::start(replies.into_iter().chain([streamed("Done.", "stop")]));
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let submitted = world.run(&[&["submit"], &model[..], &["Go."]].concat());
    let (_, id) = submitted.stdout.trim().split_once(' ').unwrap();
    let work = || {
        let worker = ["worker", "--exit-when-idle", "--permission-mode", "ask"];
        world.run(&[&worker[..], &model].concat())
    };
    assert!(work().stderr.contains("1 need input"));
    let decided = world.run(&["sessions", "decide", id, "approve", "--session", "--yes"]);
    assert_eq!(decided.status, 0, "{}", decided.stderr);
    assert!(decided.stderr.ends_with("decided; a worker continues the job\n"), "{decided:?}");
    let worked = work();
    assert!(worked.stderr.contains("1 completed"), "{}", worked.stderr);
    assert_eq!(server.heard().len(), 3);
}

#[test]
fn a_worker_keeps_the_restrictions_of_the_session() {
    let world = World::new().file("project/a.txt", "x");
    let calls = ["touch b.txt", "rm a.txt", "touch c.txt"].map(|it| streamed_call("", it));
    let server = Server::start(calls);
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let restricted = ["--permission-mode", "ask", "--deny", "Bash(rm *)", "--tools", "Bash"];
    let run = [&["run", "Go.", "--output-format", "json"], &model[..], &restricted].concat();
    let paused = world.run(&run);
    assert_eq!(paused.status, 9, "{paused:?}");
    let id = session(&paused);
    assert_eq!(world.run(&["sessions", "decide", &id, "approve"]).status, 0);
    let submit = [&["submit", "--session", &id], &model[..]].concat();
    assert_eq!(world.run(&submit).status, 0);
    let worked = world.run(&[&["worker", "--exit-when-idle", "--json"], &model[..]].concat());
    let job: Value = serde_json::from_str(worked.stdout.lines().next().unwrap()).unwrap();
    let there = ["a.txt", "b.txt", "c.txt"].map(|it| world.path("project").join(it).exists());
    assert_eq!((&job["status"], there), (&json!("needs_input"), [true, true, false]), "{worked:?}");
    let tools = |request: &Value| {
        let tools = request["tools"].as_array().unwrap().iter();
        tools.map(|it| it["function"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let offered: Vec<_> = server.heard().iter().map(|(_, request)| tools(request)).collect();
    assert_eq!(offered, [["bash", "bash_start", "bash_read", "bash_stop"]; 3]);
}

#[test]
fn a_new_session_in_chat_asks_about_what_was_allowed_in_the_one_before() {
    let world = World::at_terminal().file("project/a.txt", "x");
    let server = Server::start([removing(), removing(), removing()].into_iter().flatten());
    let model = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url];
    let line = [&model[..], &["--permission-mode", "ask"]].concat();
    let terminal = Terminal::new(100)
        .typing("/help for help", "Go.")
        .typing("s this session", "s")
        .typing("Done.", "Again.")
        .typing("Done.", "/clear")
        .typing("new session", "Go.")
        .typing("1 yes", "3 no")
        .typing("Done.", "/quit");
    let seen = terminal.run(&world, &line);
    assert_eq!(server.heard().len(), 6, "{}", seen.text());

    let listed = world.run(&["sessions", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let steps = |at: usize| listed["sessions"][at]["id"].as_str().unwrap().to_owned();
    // The first session is the older one.
    assert_eq!(run(&world, &["--resume", &steps(1), "Again."]).status, 0);
    assert_eq!(run(&world, &["--resume", &steps(0), "Again."]).status, 9);
}

#[test]
fn approvals_show_the_folder_and_the_time_that_is_left_and_leave_out_what_has_expired() {
    let world = World::new().file("project/a.txt", "x");
    let late = run(&world, &["--answer-within", "0.001", "Go."]);
    assert_eq!(late.status, 9, "{}", late.stderr);
    let listed = || {
        let listed = world.run(&["approvals", "--json"]).stdout;
        serde_json::from_str::<Value>(&listed).unwrap()["sessions"].clone()
    };
    assert_eq!(listed(), json!([]));
    let waiting = run(&world, &["--answer-within", "90000", "Go."]);
    assert_eq!(listed()[0]["session"]["id"], session(&waiting));
    let shown = world.run(&["approvals"]).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 4, "{shown}");
    assert_eq!(lines[1], "  in /project");
    let asked = "  0  bash rm a.txt  (no rule matches, mode `ask`, 1day";
    assert!(lines[2].starts_with(asked) && lines[2].ends_with(" left)"), "{shown}");
}

#[test]
fn mode_without_a_name_in_the_dialog_chooses_no_mode_for_the_session() {
    let server = Server::start(removing());
    let config = ".config/loopwright/config.toml";
    let world = chatting(&server).file(config, "[permissions]\nmode = \"ask\"\n");
    let terminal = Terminal::new(100)
        .typing("/help for help", "Go")
        .typing("1 yes", "/mode")
        .typing("mode ask", "1")
        .typing("tokens in", "/quit");
    done(terminal.run(&world, &[]));
    let world = world.file(config, "");
    let terminal = Terminal::new(100).typing("/help for help", "/quit");
    let seen = done(terminal.run(&world, &["chat", "--continue"]));
    assert!(seen.text().contains("· mode auto ·"), "{}", seen.text());
}
