//! Tools that run elsewhere, deadlines, and answers that stop the run or deny for good.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use crate::hooks::is_there;
use crate::server::{Reply, Server, said, streamed, streamed_call, streamed_tool};
use crate::terminal::{Seen, Terminal};
use crate::world::{Done, World};

const MODEL: [&str; 4] = ["run", "-m", "openai-compatible/test", "--base-url"];

const AGENT: &str = "---\nname: finder\ndescription: Finds.\ncapabilities:\n  - use_external_tools:\n      tools:\n        \
    - name: locate\n          description: Finds.\n          result: { type: array }\n---\n\nGo.\n";

fn run(world: &World, server: &Server, options: &[&str]) -> Done {
    world.run(&[&MODEL[..], &[&server.url], options].concat())
}

fn locating() -> Vec<Reply> {
    vec![streamed_tool("", "locate", &json!({})), streamed("Found.", "stop")]
}

fn removing() -> Vec<Reply> {
    vec![streamed_call("", "rm a.txt"), streamed("Done.", "stop")]
}

fn result(done: &Done) -> Value {
    serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap()
}

/// Runs in the mode that asks, with a user at the terminal.
fn attend(world: &World, server: &Server, terminal: Terminal) -> Seen {
    terminal.run(world, &[&MODEL[..], &[&server.url, "--permission-mode", "ask", "Go."]].concat())
}

/// Chats, with a user at the terminal.
fn chat(world: &World, server: &Server, options: &[&str], terminal: Terminal) -> Seen {
    let model = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url];
    terminal.run(world, &[&model[..], options].concat())
}

/// What the model reads as the result of its call.
fn told(server: &Server) -> Value {
    server.results().swap_remove(0)
}

#[test]
fn a_call_of_an_external_tool_waits_for_a_result_or_an_error_of_another_process() {
    let answers =
        [(&["result", "[46, 7]"][..], "[46,7]"), (&["error", "no signal"], "Error: no signal")];
    for (answer, expect) in answers {
        let world = World::new().file("project/.claude/agents/finder.md", AGENT);
        let server = Server::start(locating());
        let paused = run(&world, &server, &["--agent", "finder", "--output-format", "json", "Go."]);
        assert_eq!(paused.status, 9, "{}", paused.stderr);
        let report = result(&paused);
        let pending = json!([{
            "call": "0", "request": report["pending"][0]["request"], "tool": "locate", "arguments": {}, "kind": "result", "schema": { "type": "array" },
            "question": "`locate` runs elsewhere; pass the result of the call",
        }]);
        assert_eq!(report["pending"], pending);
        let id = report["session_id"].as_str().unwrap();
        let decide = |what: &[&str]| world.run(&[&["sessions", "decide", id], what].concat());
        let refused = decide(&["result", "here"]);
        assert_eq!(refused.status, 2);
        assert!(
            refused.stderr.contains("the reply to `locate` does not match its schema"),
            "{}",
            refused.stderr
        );
        assert_eq!(decide(&["approve"]).status, 2);
        // The request as it was shown is decided about once.
        let request = report["pending"][0]["request"].as_str().unwrap();
        let shown = [&[request], answer].concat();
        assert_eq!(decide(&shown).status, 0);
        let again = decide(&shown);
        assert_eq!(again.status, 2, "{}", again.stderr);
        assert!(
            again.stderr.contains("was answered or changed in the meantime"),
            "{}",
            again.stderr
        );
        let done = run(&world, &server, &["--resume", id]);
        assert_eq!((done.status, told(&server)), (0, expect.into()), "{}", done.stderr);
    }
}

