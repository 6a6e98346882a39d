//! `run` against a provider on this machine.

use serde_json::Value;

use crate::server::{Reply, Server, error, nowhere, streamed, streamed_call, streamed_tool, whole};
use crate::world::{Done, World, lonely, redact};

/// A command line that asks a provider at this address.
fn line<'a>(url: &'a str, options: &[&'a str], prompt: &'a str) -> Vec<&'a str> {
    let model = ["run", "-m", "openai-compatible/test", "--base-url", url];
    [&model, options, &[prompt]].concat()
}

/// Runs against a provider that gives these replies.
fn run(replies: Vec<Reply>, options: &[&str]) -> (Done, Server) {
    let server = Server::start(replies);
    (World::new().run(&line(&server.url, options, "What is here?")), server)
}

fn conversation() -> Vec<Reply> {
    vec![streamed_call("Let me look.", "ls"), streamed("There is a.txt.", "stop")]
}

/// What the model may call.
const TOOLS: [&str; 12] = [
    "read_file",
    "write_file",
    "edit_file",
    "list_dir",
    "search_files",
    "grep",
    "bash",
    "bash_start",
    "bash_read",
    "bash_stop",
    "ask_user",
    "todo_write",
];

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_answer_is_on_standard_output_and_the_work_on_standard_error() {
    let (done, server) = run(conversation(), &[]);
    assert_eq!(
        (done.status, done.stdout.as_str(), redact(&done.stderr).as_str()),
        (
            0,
            "Let me look.\nThere is a.txt.\n",
            "  ✓ bash ls · T\n\n\n2 steps · 100 tokens in, 20 out · T\nresume with: R\n"
        )
    );
    let first = server.request();
    assert_eq!(first["stream"], true);
    let tools = first["tools"].as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|it| &it["function"]["name"]).collect();
    assert_eq!(names, TOOLS);
    assert_eq!(first["messages"][1]["content"], "What is here?");
    let second = server.request();
    assert_eq!(second["messages"][3]["content"], "a.txt");
}

