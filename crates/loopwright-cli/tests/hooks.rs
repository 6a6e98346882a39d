//! Commands of the user's that run at events.

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::world::{Done, World};

const OWN: &str = ".config/loopwright/hooks.json";

pub(crate) fn run(world: &World, replies: Vec<Reply>, options: &[&str]) -> (Done, Vec<String>) {
    let server = Server::start(replies);
    let model = ["run", "-m", "openai-compatible/test", "--base-url"];
    let done = world.run(&[&model[..], &[&server.url], options, &["Go."]].concat());
    let requests = server.heard().into_iter().map(|(_, body)| body.to_string()).collect();
    (done, requests)
}

pub(crate) fn removing() -> Vec<Reply> {
    vec![streamed_call("", "rm a.txt"), streamed("Done.", "stop")]
}

fn settings(event: &str, matcher: &str, command: &str) -> String {
    let hook = json!({ "type": "command", "command": command, "timeout": 20 });
    json!({ "hooks": { event: [{ "matcher": matcher, "hooks": [hook] }] } }).to_string()
}

fn with(event: &str, matcher: &str, command: &str) -> World {
    World::new().file(OWN, &settings(event, matcher, command))
}

fn answer(fields: &Value) -> String {
    let answer = json!({ "hookSpecificOutput": fields }).to_string();
    format!("cat > /dev/null; echo '{answer}'")
}

pub(crate) fn is_there(world: &World) -> bool {
    world.path("project/a.txt").exists()
}

#[test]
fn a_hook_sees_the_call_and_blocks_it_with_a_reason_for_the_model() {
    let world = with(
        "PreToolUse",
        "Bash",
        "grep -q '\"command\":\"rm a.txt\"' && { echo keep it >&2; exit 2; }",
    );
    let (done, requests) = run(&world, removing(), &[]);
    assert!(is_there(&world), "{}", done.stderr);
    assert!(requests[1].contains("blocked by a hook: keep it"), "{}", requests[1]);
    let other = with("PreToolUse", "Edit|Write", "exit 2");
    run(&other, removing(), &[]);
    assert!(!is_there(&other));
}

#[test]
fn an_agent_cannot_change_a_script_that_a_hook_runs() {
    let guard = "grep -q 'rm a' && exit 2; exit 0\n";
    let world = with("PreToolUse", "Bash", "sh ci/guard.sh").file("project/ci/guard.sh", guard);
    let write = json!({ "path": "ci/guard.sh", "content": "exit 0\n", "overwrite": true });
    for options in [&[][..], &["--continue"]] {
        let replies = vec![
            streamed_tool("", "write_file", &write),
            streamed_call("", "echo exit 0 > ci/guard.sh"),
            streamed_call("", "mv ci old; mkdir ci; echo exit 0 > ci/guard.sh"),
            streamed_call("", "rm a.txt"),
            streamed("Done.", "stop"),
        ];
        let (done, requests) = run(&world, replies, options);
        let script = std::fs::read_to_string(world.path("project/ci/guard.sh")).unwrap();
        assert_eq!((is_there(&world), script.as_str()), (true, guard), "{}", done.stderr);
        assert!(requests[4].contains("blocked by a hook"), "{}", requests[4]);
    }
}

#[test]
fn an_agent_cannot_replace_a_program_of_the_system_that_a_hook_runs() {
    let world = with("PreToolUse", "Bash", "grep -q 'rm a' && exit 2; exit 0")
        .file("project/.venv/pyvenv.cfg", "home = /usr/bin\n");
    let plant = "mkdir -p .venv/bin && cd .venv/bin && printf '#!/bin/sh\\nexit 1\\n' > grep && chmod +x grep";
    let replies =
        vec![streamed_call("", plant), streamed_call("", "rm a.txt"), streamed("Done.", "stop")];
    let (done, requests) = run(&world, replies, &[]);
    assert!(world.path("project/.venv/bin/grep").exists(), "{}", requests[1]);
    assert!(is_there(&world), "{}", done.stderr);
}