#[test]
fn a_call_whose_deadline_has_passed_is_denied_and_takes_no_decision() {
    let world = World::new();
    let server = Server::start(removing());
    let ask =
        ["--permission-mode", "ask", "--answer-within", "0.001", "--output-format", "json", "Go."];
    let paused = run(&world, &server, &ask);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let report = result(&paused);
    assert!(report["pending"][0]["deadline"].is_string(), "{report}");
    let id = report["session_id"].as_str().unwrap();
    let late = world.run(&["sessions", "decide", id, "approve"]);
    assert_eq!(late.status, 2);
    assert!(
        late.stderr.contains("the deadline of the pending call to `bash` has passed"),
        "{}",
        late.stderr
    );
    let done = run(&world, &server, &["--resume", id]);
    assert_eq!(done.status, 8, "{}", done.stderr);
    let text = "Blocked: no decision or answer arrived before the deadline";
    assert_eq!((told(&server), is_there(&world)), (text.into(), true));
}

#[test]
fn an_open_dialog_ends_with_the_deadline_of_its_call_and_the_run_continues() {
    let world = World::at_terminal();
    let server = Server::start(removing());
    let options = ["--permission-mode", "ask", "--answer-within", "0.5", "Go."];
    let line = [&MODEL[..], &[&server.url], &options].concat();
    // What is typed is never sent.
    let seen = Terminal::new(100).pressing("1 yes", "1").run(&world, &line);
    assert_eq!((seen.status, is_there(&world)), (8, true), "{}", seen.text());
    assert!(seen.text().contains("the time for an answer has passed"), "{}", seen.text());
    let text = "Blocked: no decision or answer arrived before the deadline";
    assert_eq!(told(&server), text);
}

#[test]
fn a_decision_that_stops_ends_the_run_with_the_code_of_denied_work() {
    let world = World::new();
    let server = Server::start(removing());
    let paused =
        run(&world, &server, &["--permission-mode", "ask", "--output-format", "json", "Go."]);
    let report = result(&paused);
    let id = report["session_id"].as_str().unwrap();
    let decided = world.run(&["sessions", "decide", id, "stop", "leave it"]);
    assert_eq!(decided.status, 0, "{}", decided.stderr);
    let done = run(&world, &server, &["--resume", id, "--output-format", "json"]);
    assert_eq!(done.status, 8, "{}", done.stderr);
    assert_eq!(result(&done)["denials"][0]["reason"], "leave it");
    assert_eq!((server.heard().len(), is_there(&world)), (1, true));
}

#[test]
fn a_command_of_the_user_and_a_webhook_are_told_that_a_run_waits_and_a_project_names_neither() {
    let hook = Server::start(vec![streamed("", "stop")]);
    let script = "#!/bin/sh\ncat > told.json\n";
    let world = World::new().file("tell.sh", script);
    let told = world.path("project/told.json");
    let (command, url) =
        (world.path("tell.sh").display().to_string(), format!("{}/waiting", hook.url));
    let config = format!("[notify]\ncommand = [\"sh\", \"{command}\"]\nwebhook = \"{url}\"\n");
    let world = world.file(".config/loopwright/config.toml", &config);
    let server = Server::start(removing());
    let ask = ["--permission-mode", "ask", "--output-format", "json", "Go."];
    let paused = run(&world, &server, &ask);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let expect = json!({
        "type": "waiting", "schema_version": result(&paused)["schema_version"],
        "session_id": result(&paused)["session_id"],
        "text": "approval needed: bash rm a.txt: no rule matches, mode `ask`",
    });
    let told: Value = serde_json::from_str(&std::fs::read_to_string(told).unwrap()).unwrap();
    assert_eq!((told, &hook.heard()[0].1), (expect.clone(), &expect));

    let world = World::new().file("project/loopwright.toml", &config);
    let refused = run(&world, &server, &ask);
    assert_eq!(refused.status, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("`notify`"), "{}", refused.stderr);
    assert!(!world.path("project/told.json").exists());
}