#[test]
fn without_streaming_the_same_is_said() {
    let replies = vec![whole("Let me look.", Some("ls")), whole("There is a.txt.", None)];
    let (done, server) = run(replies, &["--no-stream"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Let me look.\nThere is a.txt.\n"));
    assert_ne!(server.request()["stream"], true);
}

#[test]
fn piped_input_is_joined_to_the_typed_prompt() {
    let server = Server::start([streamed("It counts.", "stop")]);
    let done = World::new().run_with(&line(&server.url, &[], "explain"), "one\ntwo\n");
    assert_eq!(done.status, 0, "{}", done.stderr);
    let said = &server.request()["messages"][1]["content"];
    assert_eq!(said, "explain\n\n<stdin>\none\ntwo\n</stdin>");
}

/// Takes the three seconds that the program waits, so it runs with `LOOPWRIGHT_LONG` only.
#[test]
fn a_caller_that_leaves_standard_input_open_is_not_waited_for() {
    if std::env::var_os("LOOPWRIGHT_LONG").is_none() {
        return;
    }
    let server = Server::start([streamed("Done.", "stop")]);
    let world = World::new();
    let mut child = world.command(&line(&server.url, &[], "hi")).spawn().unwrap();
    let open = child.stdin.take();
    let done = world.done(child.wait_with_output().unwrap());
    assert_eq!((done.status, done.stdout.as_str()), (0, "Done.\n"), "{}", done.stderr);
    assert!(done.stderr.contains("add `</dev/null`"), "{}", done.stderr);
    drop(open);
}

#[test]
fn a_quiet_run_prints_the_answer_and_nothing_else() {
    let (done, _) = run(conversation(), &["-q"]);
    let expect = Done { status: 0, stdout: "There is a.txt.\n".to_owned(), stderr: String::new() };
    assert_eq!(done, expect);
}

#[test]
fn a_quiet_run_with_events_prints_the_answer_and_nothing_else() {
    let (done, _) = run(conversation(), &["-q", "--output-format", "events"]);
    let expect = Done { status: 0, stdout: "There is a.txt.\n".to_owned(), stderr: String::new() };
    assert_eq!(done, expect);
}

#[test]
fn a_json_result_has_no_second_report_on_standard_error() {
    let (done, _) = run(conversation(), &["--output-format", "json"]);
    assert!(!done.stderr.contains("steps ·") && !done.stderr.contains("resume"), "{}", done.stderr);
}

#[test]
fn json_is_one_object() {
    let (done, _) = run(conversation(), &["--output-format", "json"]);
    let report = &lines(&done.stdout)[0];
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    let mut expect = [
        "type",
        "schema_version",
        "text",
        "status",
        "stop_reason",
        "exit_code",
        "steps",
        "usage",
        "cost_usd",
        "duration_ms",
        "errors",
        "permission_mode",
        "model",
        "agent_id",
        "execution_id",
        "session_id",
    ];
    expect.sort_unstable();
    let mut keys = keys;
    keys.sort_unstable();
    assert_eq!(keys, expect);
    assert_eq!(report["text"], "There is a.txt.");
    assert_eq!(report["status"], "completed");
    assert_eq!(report["stop_reason"], "completed");
    assert_eq!((&report["exit_code"], &report["steps"]), (&0.into(), &2.into()));
    assert_eq!((&report["usage"]["input"], &report["usage"]["total"]), (&100.into(), &120.into()));
    assert_eq!(report["cost_usd"], Value::Null);
    assert!(done.stderr.contains("✓ bash ls"), "{}", done.stderr);
}

#[test]
fn stream_json_begins_with_init_and_ends_with_the_result() {
    let (done, _) = run(conversation(), &["--json"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let lines = lines(&done.stdout);
    let (first, last) = (&lines[0], &lines[lines.len() - 1]);
    assert_eq!((&first["type"], &first["schema_version"]), (&"init".into(), &1.into()));
    assert_eq!(first["model"], "openai-compatible/test");
    assert_eq!(first["workdir"], "/project");
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&first["permission_mode"], &last["permission_mode"]),
        (&"auto".into(), &"auto".into())
    );
    assert_eq!(first["tools"], Value::from(TOOLS.to_vec()));
    assert_eq!((&last["type"], &last["exit_code"]), (&"result".into(), &0.into()));
    let texts: Vec<&str> = lines.iter().filter_map(|it| it["text"].as_str()).collect();
    assert_eq!(texts, ["Let me look.", "There i", "s a.txt.", "There is a.txt."]);
}

#[test]
fn every_line_names_the_permission_mode_unconfined_and_only_init_and_result_another_one() {
    let named = |mode: &str, options: &[&str]| {
        let options = [&["--json", "--permission-mode", mode], options].concat();
        let (done, _) = run(conversation(), &options);
        assert_eq!((done.status, done.stderr.as_str()), (0, ""));
        let lines = lines(&done.stdout);
        let types = lines.iter().filter(|it| it["permission_mode"] == mode);
        let types: Vec<String> = types.map(|it| it["type"].to_string()).collect();
        (types, lines.len())
    };
    for options in [&[][..], &["--no-session"]] {
        let (types, count) = named("unconfined", options);
        assert_eq!(types.len(), count, "{types:?}");
        let (types, _) = named("auto", options);
        assert_eq!(types, ["\"init\"", "\"result\""]);
    }
}

#[test]
fn every_line_of_the_format_events_names_the_mode_unconfined() {
    let unlabelled = |mode: &str| {
        let options = ["--output-format", "events", "--permission-mode", mode];
        let (done, _) = run(conversation(), &options);
        let told = done.stdout.lines().filter(|line| line.contains("[STEP]"));
        told.map(|line| line.contains("[unconfined] [STEP]")).collect::<Vec<_>>()
    };
    assert_eq!(unlabelled("unconfined"), [true; 4]);
    assert_eq!(unlabelled("auto"), [false; 4]);
}

#[test]
fn a_tool_that_fails_is_told_to_the_model_and_does_not_fail_the_run() {
    let call = streamed_tool("", "read_file", &serde_json::json!({"path": "../secret"}));
    let (done, server) = run(vec![call, streamed("I may not.", "stop")], &[]);
    assert_eq!(done.status, 0);
    assert!(done.stderr.starts_with("  ✗ read_file ../secret ·"), "{}", done.stderr);
    server.request();
    let told = server.request()["messages"][3]["content"].to_string();
    assert!(told.contains("outside the working directory"), "{told}");
}

#[test]
fn a_limit_ends_with_6() {
    let again = || streamed_call("Again.", "ls");
    let (done, _) = run(vec![again(), again()], &["--max-steps", "1"]);
    assert_eq!((done.status, done.stdout.as_str()), (6, "Again.\n"));
    let remark = "stopped: the step limit of 1 was reached; raise --max-steps to allow more\n";
    assert!(done.stderr.contains(remark), "{}", done.stderr);
    let (done, _) = run(vec![again(), again()], &["--max-tokens", "60", "-q"]);
    assert_eq!((done.status, done.stdout.as_str()), (6, ""));
    let (done, _) = run(vec![Reply::Nothing], &["--max-seconds", "0.2"]);
    assert_eq!(done.status, 6, "{}", done.stderr);
}

#[test]
fn an_answer_that_is_cut_off_or_filtered_is_printed_and_said_to_be() {
    let (done, _) = run(vec![streamed("As far as", "length")], &[]);
    assert_eq!((done.status, done.stdout.as_str()), (6, "As far as\n"));
    assert!(done.stderr.starts_with("the answer is incomplete"), "{}", done.stderr);
    let (done, _) = run(vec![streamed("As far as", "content_filter")], &["--json"]);
    assert_eq!(done.status, 8);
    let last = &lines(&done.stdout).pop().unwrap();
    assert_eq!(
        (&last["stop_reason"], &last["text"]),
        (&"content_filter".into(), &"As far as".into())
    );
}

#[test]
fn a_wrong_key_ends_with_4_and_another_refusal_with_5() {
    let (done, _) = run(vec![error(401, "Incorrect API key provided")], &[]);
    assert_eq!((done.status, done.stdout.as_str()), (4, ""));
    assert!(
        done.stderr.contains("error: ") && done.stderr.contains("Incorrect API key"),
        "{}",
        done.stderr
    );
    let (done, _) = run(vec![error(400, "bad request")], &["--output-format", "json"]);
    assert_eq!(done.status, 5);
    let report = &lines(&done.stdout)[0];
    assert_eq!((&report["status"], &report["stop_reason"]), (&"failed".into(), &"model".into()));
    assert!(report["errors"][0].as_str().unwrap().contains("bad request"), "{report}");
}

#[test]
fn a_provider_that_is_not_there_ends_with_5() {
    let url = nowhere();
    let done = World::new().run(&line(&url, &["--json"], "x"));
    assert_eq!(done.status, 5, "{}", done.stderr);
    let lines = lines(&done.stdout);
    assert_eq!(
        (&lines[0]["type"], &lines[lines.len() - 1]["type"]),
        (&"init".into(), &"result".into())
    );
    assert_eq!(lines[lines.len() - 1]["stop_reason"], "network");
    assert!(done.stderr.starts_with("error: openai-compatible: "), "{}", done.stderr);
}

#[test]
fn without_a_model_it_ends_with_4_and_says_what_to_do() {
    let world = lonely();
    let done = world.run(&["run", "x"]);
    assert_eq!((done.status, done.stdout.as_str()), (4, ""));
    assert!(!world.path(".local").exists());
    for remedy in ["OPENAI_API_KEY", "ollama", "provider/model", "loopwright demo"] {
        assert!(done.stderr.contains(remedy), "{remedy}: {}", done.stderr);
    }
    assert_eq!(done.stderr.lines().count(), 2, "{}", done.stderr);
    let done = lonely().run(&["run", "--json", "x"]);
    let lines = lines(&done.stdout);
    assert_eq!(lines.iter().map(|it| &it["type"]).collect::<Vec<_>>(), ["init", "result"]);
    assert_eq!((&lines[1]["exit_code"], &lines[1]["stop_reason"]), (&4.into(), &"no_model".into()));
    let done = lonely().run(&["run", "-m", "openai/gpt", "x"]);
    assert_eq!(done.status, 4);
    assert!(done.stderr.contains("set OPENAI_API_KEY"), "{}", done.stderr);
    assert_eq!(lonely().run(&["run", "-m", "nobody/x", "x"]).status, 4);
}

#[test]
fn a_server_on_this_machine_is_found() {
    let models = serde_json::json!({"object": "list", "data": [{"id": "tiny"}]});
    let server = Server::start([Reply::Whole(200, models), streamed("Hello.", "stop")]);
    let done = lonely().env("LM_STUDIO_BASE_URL", &server.url).run(&["run", "--json", "x"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(lines(&done.stdout)[0]["model"], "lm-studio/tiny");
}

#[test]
fn a_provider_of_the_user_is_reached_with_its_key() {
    let server = Server::start([streamed("Hello.", "stop")]);
    let config = format!(
        "model = 'mine/m'\n[providers.mine]\nbase_url = '{}'\nkey = 'env:MY_KEY'\n",
        server.url
    );
    let world = World::new().file(".config/loopwright/config.toml", &config);
    assert_eq!(world.run(&["run", "x"]).status, 4);
    let done = world.env("MY_KEY", "k").run(&["run", "x"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Hello.\n"));
    assert_eq!(server.request()["model"], "m");
    let config = "model = 'mine/m'\n[providers.mine]\nwire_api = 'telex'\n";
    let world = World::new().file(".config/loopwright/config.toml", config);
    assert_eq!(world.run(&["run", "x"]).status, 3);
}

#[test]
fn a_project_does_not_send_its_choice_of_model_to_the_address_of_the_user() {
    let server = Server::start([streamed("Hello.", "stop")]);
    let user = format!("base_url = '{}'", server.url);
    let world = World::new()
        .file(".config/loopwright/config.toml", &user)
        .file("project/loopwright.toml", "model = 'openai-compatible/m'");
    let done = world.run(&["run", "x"]);
    assert_eq!(done.status, 4, "{}", done.stderr);
    assert!(done.stderr.starts_with("warning: `base_url` of the user file"), "{}", done.stderr);
    let done = world.run(&["run", "-m", "openai-compatible/m", "x"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Hello.\n"));
}

#[test]
fn colours_are_for_terminals_and_for_those_who_insist() {
    let has_colours = |world: World, options: &[&str]| {
        let server = Server::start(conversation());
        let done = world.run(&line(&server.url, options, "x"));
        assert!(!done.stdout.contains('\u{1b}'));
        done.stderr.contains('\u{1b}')
    };
    assert!(!has_colours(World::new(), &[]));
    assert!(has_colours(World::new(), &["--color", "always"]));
    assert!(has_colours(World::new().env("CLICOLOR_FORCE", "1"), &[]));
    assert!(!has_colours(World::new().env("CLICOLOR_FORCE", "1"), &["--color", "never"]));
    assert!(!has_colours(World::new().env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1"), &[]));
}

#[test]
fn a_limit_of_money_that_cannot_be_kept_is_warned_about() {
    let (done, _) = run(conversation(), &["--max-cost", "1"]);
    assert_eq!(done.status, 0);
    assert_eq!(
        done.stderr.matches("warning: the prices of this model are unknown").count(),
        1,
        "{}",
        done.stderr
    );
}

#[test]
fn another_model_answers_when_the_first_cannot() {
    let server = Server::start([streamed("Hello.", "stop")]);
    let config = format!("[providers.mine]\nbase_url = '{}'\n", server.url);
    let world = World::new().file(".config/loopwright/config.toml", &config);
    let line = ["run", "-m", "openai/gpt", "--fallback", "mine/m", "x"];
    let done = world.run(&line);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Hello.\n"), "{}", done.stderr);
    assert_eq!(server.request()["model"], "m");
}

#[test]
fn prices_of_the_user_make_a_cost() {
    let server = Server::start([streamed("Hello.", "stop")]);
    let prices = "[models.'openai-compatible/test']\nprices = { input = 1, output = 2 }";
    let world = World::new().file(".config/loopwright/config.toml", prices);
    let done = world.run(&line(&server.url, &["--output-format", "json", "--max-cost", "1"], "x"));
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(lines(&done.stdout)[0]["cost_usd"], 70.0 / 1e6);
    assert!(!done.stderr.contains("the prices of this model are unknown"), "{}", done.stderr);
}

#[test]
fn a_run_that_was_recorded_is_repeated_without_a_provider() {
    let server = Server::start(conversation());
    let world = World::new();
    let recorded = world.run(&line(&server.url, &["--record", "../tape.jsonl"], "What is here?"));
    assert_eq!((recorded.status, recorded.stdout.lines().count()), (0, 2), "{}", recorded.stderr);
    let url = nowhere();
    let replay = |prompt| world.run(&line(&url, &["--replay", "../tape.jsonl"], prompt));
    assert_eq!(replay("What is here?").stdout, recorded.stdout);
    let other = replay("What is there?");
    assert_eq!(other.status, 5);
    assert!(other.stderr.contains("the recording has no response to POST"), "{}", other.stderr);
}

#[test]
fn a_recording_that_is_none_is_wrong_usage() {
    let done = World::new().run(&line("http://localhost/v1", &["--replay", "a.txt"], "x"));
    assert_eq!(done.status, 2);
    assert_eq!(done.stderr, "error: a.txt is not a recording of this version; record it again\n");
}

#[test]
fn commands_run_in_a_sandbox_and_files_are_changed_in_place() {
    let write = serde_json::json!({"path": "a.txt", "content": "new\n", "overwrite": true});
    let replies = vec![
        streamed_call("", "mkdir -p sub && cd sub && echo x > y; touch ~/escaped ../../escaped"),
        streamed_call("", "pwd; ls; exit 3"),
        streamed_tool("", "write_file", &write),
        streamed("Done.", "stop"),
    ];
    let server = Server::start(replies);
    let world = World::new();
    let done = world.run(&line(&server.url, &[], "Go."));
    assert_eq!(done.status, 0, "{}", done.stderr);
    let told = |request: &Value| {
        request["messages"].as_array().unwrap().last().unwrap()["content"].clone()
    };
    server.request();
    let first = told(&server.request()).to_string();
    assert!(first.contains("../../escaped"), "{first}");
    let second = told(&server.request());
    let sub = world.path("project/sub");
    assert_eq!(second, format!("Exit code: 3\n\n{}\ny", sub.display()));
    assert_eq!(std::fs::read_to_string(world.path("project/a.txt")).unwrap(), "new\n");
    assert!(!world.path("escaped").exists());
}

/// A provider whose tokens cost ten dollars a million, whether read or written.
fn priced(replies: Vec<Reply>) -> (World, Server) {
    let server = Server::start(replies);
    let config = format!(
        "model = 'mine/m'\n[providers.mine]\nbase_url = '{}'\nwire_api = 'openai-chat'\n\
         [models.'mine/m']\nprices = {{ input = 10, output = 10 }}\n",
        server.url
    );
    (World::new().file(".config/loopwright/config.toml", &config), server)
}

#[test]
fn a_request_that_costs_more_than_the_limit_is_not_sent() {
    let (world, server) = priced(vec![streamed("Never.", "stop")]);
    let done = world.run(&["run", "--max-cost", "0.000001", "hi"]);
    assert_eq!((done.status, done.stdout.as_str()), (6, ""), "{}", done.stderr);
    assert!(done.stderr.contains("raise --max-cost to allow more"), "{}", done.stderr);
    assert!(!server.was_asked());
}

#[test]
fn money_that_was_spent_above_the_limit_is_told() {
    let calls = || vec![streamed_call("Look.", "ls"), streamed_call("Look.", "ls")];
    // Sixty tokens a step cost $0.0006; what is read costs less than $0.05 beforehand.
    let limit = ["run", "--max-cost", "0.05", "--json", "hi"];
    let (world, _server) = priced(calls());
    let last = |done: &Done| lines(&done.stdout).pop().unwrap();
    let done = world.run(&limit);
    assert_eq!(last(&done)["cost_over_limit_usd"], Value::Null);
    let costly = Reply::Whole(
        200,
        serde_json::json!({
            "id": "c", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 6000, "completion_tokens": 0, "total_tokens": 6000},
        }),
    );
    let (world, _server) = priced(vec![costly]);
    let done = world.run(&["run", "--no-stream", "--max-cost", "0.05", "hi"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Done.\n"), "{}", done.stderr);
    let told = "spent $0.0600, $0.0100 over the limit of $0.0500";
    assert!(done.stderr.contains(told), "{}", done.stderr);
}

#[test]
fn a_run_that_goes_on_after_a_limit_has_all_of_its_own_limit_of_money() {
    // Each answer costs $0.06.
    let costly = |command| match whole("Look.", command) {
        Reply::Whole(status, mut answer) => {
            answer["usage"] = serde_json::json!({"prompt_tokens": 6000, "completion_tokens": 0});
            Reply::Whole(status, answer)
        }
        reply => reply,
    };
    let (world, _server) = priced(vec![costly(Some("ls")), costly(None)]);
    let limits = ["run", "--no-stream", "--max-cost", "0.1", "--output-format", "json"];
    let report = |more: &[&str]| {
        let done = world.run(&[&limits[..], more].concat());
        (lines(&done.stdout).pop().unwrap(), done.stderr)
    };
    assert_eq!(report(&["--max-steps", "1", "hi"]).0["stop_reason"], "steps_limit");
    let (second, told) = report(&["--continue"]);
    assert_eq!((&second["exit_code"], &second["cost_usd"]), (&0.into(), &0.12.into()), "{second}");
    assert_eq!((&second["cost_over_limit_usd"], told.as_str()), (&Value::Null, ""));
}

#[test]
fn a_limit_of_the_session_holds_over_its_turns_and_is_told_apart() {
    let answers = ["One.", "Two.", "Three."].map(|it| streamed(it, "stop"));
    let server = Server::start(answers);
    let world = World::new();
    let say = |options: &[&str]| world.run(&line(&server.url, options, "go"));
    // Each turn takes sixty tokens.
    let done = say(&["--max-session-tokens", "100"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let done = say(&["--continue"]);
    assert_eq!((done.status, done.stdout.as_str()), (6, ""), "{}", done.stderr);
    assert!(done.stderr.contains("session limit"), "{}", done.stderr);
    assert!(done.stderr.contains("raise --max-session-tokens"), "{}", done.stderr);
    let done = say(&["--continue", "--max-session-tokens", "200", "--max-tokens", "100"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Two.\n"), "{}", done.stderr);
    // A limit of the turn begins anew with each.
    let done = say(&["--continue", "--max-tokens", "100"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Three.\n"), "{}", done.stderr);
}

#[test]
fn a_limit_of_the_session_holds_within_a_step() {
    let (done, _) = run(vec![Reply::Nothing], &["--max-session-seconds", "0.2"]);
    assert_eq!((done.status, done.stdout.as_str()), (6, ""), "{}", done.stderr);
    let told = "stopped: session limit: the time limit of 0.2 seconds was reached; raise --max-session-seconds";
    assert!(done.stderr.contains(told), "{}", done.stderr);
    // What a request costs at least is known before it is sent.
    let (world, server) = priced(vec![streamed("Never.", "stop")]);
    let done = world.run(&["run", "--max-session-cost", "0.000001", "hi"]);
    assert_eq!((done.status, done.stdout.as_str()), (6, ""), "{}", done.stderr);
    assert!(done.stderr.contains("session limit"), "{}", done.stderr);
    assert!(done.stderr.contains("raise --max-session-cost to allow more"), "{}", done.stderr);
    assert!(!server.was_asked());
}

#[test]
fn money_that_was_spent_above_the_limit_of_the_session_is_told() {
    let costly = Reply::Whole(
        200,
        serde_json::json!({
            "id": "c", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 6000, "completion_tokens": 0, "total_tokens": 6000},
        }),
    );
    let (world, _server) = priced(vec![costly]);
    let done = world.run(&["run", "--no-stream", "--max-session-cost", "0.05", "hi"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Done.\n"), "{}", done.stderr);
    let told = "spent $0.0600, $0.0100 over the limit of $0.0500";
    assert!(done.stderr.contains(told), "{}", done.stderr);
}

#[test]
fn an_empty_answer_has_an_exit_code_of_its_own() {
    let (done, _) = run(vec![streamed("", "stop")], &["--json"]);
    assert_eq!(done.status, 10, "{}", done.stderr);
    let result = lines(&done.stdout).pop().unwrap();
    assert_eq!((&result["stop_reason"], &result["text"]), (&"empty".into(), &"".into()));
}

#[test]
fn a_session_is_listed_with_the_ending_of_its_last_run() {
    let server = Server::start([streamed("One.", "stop"), error(400, "no such parameter")]);
    let world = World::new();
    let listed = || {
        let listed = world.run(&["sessions", "list", "--json"]);
        let words: Vec<String> =
            world.run(&["sessions", "list"]).stdout.split_whitespace().map(Into::into).collect();
        (lines(&listed.stdout).remove(0)["sessions"][0]["last_run"].clone(), words)
    };
    assert_eq!(world.run(&line(&server.url, &[], "go")).status, 0);
    let (json, words) = listed();
    assert_eq!((json, words.contains(&"completed".to_owned())), ("completed".into(), true));
    assert_eq!(world.run(&line(&server.url, &["--continue"], "go")).status, 5);
    let (json, words) = listed();
    assert_eq!((json, words.contains(&"failed".to_owned())), ("failed".into(), true));
}

#[test]
fn a_summary_that_is_made_on_the_way_is_no_part_of_the_answer() {
    let long = "word ".repeat(4000);
    let said = [long.as_str(), "two", "three", "four", "five"].map(|text| streamed(text, "stop"));
    let rest = [
        error(400, "this model's maximum context length is 4096 tokens"),
        whole("the summary", None),
        streamed("six", "stop"),
    ];
    for format in ["text", "stream-json"] {
        let world = World::new();
        let server = Server::start(said.iter().chain(&rest).cloned());
        let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
        world.run_with(&[&["chat"], &model[..]].concat(), "1?\n2?\n3?\n4?\n5?\n");
        let last = ["--continue", "--output-format", format, "6?"];
        let done = world.run(&[&["run"], &model[..], &last[..]].concat());
        let sent = std::iter::from_fn(|| server.taken()).last().unwrap();
        assert!(sent["messages"].to_string().contains("the summary"), "{}", sent["messages"]);
        let (says_six, says_more) = (done.stdout.contains("six"), done.stdout.contains("summary"));
        assert_eq!((done.status, says_six, says_more), (0, true, false), "{}", done.stdout);
    }
}