#[test]
fn a_program_that_an_agent_can_change_replaces_none_of_the_system_for_a_hook() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = with("PreToolUse", "Bash", "grep -q 'rm a' && exit 2; exit 0")
        .file(".config/loopwright/config.toml", "[sandbox]\npath = [\"tools\"]\n")
        .file("project/tools/grep", "#!/bin/sh\nexec /usr/bin/grep \"$@\"\n");
    let program = world.path("project/tools/grep");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let plant = "#!/bin/sh\nexit 1\n";
    let write = json!({ "path": "tools/grep", "content": plant, "overwrite": true });
    let replies = vec![
        streamed_tool("", "write_file", &write),
        streamed_call("", "rm a.txt"),
        streamed("Done.", "stop"),
    ];
    let (done, requests) = run(&world, replies, &[]);
    let planted = std::fs::read_to_string(&program).unwrap();
    let mode = std::fs::metadata(&program).unwrap().permissions().mode();
    assert_eq!((planted.as_str(), mode & 0o100), (plant, 0o100), "{}", requests[1]);
    assert!(is_there(&world), "{}", done.stderr);
}

#[test]
fn a_hook_compares_the_file_of_a_call_with_the_project() {
    let guard =
        "grep -qF \"\\\"file_path\\\":\\\"$CLAUDE_PROJECT_DIR/a.txt\\\"\" && exit 2; exit 0";
    let world = with("PreToolUse", "Write|Edit", guard);
    let write = |path| {
        let arguments = json!({ "path": path, "content": "new\n", "overwrite": true });
        streamed_tool("", "write_file", &arguments)
    };
    let replies = vec![write("./a.txt"), write("b.txt"), streamed("Done.", "stop")];
    let (done, _) = run(&world, replies, &[]);
    let text = |name: &str| std::fs::read_to_string(world.path(name)).unwrap();
    let found = (text("project/a.txt"), text("project/b.txt"));
    assert_eq!(found, ("one\ntwo\n".to_owned(), "new\n".to_owned()), "{}", done.stderr);
}

#[test]
fn a_hook_that_allows_does_not_override_rules() {
    let world = with("PreToolUse", "Bash", &answer(&json!({ "permissionDecision": "allow" })));
    run(&world, removing(), &["--deny", "Bash(rm *)"]);
    assert!(is_there(&world));
    run(&world, removing(), &["--ask", "Bash(rm *)", "--on-ask", "deny"]);
    assert!(is_there(&world));
    run(&world, removing(), &[]);
    assert!(!is_there(&world));
}

#[test]
fn a_hook_asks_and_changes_arguments() {
    let world = with("PreToolUse", "Bash", &answer(&json!({ "permissionDecision": "ask" })));
    let (done, _) = run(&world, removing(), &[]);
    assert_eq!((done.status, is_there(&world)), (9, true), "{}", done.stderr);
    let updated = json!({ "updatedInput": { "command": "mv a.txt b.txt" } });
    let world = with("PreToolUse", "Bash", &answer(&updated));
    run(&world, removing(), &[]);
    assert!(world.path("project/b.txt").exists());
    // What a hook makes of a call is decided about like the call.
    let world = with("PreToolUse", "Bash", &answer(&updated));
    run(&world, removing(), &["--deny", "Bash(mv *)"]);
    assert!(!world.path("project/b.txt").exists());
}

#[test]
fn a_hook_that_asks_and_changes_arguments_asks_about_the_changed_call() {
    let fields = json!({
        "permissionDecision": "ask", "updatedInput": { "command": "mv a.txt b.txt" },
    });
    // The second hook has no question about the call that it made.
    let once = format!("grep -q '\"rm a.txt\"' || exit 0; {}", answer(&fields));
    for hook in [answer(&fields), once] {
        let world = with("PreToolUse", "Bash", &hook).file("project/a.txt", "x");
        let server = Server::start(removing());
        let go = |options: &[&str]| {
            let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
            let done = world.run(&[&model[..], &["--output-format", "json"], options].concat());
            let report: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
            (done.status, report)
        };
        let (status, report) = go(&["Go."]);
        let shown = &report["pending"][0]["arguments"];
        assert_eq!((status, shown), (9, &json!({ "command": "mv a.txt b.txt" })));
        let id = report["session_id"].as_str().unwrap();
        assert_eq!(world.run(&["sessions", "decide", id, "approve"]).status, 0);
        assert_eq!(go(&["--resume", id]).0, 0);
        let there = ["a.txt", "b.txt"].map(|it| world.path("project").join(it).exists());
        assert_eq!(there, [false, true]);
    }
}

