//! Options that scripts of other agent programs contain, and their effects.

use serde_json::{Value, json};

use crate::mcp::SERVER;
use crate::server::{Server, streamed, streamed_tool};
use crate::world::{Done, World};

/// Runs the program as another one is called, and returns the requests.
fn run(world: &World, line: &[&str]) -> (Done, Vec<Value>) {
    let server = Server::start([streamed("Done.", "stop")]);
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run(&[&model, line].concat());
    (done, server.heard().into_iter().map(|it| it.1).collect())
}

fn answered(world: &World, line: &[&str]) -> (Done, Value) {
    let (done, mut requests) = run(world, line);
    assert_eq!((done.status, requests.len()), (0, 1), "{line:?}: {done:?}");
    (done, requests.remove(0))
}

/// The tools of MCP servers that the model finds.
fn found(world: &World, options: &[&str]) -> Vec<&'static str> {
    let search = streamed_tool("", "mcp_search", &json!({"query": "greet"}));
    let server = Server::start([search, streamed("Done.", "stop")]);
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run(&[&model, options, &["-p", "Go on."]].concat());
    assert_eq!(done.status, 0, "{done:?}");
    let request = server.heard().pop().unwrap().1.to_string();
    let all = ["mcp__named__greet", "mcp__own__greet", "mcp__typed__greet"];
    all.into_iter().filter(|it| request.contains(it)).collect()
}

/// The IDs and titles of the sessions of the directory.
fn sessions(world: &World) -> Vec<(String, String)> {
    let listed = world.run(&["sessions", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let found = listed["sessions"].as_array().unwrap().iter();
    let mut found: Vec<_> = found.map(|it| (text(it, "id"), text(it, "title"))).collect();
    found.sort();
    found
}

fn servers(name: &str) -> String {
    json!({"mcpServers": {name: {"command": "sh", "args": ["server.sh"]}}}).to_string()
}

#[test]
fn verbose_streams_need_no_other_option() {
    let verbose = ["--verbose", "--include-partial-messages"];
    let line = [&["-p"][..], &verbose, &["--output-format", "stream-json", "Go on."]].concat();
    let (done, _) = answered(&World::new(), &line);
    let first: Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "init");
}

#[test]
fn named_servers_start_without_trust_and_beside_the_others() {
    let world = World::new()
        .file("project/server.sh", SERVER)
        .file(".config/loopwright/mcp.json", &servers("own"))
        .file("named.json", &servers("named"));
    let object = servers("typed");
    let named = ["--mcp-config", "../named.json", "--mcp-config", &object];
    let all = ["mcp__named__greet", "mcp__own__greet", "mcp__typed__greet"];
    assert_eq!(found(&world, &named), all);
    let strict = [&named[..], &["--strict-mcp-config"]].concat();
    assert_eq!(found(&world, &strict), ["mcp__named__greet", "mcp__typed__greet"]);
    assert_eq!(found(&world, &["--bare", named[0], named[1]]), ["mcp__named__greet"]);
}

#[test]
fn servers_that_cannot_be_used_are_wrong_usage() {
    let world = World::new();
    for (named, told) in [
        ("gone.json", "cannot read the servers"),
        ("{}", "it has no servers"),
        ("{\"mcpServers\": 1}", "not a valid MCP server file"),
        (r#"{"mcpServers": {"x": {"type": "stdio"}}}"#, "`x`"),
        ("/dev/zero", "it is a device, not a regular file"),
    ] {
        let (done, requests) = run(&world, &["--mcp-config", named, "-p", "Go on."]);
        assert!(done.status == 2 && done.stderr.contains(told), "{named}: {done:?}");
        assert_eq!(requests, [] as [Value; 0]);
    }
}

#[test]
fn a_session_has_the_id_that_was_chosen() {
    let world = World::new();
    let id = "0f3e8a52-6a4b-4d4e-9d0c-6d6f0e1c2b3a";
    answered(&world, &["--session-id", id, "-p", "Begin."]);
    let expect = [(id.to_owned(), "Begin.".to_owned())];
    assert_eq!(sessions(&world), expect);
    let (taken, requests) = run(&world, &["--session-id", id, "-p", "Begin."]);
    assert!(taken.status == 2 && taken.stderr.contains("is already taken"), "{taken:?}");
    assert_eq!((requests, sessions(&world)), (vec![], expect.to_vec()));
}

#[test]
fn a_forked_session_leaves_the_one_that_is_resumed_as_it_is() {
    let world = World::new();
    answered(&world, &["--session-id", "first", "-p", "Begin."]);
    for (resumed, copy) in [(&["-c"][..], "second"), (&["--resume", "first"], "third")] {
        let fork = ["--fork-session", "--session-id", copy, "-p", "And now?"];
        let (_, request) = answered(&world, &[resumed, &fork].concat());
        let messages = request["messages"].to_string();
        assert!(messages.contains("Begin.") && messages.contains("And now?"), "{messages}");
    }
    let ids: Vec<String> = sessions(&world).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["first", "second", "third"]);
    let shown = world.run(&["sessions", "show", "first"]);
    assert!(!shown.stdout.contains("And now?"), "{shown:?}");
}

#[test]
fn modes_of_other_programs_decide_as_their_own_do() {
    let world = World::new();
    for (option, mode) in [
        (&["--full-auto"][..], "auto"),
        (&["--approval-mode", "auto_edit"], "accept-edits"),
        (&["--approval-mode", "yolo"], "unconfined"),
        (&["--approval-mode", "default"], "ask"),
    ] {
        let (done, _) = answered(&world, &[option, &["-p", "--json", "Go on."]].concat());
        let first: Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
        assert_eq!(first["permission_mode"], mode, "{first}");
    }
}

#[test]
fn the_directory_of_another_program_is_the_working_directory() {
    let world = World::new().file("web/AGENTS.md", "Use tabs.\n");
    let (_, request) = answered(&world, &["--cd", "../web", "-p", "Go on."]);
    assert!(request["messages"].to_string().contains("Use tabs."), "{request}");
}
