//! Decisions about calls of any tool: edited arguments, questions left undecided, and what a result lists as denied.

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::terminal::Terminal;
use crate::world::{Done, World};

const MODEL: [&str; 4] = ["run", "-m", "openai-compatible/test", "--base-url"];

const FINDER: &str = "---\nname: finder\ndescription: Finds.\ncapabilities:\n  - use_external_tools:\n      tools:\n        \
    - name: locate\n          description: Finds.\n---\n\nGo.\n";

fn world() -> World {
    let agent = |name: &str, tools: &str| {
        format!("---\nname: {name}\ndescription: D.\ntools: {tools}\n---\n\nGo.\n")
    };
    World::at_terminal()
        .file("project/a.txt", "x")
        .file("project/.claude/agents/finder.md", FINDER)
        .file("project/.claude/agents/lead.md", &agent("lead", "Bash, Agent"))
        .file("project/.claude/agents/helper.md", &agent("helper", "Bash"))
}

fn run(world: &World, server: &Server, options: &[&str]) -> (Done, Value) {
    let json = ["--output-format", "json"];
    let done = world.run(&[&MODEL[..], &[&server.url], &json, options].concat());
    let report = serde_json::from_str(done.stdout.lines().last().unwrap_or_default());
    (done, report.unwrap_or_default())
}

fn decide(world: &World, report: &Value, what: &[&str]) -> Done {
    let id = report["session_id"].as_str().unwrap();
    world.run(&[&["sessions", "decide", id], what].concat())
}

/// What the model reads as the results of its calls.
fn told(server: &Server) -> Vec<Value> {
    server.results()
}

fn spawning() -> Reply {
    let spawn = json!({ "subagent": "helper", "prompt": "Remove it." });
    streamed_tool("", "spawn_subagent", &spawn)
}

fn done() -> Reply {
    streamed("Done.", "stop")
}