#[test]
fn a_command_and_a_webhook_of_the_user_are_told_that_a_job_of_a_worker_waits() {
    let hook = Server::start(vec![streamed("", "stop")]);
    let world = World::new().file("tell.sh", "#!/bin/sh\ncat > told.json\n");
    let command = world.path("tell.sh").display().to_string();
    let config = format!(
        "[notify]\ncommand = [\"sh\", \"{command}\"]\nwebhook = \"{}/waiting\"\n",
        hook.url
    );
    let world = world.file(".config/loopwright/config.toml", &config);
    let server = Server::start(removing());
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let submitted = world.run(&[&["submit"], &model[..], &["Go."]].concat());
    let (_, session) = submitted.stdout.trim().split_once(' ').unwrap();
    let worked = world
        .run(&[&["worker", "--exit-when-idle", "--permission-mode", "ask"], &model[..]].concat());
    assert!(worked.stderr.contains("1 need input"), "{}", worked.stderr);
    let told = std::fs::read_to_string(world.path("project/told.json")).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let expect = (json!("waiting"), json!(session));
    for told in [&told, &hook.heard()[0].1] {
        assert_eq!((told["type"].clone(), told["session_id"].clone()), expect);
        assert!(told["text"].as_str().unwrap().contains("bash rm a.txt"), "{told}");
    }
}

/// The status of a turn that has used 350 of 430 millionths of a dollar after five steps, how often the model was called, and what
/// the session has on record of the answer.
fn near_the_limit(answer: &'static str) -> (i32, usize, Value) {
    near_a_limit(answer, "", &["--max-cost", "0.00043"])
}

/// The world of a model with prices, whose user has other settings, too, and the answers of the model.
fn priced(settings: &str) -> (World, Vec<Reply>) {
    let prices = "[models.'openai-compatible/test']\nprices = { input = 0, output = 7 }\n";
    let config = format!("{prices}{settings}");
    let world = World::at_terminal().file(".config/loopwright/config.toml", &config);
    let mut answers = vec![streamed_tool("", "list_dir", &json!({})); 5];
    answers.push(streamed("Done.", "stop"));
    (world, answers)
}

fn near_a_limit(answer: &'static str, settings: &str, options: &[&str]) -> (i32, usize, Value) {
    let (world, answers) = priced(settings);
    let server = Server::start(answers);
    let line = [&MODEL[..], &[&server.url], options, &["Go."]].concat();
    let shown = "cost limit used";
    let seen = Terminal::new(100).typing(shown, answer).run(&world, &line);
    let listed: Value =
        serde_json::from_str(&world.run(&["sessions", "list", "--json"]).stdout).unwrap();
    let id = listed["sessions"][0]["id"].as_str().unwrap().to_owned();
    let exported = world.run(&["sessions", "export", &id]).stdout;
    let decision = exported.rsplit_once("\"decision\":\"").map(|(_, rest)| rest.split('"').next());
    (seen.status, server.heard().len(), json!(decision.flatten()))
}

#[test]
fn an_attended_turn_asks_at_four_fifths_of_its_cost_limit_and_the_answer_is_on_record() {
    assert_eq!(near_the_limit("1"), (0, 6, json!("continue")));
    assert_eq!(near_the_limit("2"), (0, 6, json!("more")));
    assert_eq!(near_the_limit("3"), (6, 5, json!("stop")));
}

#[test]
fn more_raises_the_cost_limit_of_the_session_wherever_it_comes_from() {
    let configured = "[limits.session]\ncost = 0.00043\n";
    for (settings, options) in [("", &["--max-session-cost", "0.00043"][..]), (configured, &[])] {
        let more = near_a_limit("2", settings, options);
        assert_eq!(more, (0, 6, json!("more")), "{settings}{options:?}");
        let stopped = near_a_limit("3", settings, options);
        assert_eq!(stopped, (6, 5, json!("stop")), "{settings}{options:?}");
    }
}

#[test]
fn what_is_typed_in_place_of_an_answer_about_the_cost_waits_at_the_prompt() {
    let (world, mut answers) = priced("");
    answers.push(streamed("Hello.", "stop"));
    let server = Server::start(answers);
    let terminal = Terminal::new(100)
        .typing("/help for help", "Go.")
        .typing("cost limit used", "Then greet me.")
        .typing("kept for the next prompt", "2")
        .pressing("Done.", "\r")
        .typing("Hello.", "/quit");
    let seen = chat(&world, &server, &["--max-cost", "0.00043"], terminal);
    let heard = server.heard();
    let last = heard.last().unwrap().1.to_string();
    assert_eq!((seen.status, heard.len()), (0, 7), "{}", seen.text());
    assert!(last.contains("Then greet me."), "{last}");
}