#[test]
fn an_approval_covers_what_hooks_made_of_the_call_and_nothing_that_other_hooks_make_of_it_later() {
    let moving = |to: &str| {
        let input = json!({ "command": format!("mv a.txt {to}") });
        settings("PreToolUse", "Bash", &answer(&json!({ "updatedInput": input })))
    };
    let world = World::new().file("project/a.txt", "x").file(OWN, &moving("b.txt"));
    let server = Server::start(removing());
    let go = |options: &[&str]| {
        let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let ask = ["--permission-mode", "ask", "--output-format", "json"];
        let done = world.run(&[&model[..], &ask, options].concat());
        let report: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
        (done.status, report["pending"][0]["arguments"].clone(), report)
    };
    let (status, shown, report) = go(&["Go."]);
    assert_eq!((status, shown), (9, json!({ "command": "mv a.txt b.txt" })));
    let id = report["session_id"].as_str().unwrap();
    let approve = || assert_eq!(world.run(&["sessions", "decide", id, "approve"]).status, 0);
    approve();
    std::fs::write(world.path(OWN), moving("c.txt")).unwrap();
    let (status, shown, _) = go(&["--resume", id]);
    assert_eq!((status, shown), (9, json!({ "command": "mv a.txt c.txt" })));
    assert!(is_there(&world));
    approve();
    assert_eq!(go(&["--resume", id]).0, 0);
    let moved = ["a.txt", "b.txt", "c.txt"].map(|it| world.path("project").join(it).exists());
    assert_eq!(moved, [false, false, true]);
}

#[test]
fn hooks_add_context_at_prompts_results_and_stops() {
    let world = with("UserPromptSubmit", "", "echo it is Monday");
    let (_, requests) = run(&world, vec![streamed("Done.", "stop")], &[]);
    assert!(requests[0].contains("it is Monday"), "{}", requests[0]);
    let world = with("PostToolUse", "Bash", "echo run the tests >&2; exit 2");
    let (_, requests) = run(&world, removing(), &[]);
    assert!(requests[1].contains("run the tests"), "{}", requests[1]);
    let stop = "grep -q '\"stop_hook_active\":true' || { echo not before noon >&2; exit 2; }";
    let world = with("Stop", "", stop);
    let replies = vec![streamed("Done.", "stop"), streamed("Really done.", "stop")];
    let (done, requests) = run(&world, replies, &[]);
    assert!(requests[1].contains("not before noon"), "{requests:?}");
    assert!(done.stdout.contains("Really done."), "{}", done.stdout);
}

#[test]
fn the_end_of_a_sub_agent_is_reported_with_its_id_and_its_name() {
    let agent = "---\nname: helper\ndescription: D.\n---\n\nGo.\n";
    let world =
        with("SubagentStop", "", "cat > seen.json").file("project/.claude/agents/helper.md", agent);
    let spawn = json!({ "subagent": "helper", "prompt": "Help." });
    let ends = ["Helped.", "Done."].map(|text| streamed(text, "stop"));
    let replies = [streamed_tool("", "spawn_subagent", &spawn)].into_iter().chain(ends);
    let (done, _) = run(&world, replies.collect(), &[]);
    let seen = std::fs::read_to_string(world.path("project/seen.json"));
    let seen: Value = serde_json::from_str(&seen.expect(&done.stderr)).unwrap();
    let [id, parent] = ["agent_id", "parent_agent_id"].map(|it| seen[it].as_str());
    assert_eq!(seen["agent_type"], "helper", "{seen}");
    assert!(id.is_some() && parent.is_some() && id != parent, "{seen}");
}

#[test]
fn a_hook_that_cannot_be_read_blocks_the_calls_that_it_could_match() {
    let blocks = |groups: &Value, told: &str| {
        let file = json!({ "hooks": { "PreToolUse": groups } }).to_string();
        let world = World::new().file(OWN, &file);
        let (done, requests) = run(&world, removing(), &[]);
        assert!(is_there(&world), "{}", done.stderr);
        assert!(done.stderr.contains(told), "{}", done.stderr);
        assert!(requests[1].contains("blocked by a hook: "), "{}", requests[1]);
    };
    let guard = json!({ "hooks": [{ "type": "command", "command": "exit 2" }] });
    let place = "/.config/loopwright/hooks.json:1: ";
    blocks(
        &json!([{ "matcher": "x" }, guard]),
        &format!("{place}an entry in `hooks.PreToolUse` has no"),
    );
    blocks(
        &json!([7]),
        &format!("{place}an entry in `hooks.PreToolUse` is not an object, so calls"),
    );
    let late = json!([{ "matcher": {}, "hooks": [{ "type": "command", "command": "exit 2", "timeout": "60" }] }]);
    blocks(&late, &format!("{place}`timeout` of a hook in `hooks.PreToolUse` is not a number"));
    let prompt = json!([{ "matcher": "Bash", "hooks": [{ "type": "prompt", "prompt": "safe?" }] }]);
    let file = json!({ "hooks": { "PreToolUse": prompt } }).to_string();
    let world = World::new().file(OWN, &file);
    let (done, _) = run(&world, removing(), &[]);
    assert_eq!((done.status, is_there(&world)), (9, true), "{}", done.stderr);
}

