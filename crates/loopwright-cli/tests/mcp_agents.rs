//! Servers of the Model Context Protocol in the definitions of agents.

use serde_json::json;

use crate::mcp::SERVER;
use crate::server::{Server, streamed, streamed_tool};
use crate::world::{Done, World};

fn world() -> World {
    World::new().file("project/server.sh", SERVER)
}

/// A definition with what it says of servers.
fn agent(servers: &str) -> String {
    format!("---\nname: ada\ndescription: Counts.\n{servers}\n---\nYou count.\n")
}

const BROUGHT: &str = "mcpServers:\n  - brought:\n      command: sh\n      args: [server.sh]";

fn add(world: &World, name: &str) {
    assert_eq!(world.run(&["mcp", "add", name, "sh", "server.sh"]).status, 0);
}

/// Starts all servers once, so that their tools are known.
fn test(world: &World) -> Done {
    world.run(&["mcp", "test"])
}

/// The tools of servers in the last request of a run.
fn tools(world: &World, options: &[&str]) -> (Vec<String>, Done) {
    let server = Server::start(vec![streamed("Done.", "stop")]);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run(&[&model, options, &["Count."]].concat());
    let heard = server.heard();
    let tools = heard.last().and_then(|it| it.1["tools"].as_array().cloned()).unwrap_or_default();
    let names = tools.iter().filter_map(|it| it["function"]["name"].as_str());
    (names.filter(|it| it.starts_with("mcp_")).map(ToOwned::to_owned).collect(), done)
}

#[test]
fn an_agent_has_the_servers_that_its_definition_names_and_no_others() {
    let mut world = world();
    add(&world, "one");
    add(&world, "two");
    assert_eq!(test(&world).status, 0);
    for (servers, expected) in [
        ("model: inherit", &["mcp__one__greet", "mcp__two__greet"][..]),
        ("mcpServers: [two]", &["mcp__two__greet"]),
        ("mcpServers: two", &["mcp__two__greet"]),
        ("mcpServers: []", &[]),
        ("disallowedTools: mcp__one", &["mcp__two__greet"]),
        ("disallowedTools: [mcp__one__gr*, mcp__three]", &["mcp__two__greet"]),
        ("disallowedTools: mcp__*", &[]),
        ("tools: [Read, mcp__two]", &["mcp__two__greet"]),
    ] {
        world = world.file(".config/loopwright/agents/ada.md", &agent(servers));
        let (tools, done) = tools(&world, &["--agent", "ada"]);
        assert_eq!((done.status, tools), (0, names(expected)), "{servers}: {done:?}");
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|it| (*it).to_owned()).collect()
}

#[test]
fn an_agent_that_names_an_unknown_server_or_a_wrong_one_does_not_run() {
    let mut world = world();
    for (servers, told) in [
        (
            "mcpServers: [gone]",
            "unknown MCP server `gone`; add it with `loopwright mcp add gone …`",
        ),
        ("mcpServers: [1]", "a list of MCP server names"),
        ("mcp-servers: [gone]", "mcpServers"),
    ] {
        world = world.file(".config/loopwright/agents/ada.md", &agent(servers));
        let (tools, done) = tools(&world, &["--agent", "ada"]);
        assert!(done.status == 3 && done.stderr.contains(told), "{servers}: {done:?}");
        assert_eq!(tools, names(&[]));
    }
}

#[test]
fn a_server_that_a_definition_of_the_user_brings_belongs_to_its_agent() {
    let world = world().file(".config/loopwright/agents/ada.md", &agent(BROUGHT));
    let world = world.file(
        ".config/loopwright/agents/bob.md",
        "---\nname: bob\ndescription: Reads.\n---\nYou read.\n",
    );
    let listed = world.run(&["mcp", "list"]);
    assert!(
        listed.stdout.starts_with("brought (/.config/loopwright/agents/ada.md)\n"),
        "{listed:?}"
    );
    assert_eq!(test(&world).stdout, "brought: ok, protocol 2025-11-25, 1 tool\n");
    assert_eq!(tools(&world, &["--agent", "ada"]).0, names(&["mcp__brought__greet"]));
    assert_eq!(tools(&world, &["--agent", "bob"]).0, names(&["mcp_search"]));
    assert_eq!(tools(&world, &[]).0, names(&["mcp_search"]), "other agents pay for no tool of it");
}

#[test]
fn a_subagent_calls_a_server_of_its_own_definition_and_no_other() {
    let world = world().file(".config/loopwright/agents/ada.md", &agent(BROUGHT));
    add(&world, "one");
    assert_eq!(test(&world).status, 0);
    let spawn =
        streamed_tool("", "spawn_subagent", &json!({"subagent": "ada", "prompt": "Count."}));
    let call = |name: &str| streamed_tool("", name, &json!({}));
    let server = Server::start(vec![
        spawn,
        call("mcp__brought__greet"),
        call("mcp__one__greet"),
        streamed("Counted.", "stop"),
        streamed("Done.", "stop"),
    ]);
    let done =
        world.run(&["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Go."]);
    assert_eq!(done.status, 0, "{done:?}");
    let heard: Vec<String> = server.heard().iter().map(|it| it.1.to_string()).collect();
    assert!(heard[2].contains("hello from the server"), "{heard:?}");
    assert!(
        !heard[3].replacen("hello from the server", "", 1).contains("hello from the server"),
        "{heard:?}"
    );
}

#[test]
fn a_server_that_a_definition_of_a_project_brings_starts_only_after_trust() {
    let world = world().file("project/.claude/agents/ada.md", &agent(BROUGHT));
    let (tools_before, before) = tools(&world, &["--agent", "ada"]);
    assert_eq!(tools_before, names(&[]), "{before:?}");
    assert!(
        before.stderr.contains(
            "this project is not trusted: 1 MCP server is ignored; review with `loopwright trust`"
        ),
        "{before:?}"
    );
    assert!(test(&world).stdout.contains("not trusted"));
    let trusted = world.run(&["trust", "--yes"]);
    assert!(trusted.stderr.contains("runs: sh server.sh"), "{trusted:?}");
    assert_eq!(test(&world).stdout, "brought: ok, protocol 2025-11-25, 1 tool\n");
    assert_eq!(tools(&world, &["--agent", "ada"]).0, names(&["mcp__brought__greet"]));
    let other = agent(&BROUGHT.replace("[server.sh]", "[other.sh]"));
    let world = world.file("project/.claude/agents/ada.md", &other);
    assert!(test(&world).stdout.contains("settings have changed since they were trusted"));
}

#[test]
fn a_server_of_a_project_never_takes_the_name_of_one_of_the_user() {
    let world = world().file("project/.claude/agents/ada.md", &agent(BROUGHT));
    assert_eq!(world.run(&["trust", "--yes"]).status, 0);
    assert_eq!(world.run(&["mcp", "add", "brought", "sh", "server.sh", "mine"]).status, 0);
    let listed = world.run(&["mcp", "list"]);
    assert!(listed.stdout.contains("runs: sh server.sh mine"), "{listed:?}");
    assert!(listed.stderr.contains("MCP server `brought` is already defined in"), "{listed:?}");
}