#[test]
fn never_denies_for_good_with_the_rule_that_was_shown() {
    let world = World::at_terminal();
    let server = Server::start(removing());
    attend(&world, &server, Terminal::new(100).typing("n! never", "n!"));
    let kept = std::fs::read_to_string(world.path(".config/loopwright/folders.toml")).unwrap();
    assert!(kept.contains("deny = [\"Bash(rm a.txt)\"]"), "{kept}");
    let server = Server::start(removing());
    let again =
        run(&world, &server, &["--permission-mode", "auto", "--output-format", "json", "Go."]);
    assert_eq!((again.status, is_there(&world)), (8, true), "{}", again.stderr);
    assert_eq!(result(&again)["denials"][0]["arguments"], json!({ "command": "rm a.txt" }));
}

#[test]
fn shift_tab_changes_the_mode_and_a_call_that_still_needs_approval_waits() {
    let world = World::at_terminal();
    let server = Server::start(removing());
    let terminal =
        Terminal::new(100).editing("1 yes", "\x1b[Z").typing("mode accept-edits", "3 keep it");
    let seen = attend(&world, &server, terminal);
    assert!(is_there(&world), "{}", seen.text());
    assert!(told(&server).as_str().unwrap().contains("keep it"), "{}", seen.text());
}

#[test]
fn a_run_without_a_session_says_that_no_later_command_can_decide() {
    let world = World::new();
    let server = Server::start(removing());
    let done = run(&world, &server, &["--no-session", "--permission-mode", "ask", "Go."]);
    let is_said = done.stderr.contains("omit `--no-session`, or pass `--on-ask deny`");
    assert_eq!((done.status, is_said, is_there(&world)), (9, true, true), "{done:?}");
}

#[test]
fn a_message_after_a_run_that_a_denial_stopped_has_no_denials_of_that_run() {
    let world = World::new();
    let server = Server::start(removing());
    let json = ["--output-format", "json"];
    let options = [&json[..], &["--permission-mode", "ask", "Go."]].concat();
    let paused = result(&run(&world, &server, &options));
    let id = paused["session_id"].as_str().unwrap();
    assert_eq!(world.run(&["sessions", "decide", id, "stop"]).status, 0);
    let stopped = run(&world, &server, &[&json[..], &["--resume", id]].concat());
    let calls = result(&stopped)["denials"].as_array().map(Vec::len);
    assert_eq!((stopped.status, calls), (8, Some(1)), "{}", stopped.stderr);
    let done = run(&world, &server, &[&json[..], &["--resume", id, "Hello."]].concat());
    let denials = result(&done).get("denials").cloned();
    let is_empty = denials.is_none_or(|it| it == json!([]));
    assert_eq!((done.status, is_empty), (0, true), "{}", done.stderr);
}

#[test]
fn a_mode_that_is_reached_over_another_one_decides_about_the_call() {
    let world = World::at_terminal();
    let server = Server::start(removing());
    let terminal =
        Terminal::new(100).editing("1 yes", "\x1b[Z").editing("mode accept-edits", "\x1b[Z");
    let seen = attend(&world, &server, terminal);
    assert_eq!((seen.status, is_there(&world)), (0, false), "{}", seen.text());
}

#[test]
fn a_mode_that_is_entered_while_a_call_waits_decides_about_it_anew() {
    let write = json!({ "path": "b.txt", "content": "b" });
    for (mode, is_written) in [("/mode accept-edits", true), ("/mode plan", false)] {
        let world = World::at_terminal();
        let server =
            Server::start([streamed_tool("", "write_file", &write), streamed("Done.", "stop")]);
        let seen = attend(&world, &server, Terminal::new(100).typing("1 yes", mode));
        assert_eq!(world.path("project/b.txt").exists(), is_written, "{mode}: {}", seen.text());
    }
}