#[test]
fn hooks_know_the_session_and_the_sub_agent_of_a_call() {
    let child = "---\nname: child\ndescription: a child\n---\nWork.\n";
    let world = with("PreToolUse", "Bash|Task", "cat >> seen.jsonl; echo >> seen.jsonl")
        .file(".config/loopwright/agents/child.md", child);
    let spawn = json!({ "subagent": "child", "prompt": "Do it." });
    let replies = vec![
        streamed_tool("", "spawn_subagent", &spawn),
        streamed_call("", "echo hi"),
        streamed("Did it.", "stop"),
        streamed("Done.", "stop"),
    ];
    let (done, _) = run(&world, replies, &["--output-format", "json"]);
    let report: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    let seen = std::fs::read_to_string(world.path("project/seen.jsonl")).unwrap();
    let seen: Vec<Value> = seen.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let fields = ["tool_name", "session_id", "agent_type", "parent_agent_id"];
    let seen: Vec<Value> =
        seen.iter().map(|it| fields.iter().map(|field| it[field].clone()).collect()).collect();
    let [session, agent] = ["session_id", "agent_id"].map(|it| report[it].clone());
    assert!(session.is_string() && session != agent, "{report}");
    assert_eq!(
        seen,
        [json!(["Task", session, null, null]), json!(["Bash", session, "child", agent])],
        "{}",
        done.stderr
    );
}

#[test]
fn a_hook_that_is_asked_once_runs_for_one_call_of_a_session() {
    let hook = json!({ "type": "command", "command": "echo x >> ran", "once": true });
    let file = json!({ "hooks": { "PreToolUse": [{ "hooks": [hook] }] } }).to_string();
    let world = World::new().file(OWN, &file);
    let replies =
        vec![streamed_call("", "echo 1"), streamed_call("", "echo 2"), streamed("Done.", "stop")];
    run(&world, replies, &[]);
    assert_eq!(std::fs::read_to_string(world.path("project/ran")).unwrap(), "x\n");
}

#[test]
fn a_call_that_a_hook_asks_about_waits_over_restarts_even_without_the_hook() {
    for once in [false, true] {
        let command = answer(&json!({ "permissionDecision": "ask" }));
        let hook = json!({ "type": "command", "command": command, "once": once });
        let file = json!({ "hooks": { "PreToolUse": [{ "hooks": [hook] }] } }).to_string();
        let world = World::new().file(OWN, &file).file("project/a.txt", "x");
        let server = Server::start(removing());
        let go = |options: &[&str]| {
            let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
            let done = world.run(&[&model[..], options].concat());
            (done.status, is_there(&world))
        };
        assert_eq!(go(&["Go."]), (9, true));
        assert_eq!(go(&["--continue"]), (9, true));
        std::fs::remove_file(world.path(OWN)).unwrap();
        assert_eq!(go(&["--continue"]), (9, true));
        let listed: Value =
            serde_json::from_str(&world.run(&["sessions", "list", "--json"]).stdout).unwrap();
        let id = listed["sessions"][0]["id"].as_str().unwrap();
        assert_eq!(world.run(&["sessions", "decide", id, "approve"]).status, 0);
        assert_eq!(go(&["--continue"]), (0, false));
    }
}

#[test]
fn a_hook_replaces_the_result_that_the_model_sees() {
    let world = with("PostToolUse", "Bash", &answer(&json!({ "updatedToolOutput": "[redacted]" })));
    let replies = vec![streamed_call("", "echo sec''ret"), streamed("Done.", "stop")];
    let (_, requests) = run(&world, replies, &[]);
    assert!(requests[1].contains("[redacted]"), "{}", requests[1]);
    assert!(!requests[1].contains("\"secret"), "{}", requests[1]);
}

#[test]
fn a_blocked_prompt_reaches_no_model() {
    // No message has a name that a matcher could match.
    for matcher in ["", "Bash"] {
        let world = with("UserPromptSubmit", matcher, "echo no secrets >&2; exit 2");
        let (done, requests) = run(&world, vec![streamed("Done.", "stop")], &[]);
        assert_eq!(requests.len(), 0, "{requests:?}");
        assert!(
            done.stderr.contains("no secrets") || done.stdout.contains("no secrets"),
            "{}",
            done.stderr
        );
    }
}