#[test]
fn a_call_of_any_tool_is_approved_with_other_arguments_that_fit_its_schema() {
    let world = world();
    let server = Server::start([spawning(), streamed("Helped.", "stop"), done()]);
    let (paused, report) = run(
        &world,
        &server,
        &["--agent", "lead", "--permission-mode", "ask", "--ask", "Agent", "Go."],
    );
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let wrong = decide(&world, &report, &["approve", r#"{"subagent":7}"#]);
    assert_eq!(wrong.status, 2, "{}", wrong.stderr);
    let text = "the edited arguments do not match the schema of `spawn_subagent`";
    assert!(wrong.stderr.contains(text), "{}", wrong.stderr);
    let edited = r#"{"subagent":"helper","prompt":"Keep it."}"#;
    let decided = decide(&world, &report, &["approve", edited]);
    assert_eq!(decided.status, 0, "{}", decided.stderr);
    let id = report["session_id"].as_str().unwrap();
    let (resumed, _) = run(&world, &server, &["--resume", id]);
    assert_eq!(resumed.status, 0, "{}", resumed.stderr);
    let heard = server.heard();
    assert!(heard[1].1["messages"].to_string().contains("Keep it."), "{}", heard[1].1);
}

#[test]
fn the_dialog_edits_the_arguments_of_any_tool_as_json() {
    let world = world();
    let write = json!({ "path": "b.txt", "content": "b" });
    let server = Server::start([streamed_tool("", "write_file", &write), done()]);
    let line = [&MODEL[..], &[&server.url, "--permission-mode", "ask", "Go."]].concat();
    let terminal = Terminal::new(100)
        .typing("e JSON", "e c.txt")
        .typing("type `e` and all arguments as JSON", r#"e {"path":"c.txt","content":"c"}"#);
    let seen = terminal.run(&world, &line);
    assert_eq!((seen.status, world.path("project/b.txt").exists()), (0, false), "{}", seen.text());
    assert_eq!(std::fs::read_to_string(world.path("project/c.txt")).unwrap(), "c");
}

#[test]
fn a_question_is_left_undecided_from_the_command_line_and_in_the_dialog() {
    let asking = || streamed_tool("", "ask_user", &json!({ "question": "Which?" }));
    let dismissed = "Blocked: the user dismissed the question without an answer";
    let world = world();
    let server = Server::start([asking(), done()]);
    let (paused, report) = run(&world, &server, &["Go."]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let unknown = decide(&world, &report, &["maybe"]);
    assert!(unknown.stderr.contains("`reply`, `decline`, `cancel`"), "{}", unknown.stderr);
    assert_eq!(decide(&world, &report, &["cancel"]).status, 0);
    let id = report["session_id"].as_str().unwrap();
    run(&world, &server, &["--resume", id]);
    assert_eq!(told(&server), [dismissed]);

    let server = Server::start([asking(), done()]);
    let line = [&MODEL[..], &[&server.url, "Go."]].concat();
    let seen = Terminal::new(100).typing("`/decline` or `/cancel`", "/cancel").run(&world, &line);
    assert_eq!(told(&server), [dismissed], "{}", seen.text());

    let server = Server::start([streamed_call("", "rm a.txt")]);
    let (_, report) = run(&world, &server, &["--permission-mode", "ask", "Go."]);
    assert_eq!(decide(&world, &report, &["cancel"]).status, 2);
}

#[test]
fn a_tool_that_runs_elsewhere_is_denied_or_ends_a_run_that_does_not_wait() {
    let locating = || [streamed_tool("", "locate", &json!({})), done()];
    for (on_ask, reason) in [
        (
            "deny",
            "the tool runs elsewhere, and this run does not wait for the result; continue without it",
        ),
        (
            "fail",
            "`locate` needs a result from outside the run (`locate` runs elsewhere; pass the result of the call)",
        ),
    ] {
        let (world, server) = (world(), Server::start(locating()));
        let (ended, report) =
            run(&world, &server, &["--agent", "finder", "--on-ask", on_ask, "Go."]);
        assert_eq!(ended.status, 8, "{}", ended.stderr);
        let expect = json!([{ "tool": "locate", "arguments": {}, "reason": reason }]);
        assert_eq!((&report["denials"], &report["pending"]), (&expect, &Value::Null));
    }
}

/// The status, the denied calls and the results for the model of a run that waits for nothing.
fn refused(server: &Server, (done, report): &(Done, Value)) -> (i32, Value, Vec<Value>, bool) {
    (done.status, report["denials"].clone(), told(server), report["pending"].is_null())
}

#[test]
fn a_request_that_already_waits_is_refused_like_a_new_one_on_every_store() {
    let ask = ["--permission-mode", "ask", "--allow", "Agent"];
    let call = || streamed_call("", "rm a.txt");
    let kinds: [(&[&str], Vec<Reply>); 4] = [
        (&[], vec![call(), done()]),
        (&[], vec![streamed_tool("", "ask_user", &json!({ "question": "Which?" })), done()]),
        (&["--agent", "finder"], vec![streamed_tool("", "locate", &json!({})), done()]),
        (&["--agent", "lead"], vec![spawning(), call(), streamed("I must not.", "stop"), done()]),
    ];
    for (agent, replies) in kinds {
        for on_ask in ["deny", "fail"] {
            let options = [&ask[..], &["--on-ask", on_ask]].concat();
            let server = Server::start(replies.clone());
            let fresh = run(&world(), &server, &[agent, &options, &["Go."]].concat());
            let expect = refused(&server, &fresh);
            assert!(matches!(expect.0, 0 | 8) && expect.3, "{}", fresh.0.stderr);
            for store in ["files:kept", "sqlite:kept.db"] {
                let (world, server) = (world(), Server::start(replies.clone()));
                let store = ["--store", store];
                let (paused, report) =
                    run(&world, &server, &[agent, &ask, &store, &["Go."]].concat());
                assert_eq!(paused.status, 9, "{}", paused.stderr);
                let resume = ["--resume", report["session_id"].as_str().unwrap()];
                let resumed = run(&world, &server, &[&options[..], &store, &resume].concat());
                assert_eq!(refused(&server, &resumed), expect, "{store:?}: {}", resumed.0.stderr);
            }
        }
    }
}

#[test]
fn a_result_lists_the_denied_calls_of_sub_agents_with_their_path() {
    let lead = ["--agent", "lead", "--permission-mode", "ask", "--allow", "Agent"];
    let question = "no rule matches, mode `ask`";
    let denied = format!("not permitted without approval ({question}); continue without it");
    let failed = format!("`bash` needs approval ({question})");
    for (on_ask, status, reason) in [("deny", 0, denied), ("fail", 8, failed)] {
        let helped = streamed("I must not.", "stop");
        let server = Server::start([spawning(), streamed_call("", "rm a.txt"), helped, done()]);
        let (ended, report) =
            run(&world(), &server, &[&lead[..], &["--on-ask", on_ask, "Go."]].concat());
        assert_eq!(ended.status, status, "{}", ended.stderr);
        let arguments = json!({ "command": "rm a.txt" });
        let expect = json!([
            { "agents": ["helper"], "tool": "bash", "arguments": arguments, "reason": reason },
        ]);
        assert_eq!(report["denials"], expect, "{report}");
    }
}

#[test]
fn a_denied_call_is_listed_with_the_arguments_of_its_approval() {
    let world = world();
    let server = Server::start([streamed_call("", "rm a.txt"), done()]);
    let ask = ["--permission-mode", "ask", "--deny", "Bash(rm b.txt)"];
    let (_, report) = run(&world, &server, &[&ask[..], &["Go."]].concat());
    let decided = decide(&world, &report, &["approve", r#"{"command":"rm b.txt"}"#]);
    assert_eq!(decided.status, 0, "{}", decided.stderr);
    let id = report["session_id"].as_str().unwrap();
    let (ended, report) = run(&world, &server, &[&ask[..], &["--resume", id]].concat());
    assert_eq!(ended.status, 8, "{}", ended.stderr);
    assert_eq!(report["denials"][0]["arguments"], json!({ "command": "rm b.txt" }));
}

#[test]
fn the_line_of_a_denied_call_shows_the_arguments_that_were_decided_about() {
    let world = world();
    let server = Server::start([streamed_call("", "rm a.txt"), done()]);
    let ask = ["--permission-mode", "ask", "--deny", "Bash(rm b.txt)"];
    let (_, report) = run(&world, &server, &[&ask[..], &["Go."]].concat());
    decide(&world, &report, &["approve", r#"{"command":"rm b.txt"}"#]);
    let resume = ["--resume", report["session_id"].as_str().unwrap()];
    let ended = world.run(&[&MODEL[..], &[&server.url], &ask, &resume].concat());
    let shows = |command: &str| ended.stderr.contains(&format!("bash {command}"));
    assert_eq!((shows("rm b.txt"), shows("rm a.txt")), (true, false), "{}", ended.stderr);
}

#[test]
fn a_rule_covers_a_call_of_a_sub_agent_that_writes_to_a_file() {
    let world = world();
    let writing = || streamed_call("", "echo x >> leaf");
    let server = Server::start([spawning(), writing()]);
    let options = ["--agent", "lead", "--permission-mode", "ask", "--allow", "Agent"];
    let (paused, report) = run(&world, &server, &[&options[..], &["Go."]].concat());
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let decided = decide(&world, &report, &["0.0", "approve", "--always", "--yes"]);
    assert_eq!(decided.status, 0, "{}", decided.stderr);
    let id = report["session_id"].as_str().unwrap();
    let server = Server::start([writing(), streamed("Wrote.", "stop"), done()]);
    let (ended, _) = run(&world, &server, &[&options[2..], &["--resume", id]].concat());
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(world.path("project/leaf")).unwrap(), "x\nx\n");
}

#[test]
fn a_word_for_another_kind_of_request_decides_nothing_and_those_that_fit_are_named() {
    let refused = |word: &str, kind: &str, available: &str| {
        format!(
            "error: `{word}` applies only to {kind}, but this request is not one; available: {available}\n"
        )
    };
    let world = world();
    let call = "`approve [JSON]`, `deny [REASON]`, `stop`";
    let server = Server::start([streamed_call("", "rm a.txt"), done()]);
    let (paused, report) = run(&world, &server, &["--permission-mode", "ask", "Go."]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    for word in ["retry", "done", "mark-done", "skip"] {
        let told = decide(&world, &report, &[word]);
        let expect = (2, refused(word, "an interrupted call", call));
        assert_eq!((told.status, told.stderr), expect);
    }
    let told = decide(&world, &report, &["decline"]);
    assert_eq!((told.status, told.stderr), (2, refused("decline", "a question", call)));
    assert_eq!(decide(&world, &report, &["deny"]).status, 0);

    let server = Server::start([streamed_tool("", "ask_user", &json!({ "question": "Which?" }))]);
    let (paused, report) = run(&world, &server, &["Go."]);
    assert_eq!(paused.status, 9, "{}", paused.stderr);
    let told = decide(&world, &report, &["skip"]);
    let question = "`reply ANSWER`, `decline`, `cancel`, `stop`";
    let expect = (2, refused("skip", "an interrupted call", question));
    assert_eq!((told.status, told.stderr), expect);
    assert_eq!(decide(&world, &report, &["decline"]).status, 0);
}

#[test]
fn without_a_decision_the_waiting_calls_are_listed_with_the_decisions_that_they_take() {
    let world = world();
    let server = Server::start([streamed_call("", "rm a.txt"), done()]);
    let (_, report) = run(&world, &server, &["--permission-mode", "ask", "Go."]);
    let listed = decide(&world, &report, &[]);
    assert_eq!((listed.status, listed.stdout.as_str()), (2, ""), "{}", listed.stderr);
    let short = &report["session_id"].as_str().unwrap()[..8];
    let decisions = format!(
        "  decide with: loopwright sessions decide {short} approve [JSON]|deny [REASON]|stop"
    );
    let lines: Vec<&str> = listed.stderr.lines().collect();
    assert!(lines[2].starts_with("  0  bash rm a.txt  (no rule matches"), "{}", listed.stderr);
    assert_eq!(lines[3..], [&*decisions, "error: the decision is missing"]);
    assert_eq!(decide(&world, &report, &["deny"]).status, 0);
    let nothing = decide(&world, &report, &[]);
    assert_eq!(nothing.stderr, format!("error: session {short} has no waiting calls\n"));
}

#[test]
fn a_message_to_a_session_that_waits_is_kept_and_the_user_learns_it() {
    let world = world();
    let server = Server::start([streamed_call("", "rm a.txt"), done(), done()]);
    let ask = ["--permission-mode", "ask"];
    let (_, report) = run(&world, &server, &[&ask[..], &["Go."]].concat());
    let resume = ["--resume", report["session_id"].as_str().unwrap()];
    let (waiting, _) = run(&world, &server, &[&ask[..], &resume, &["Hurry."]].concat());
    let kept = "your message is kept: the agent reads it after the decision about the waiting call";
    assert_eq!((waiting.status, waiting.stderr.contains(kept)), (9, true), "{}", waiting.stderr);
    assert_eq!(decide(&world, &report, &["deny"]).status, 0);
    let (ended, _) = run(&world, &server, &resume);
    assert!(!ended.stderr.contains(kept), "{}", ended.stderr);
    let heard = server.heard().pop().unwrap().1["messages"].to_string();
    assert!(heard.contains("Hurry."), "{heard}");
}

#[test]
fn an_answer_whose_rule_cannot_be_saved_counts_and_the_next_such_call_asks_again() {
    let world = world();
    let server =
        Server::start([streamed_call("", "rm a.txt"), done(), streamed_call("", "rm a.txt")]);
    let ask = ["--permission-mode", "ask"];
    let (_, report) = run(&world, &server, &[&ask[..], &["Go."]].concat());
    // The rule cannot be written, as if the program had died after the answer.
    std::fs::create_dir_all(world.path(".config/loopwright/.folders.lock")).unwrap();
    let decided = decide(&world, &report, &["approve", "--always", "--yes"]);
    assert_eq!(decided.status, 3, "{}", decided.stderr);
    let told = "warning: the decision is recorded, but its rule is not saved: cannot write ";
    assert!(decided.stderr.contains(told), "{}", decided.stderr);
    let resume = ["--resume", report["session_id"].as_str().unwrap()];
    let (resumed, _) = run(&world, &server, &[&ask[..], &resume].concat());
    assert_eq!((resumed.status, world.path("project/a.txt").exists()), (0, false));
    let (again, _) = run(&world, &server, &[&ask[..], &["Go."]].concat());
    assert_eq!(again.status, 9, "{}", again.stderr);
}

#[test]
fn a_decision_names_what_continues_the_run() {
    let world = world();
    let store = "files:../store";
    let stored = ["--store", store];
    let paused = || {
        let server = Server::start([streamed_call("", "rm a.txt")]);
        let options = [&stored[..], &["--permission-mode", "ask", "Go."]].concat();
        let (done, report) = run(&world, &server, &options);
        assert_eq!(done.status, 9, "{}", done.stderr);
        report["session_id"].as_str().unwrap().to_owned()
    };
    let sessions = |line: &[&str]| {
        let done = world.run(&[&["sessions"], &stored[..], line].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
        done.stderr
    };
    // The command finds the session in the store that was named.
    let id = paused();
    let told = sessions(&["decide", &id, "approve"]);
    let hint = told.trim_end().strip_prefix("decided; resume with: loopwright ").unwrap();
    let mut words: Vec<&str> = hint.split(' ').collect();
    assert_eq!(words, ["run", "--resume", &id[..8], "--store", store]);
    let server = Server::start([done()]);
    words.extend(["-m", "openai-compatible/test", "--base-url", &server.url]);
    let resumed = world.run(&words);
    let is_there = world.path("project/a.txt").exists();
    assert_eq!((resumed.status, is_there), (0, false), "{}", resumed.stderr);

    let id = paused();
    sessions(&["suspend", &id]);
    let told = sessions(&["decide", &id, "deny"]);
    let resume = format!("loopwright sessions resume {} --store {store}", &id[..8]);
    let expect = format!("decided; the session accepts no messages; change that with: {resume}\n");
    assert_eq!(told, expect);
}

#[test]
fn the_command_that_resumes_a_session_repeats_the_grants_that_the_session_does_not_keep() {
    let named = r#"{ "mcpServers": { "a": { "command": "true", "env": { "KEY": "secret" } } } }"#;
    let world = world().file("extra/note.txt", "x").file("servers.json", named);
    let server = Server::start([done()]);
    let grants = [
        "--allow",
        "Bash(git log:*)",
        "--add-dir",
        "../extra",
        "--mcp-config",
        "../servers.json",
        "--mcp-config",
        named,
        "--strict-mcp-config",
        "--deny",
        "WebFetch",
        "Go.",
    ];
    let ran = world.run(&[&MODEL[..], &[&server.url], &grants].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let hint = ran.stderr.lines().last().unwrap();
    let expect = "--allow 'Bash(git log:*)' --add-dir ../extra --mcp-config ../servers.json --mcp-config '{…}' --strict-mcp-config";
    assert!(hint.ends_with(expect), "{hint}");
}