#[test]
fn all_of_a_long_command_is_shown_and_the_answers_are_explained_without_an_answer() {
    let world = World::at_terminal();
    let lines: Vec<String> = (1..40).map(|it| format!("echo line-{it}\n")).collect();
    let lines = lines.concat();
    let server =
        Server::start([streamed_call("", &format!("{lines}rm a.txt")), streamed("Done.", "stop")]);
    let terminal = Terminal::new(100)
        .typing("v view all", "?")
        .typing("run the call once", "v")
        .typing("line-39", "1");
    let seen = attend(&world, &server, terminal);
    assert_eq!((seen.status, is_there(&world)), (0, false), "{}", seen.text());
}

#[test]
fn a_call_with_edited_arguments_is_shown_with_them() {
    let world = World::at_terminal();
    let server = Server::start(removing());
    let seen = attend(&world, &server, Terminal::new(100).typing("1 yes", "e echo edited"));
    assert_eq!((seen.status, is_there(&world)), (0, true), "{}", seen.text());
    assert!(seen.text().contains("✓ bash echo edited"), "{}", seen.text());
    assert!(!seen.text().contains("✓ bash rm a.txt"), "{}", seen.text());
}

#[test]
fn chat_asks_at_its_start_about_a_call_that_waits() {
    let world = World::at_terminal();
    let server = Server::start(removing());
    let paused = run(&world, &server, &["--permission-mode", "ask", "Go."]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let server = Server::start([streamed("Removed.", "stop")]);
    let terminal = Terminal::new(100).typing("1 yes", "1").typing("Removed.", "/quit");
    let seen = chat(&world, &server, &["--permission-mode", "ask", "--continue"], terminal);
    assert_eq!((seen.status, is_there(&world)), (0, false), "{}", seen.text());
}

#[test]
fn resume_in_a_chat_asks_about_a_call_that_waits_before_it_reads_a_message() {
    let world = World::at_terminal();
    let server = Server::start(removing());
    let paused = run(&world, &server, &["--permission-mode", "ask", "Go."]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let server = Server::start([streamed("Removed.", "stop")]);
    let terminal = Terminal::new(100)
        .typing("/help for help", "/resume")
        .typing("number of the session", "1")
        .typing("1 yes", "1")
        .typing("Removed.", "/quit");
    let seen = chat(&world, &server, &["--permission-mode", "ask"], terminal);
    assert_eq!((seen.status, is_there(&world)), (0, false), "{}", seen.text());
    assert_eq!(said(&server.request()), ["Go."]);
}

#[test]
fn a_decision_from_the_command_line_holds_from_now_on_after_its_rule_was_confirmed() {
    let cases = [("approve", "allow", 0, false), ("deny", "deny", 8, true)];
    for (word, kept, status, stays) in cases {
        let world = World::new();
        let server = Server::start(removing());
        let paused = run(&world, &server, &["--permission-mode", "ask", "Go."]);
        assert_eq!(paused.status, 9, "{}", paused.stderr);
        let listed = world.run(&["approvals", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        let id = listed["sessions"][0]["session"]["id"].as_str().unwrap();
        let decide = |what: &[&str]| world.run(&[&["sessions", "decide", id], what].concat());
        let refused = decide(&[word, "--always"]);
        let rule = format!("{kept} Bash(rm a.txt) in ");
        assert_eq!((refused.status, refused.stderr.contains(&rule)), (2, true), "{refused:?}");
        let done = decide(&[word, "--always", "--yes"]);
        assert_eq!(done.status, 0, "{done:?}");
        assert!(done.stderr.contains(&format!("from now on: {rule}")), "{done:?}");
        let server = Server::start(removing());
        let again = run(&world, &server, &["--permission-mode", "ask", "Go."]);
        let seen = (again.status, is_there(&world));
        assert_eq!(seen, (status, stays), "{}", again.stderr);
    }
}

#[test]
fn only_an_approval_as_it_is_and_a_denial_hold_from_now_on() {
    let world = World::new().file("project/.claude/agents/finder.md", AGENT);
    let server = Server::start(locating());
    let paused = run(&world, &server, &["--agent", "finder", "--output-format", "json", "Go."]);
    let report = result(&paused);
    let id = report["session_id"].as_str().unwrap();
    let decide = |what: &[&str]| world.run(&[&["sessions", "decide", id], what].concat());
    for what in [&["result", "[46, 7]"][..], &["approve", "{}"], &["deny"]] {
        let refused = decide(&[what, &["--always", "--yes"]].concat());
        assert_eq!((refused.status, refused.stderr.contains("--always")), (2, true), "{refused:?}");
    }
    assert_eq!(decide(&["result", "[46, 7]"]).status, 0);
}

/// Returns a world with an agent `lead` that starts a sub-agent `helper`, whose file has this line.
fn with_helper(line: &str) -> World {
    let agent = |name: &str, tools: &str, line: &str| {
        format!("---\nname: {name}\ndescription: D.\ntools: {tools}\n{line}---\n\nGo.\n")
    };
    World::at_terminal()
        .file("project/a.txt", "x")
        .file("project/.claude/agents/lead.md", &agent("lead", "Bash, Agent", ""))
        .file("project/.claude/agents/helper.md", &agent("helper", "Bash", line))
}

fn helping() -> [Reply; 2] {
    let spawn = json!({ "subagent": "helper", "prompt": "Remove it." });
    [streamed_tool("", "spawn_subagent", &spawn), streamed_call("", "rm a.txt")]
}

#[test]
fn chat_asks_at_its_start_about_a_call_of_a_sub_agent() {
    let world = with_helper("");
    let server = Server::start(helping());
    let paused = run(&world, &server, &["--agent", "lead", "--permission-mode", "ask", "Go."]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let replies = ["Removed.", "The helper removed it."].map(|text| streamed(text, "stop"));
    let server = Server::start(replies);
    let terminal = Terminal::new(100).typing("1 yes", "1").typing("The helper removed", "/quit");
    let seen = chat(&world, &server, &["--permission-mode", "ask", "--continue"], terminal);
    assert_eq!((seen.status, is_there(&world)), (0, false), "{}", seen.text());
    assert!(seen.text().contains("? bash of helper"), "{}", seen.text());
}

#[test]
fn a_mode_that_is_entered_decides_anew_about_a_call_of_a_sub_agent_by_the_rules_of_its_definition()
{
    let replies = || {
        let ended = ["Removed.", "Done."].map(|text| streamed(text, "stop"));
        helping().into_iter().chain(ended)
    };
    let line = |server: &Server| {
        [&MODEL[..], &[&server.url, "--agent", "lead", "--permission-mode", "ask", "Go."]]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let ran = |definition: &str, terminal: Terminal| {
        let (world, server) = (with_helper(definition), Server::start(replies()));
        let line = line(&server);
        let seen = terminal.run(&world, &line.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            (seen.status, world.path("project/a.txt").exists()),
            (0, false),
            "{}",
            seen.text()
        );
        seen.text().matches("? bash of helper").count()
    };
    assert_eq!(ran("", Terminal::new(100).typing("1 yes", "/mode auto")), 1);
    // The definition still asks.
    let terminal = Terminal::new(100).typing("1 yes", "/mode auto").typing("1 yes", "1");
    assert_eq!(ran("permissionMode: ask\n", terminal), 2);
}

#[test]
fn followed_approvals_show_a_run_that_begins_to_wait() {
    let world = World::new();
    let mut follower = world.start(&["approvals", "--follow", "--json"]);
    let server = Server::start(removing());
    let paused = run(&world, &server, &["--permission-mode", "ask", "Go."]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let mut told = String::new();
    BufReader::new(follower.stdout.take().unwrap()).read_line(&mut told).unwrap();
    follower.kill().unwrap();
    follower.wait().unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["pending"][0]["arguments"], json!({ "command": "rm a.txt" }));
}

/// Decides about the call that waits in the only session, as another process does.
fn deciding(what: &'static [&'static str]) -> impl Fn(&World) {
    move |world| {
        let listed = world.run(&["sessions", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        let id = listed["sessions"][0]["id"].as_str().unwrap_or_else(|| panic!("{listed}"));
        let done = world.run(&[&["sessions", "decide", id], what].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
    }
}

/// Opens a dialog that another process answers, and returns the screen, what the model was told, and the rules.
fn answered_elsewhere(there: &'static [&'static str]) -> (String, Value, Option<String>, bool) {
    let world = World::at_terminal();
    let server = Server::start(removing());
    // Nothing is typed.
    let terminal = Terminal::new(100).pressing("1 yes", "").first(deciding(there));
    let seen = attend(&world, &server, terminal);
    let rules = std::fs::read_to_string(world.path(".config/loopwright/folders.toml")).ok();
    let rules = rules.map(|it| it.lines().skip(1).collect());
    (seen.text(), told(&server), rules, is_there(&world))
}

#[test]
fn an_open_dialog_closes_when_another_process_answers_and_the_run_continues() {
    let closed = "another process answered or changed this request";
    let (text, told, rules, is_there) = answered_elsewhere(&["deny", "leave it"]);
    assert!(text.contains(closed), "{text}");
    assert_eq!((told, rules, is_there), ("Blocked: leave it".into(), None, true));

    let (text, _, rules, is_there) = answered_elsewhere(&["approve", "--always", "--yes"]);
    assert!(text.contains(closed), "{text}");
    assert_eq!((rules, is_there), (Some("allow = [\"Bash(rm a.txt)\"]".to_owned()), false));
}

/// A schema that an answer with the number of files does not match.
const OTHER_SCHEMA: &str =
    r#"{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}"#;

/// Opens a dialog of a run with these options, and finishes the run in another process, with options of its own, while the
/// dialog is open.
fn finished_elsewhere(
    answer: &str,
    options: &[&str],
    there: &'static [&'static str],
) -> (World, Seen) {
    let world = World::new().env("TERM", "xterm-256color").file("project/a.txt", "x");
    let server = Server::start([streamed_call("", "rm a.txt"), streamed(answer, "stop")]);
    let line = [&MODEL[..], &[&server.url, "--permission-mode", "ask"], options, &["Go."]].concat();
    let url = server.url.clone();
    let terminal = Terminal::new(100).pressing("1 yes", "").first_while_stopped(move |world| {
        deciding(&["approve"])(world);
        let done = world.run(&[&MODEL[..], &[&url, "--continue"], there].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
    });
    let seen = terminal.run(&world, &line);
    (world, seen)
}

#[test]
fn a_run_that_another_process_finished_is_verified_and_written_by_the_process_that_waited() {
    let schema =
        r#"{"type":"object","properties":{"files":{"type":"integer"}},"required":["files"]}"#;
    let options = ["-o", "../out.json", "--schema", schema, "--verify", "touch verified"];
    let (world, seen) = finished_elsewhere(r#"{"files": 3}"#, &options, &[]);
    let text = seen.text();
    let written = std::fs::read_to_string(world.path("out.json")).ok();
    let is_verified = world.path("project/verified").exists();
    let expect = (0, Some("{\"files\":3}\n".to_owned()), true);
    assert_eq!((seen.status, written, is_verified), expect, "{text}");
    assert!(text.contains("another process finished this run"), "{text}");

    let (_, seen) = finished_elsewhere("Three.", &["--verify", "false"], &[]);
    assert_eq!(seen.status, 12, "{}", seen.text());
    assert!(seen.text().contains("Three."), "{}", seen.text());

    let cases: [(_, &[_]); 2] = [("Three.", &[]), (r#"{"count": 3}"#, &["--schema", OTHER_SCHEMA])];
    for (answer, there) in cases {
        let (world, seen) = finished_elsewhere(answer, &options, there);
        let text = seen.text();
        assert_eq!((seen.status, world.path("out.json").exists()), (11, false), "{text}");
        assert!(text.contains("finished the run without this schema"), "{text}");
    }
}