#[test]
fn hooks_run_in_the_sandbox_and_end_with_their_time() {
    let world = World::new().file("secret", "hidden");
    let secret = world.path("secret").display().to_string();
    let command = format!("cat {secret} >&2; curl -s -m 2 http://127.0.0.1:1/; exit 2");
    let world = world.file(OWN, &settings("PreToolUse", "Bash", &command));
    let (_, requests) = run(&world, removing(), &[]);
    assert!(requests[1].contains("blocked by a hook: cat: "), "{}", requests[1]);
    assert!(!requests[1].contains("hidden"), "{}", requests[1]);
    let late = settings("PreToolUse", "Bash", "sleep 60").replace("20", "1");
    let world =
        World::new().file(OWN, &late.replace("\"timeout\"", "\"onFailure\":\"block\",\"timeout\""));
    let (done, _) = run(&world, removing(), &[]);
    assert!(is_there(&world), "{}", done.stderr);
    assert!(done.stderr.contains("ran longer than allowed"), "{}", done.stderr);
}

#[test]
fn a_hook_in_a_subfolder_does_not_read_what_a_rule_of_its_project_denies() {
    let command = "cat $CLAUDE_PROJECT_DIR/.env $CLAUDE_PROJECT_DIR/plain >&2; exit 2";
    let world = World::new()
        .file("project/.git/HEAD", "ref: refs/heads/main\n")
        .file("project/.env", "sesame")
        .file("project/plain", "legible")
        .file("project/sub/a.txt", "a")
        .file("project/.claude/settings.json", r#"{ "permissions": { "deny": ["Read(/.env)"] } }"#);
    let world = world.file(OWN, &settings("PreToolUse", "Bash", command));
    let (_, requests) = run(&world, removing(), &["-C", "sub"]);
    assert!(requests[1].contains("legible") && !requests[1].contains("sesame"), "{}", requests[1]);
}

#[test]
fn a_script_in_the_home_of_the_user_is_found_in_the_sandbox() {
    let script = "#!/bin/sh\necho from home >&2; exit 2\n";
    let world = World::new().file(".claude/hooks/check.sh", script);
    let world = world.file(OWN, &settings("PreToolUse", "Bash", "sh ~/.claude/hooks/check.sh"));
    let (_, requests) = run(&world, removing(), &[]);
    assert!(requests[1].contains("from home"), "{}", requests[1]);
}

#[test]
fn a_call_that_waits_is_told_to_hooks() {
    let world = with("Notification", "", "cat > notified.json");
    let (done, _) = run(&world, removing(), &["--permission-mode", "ask"]);
    assert_eq!(done.status, 9, "{}", done.stderr);
    let told = std::fs::read_to_string(world.path("project/notified.json")).unwrap();
    assert!(told.contains("permission_prompt"), "{told}");
}

#[test]
fn no_hook_is_counted_in_a_file_that_cannot_be_read() {
    let world = World::new()
        .file("project/.claude/settings.json", "{ \"hooks\": ")
        .file(".claude/settings.json", "{");
    let told = world.run(&["policy", "show"]).stderr;
    let warned = |name: &str| {
        format!("warning: {name}:1: the file cannot be read, so every call needs approval: ")
    };
    for name in ["/project/.claude/settings.json", "/.claude/settings.json"] {
        assert!(told.contains(&warned(name)), "{name}: {told}");
    }
    assert!(!told.contains("hook"), "{told}");
}

#[test]
fn hooks_of_a_project_run_when_it_is_trusted() {
    let world = World::new()
        .file("project/.claude/settings.json", &settings("PreToolUse", "Bash", "exit 2"));
    let (done, _) = run(&world, removing(), &[]);
    assert!(!is_there(&world));
    assert!(done.stderr.contains("1 hook is ignored"), "{}", done.stderr);
    let world = world.file("project/a.txt", "a");
    assert_eq!(world.run(&["trust", "--yes"]).status, 0);
    let shown = world.run(&["policy", "show"]).stdout;
    assert!(shown.contains("hook PreToolUse Bash: exit 2"), "{shown}");
    let (_, requests) = run(&world, removing(), &[]);
    assert!(requests[1].contains("blocked by a hook"), "{}", requests[1]);
    assert!(is_there(&world));
}
