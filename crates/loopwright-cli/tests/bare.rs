//! What a run finds and loads, and how options keep it from that: `--bare` and `--tools`.

use serde_json::{Value, json};

use crate::server::{Server, streamed};
use crate::world::{Done, World};

const SKILL: &str = "---\nname: tidy\ndescription: Tidies.\n---\nTidy.\n";
const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews changes.\n---\n\nYou review.\n";
const HOOKS: &str = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}}"#;
const SERVERS: &str = r#"{"mcpServers":{"notes":{"command":"notes"}}}"#;

/// A home and a project in which there is one of everything.
fn furnished() -> World {
    World::new()
        .file(".config/loopwright/config.toml", "system_prompt = \"Be kind.\"\n")
        .file(".config/loopwright/hooks.json", HOOKS)
        .file(".config/loopwright/mcp.json", SERVERS)
        .file(".agents/skills/tidy/SKILL.md", SKILL)
        .file("project/loopwright.toml", "[limits]\nsteps = 7\n")
        .file("project/.loopwright/agents/reviewer.md", REVIEWER)
        .file(".claude/CLAUDE.md", "Say please.\n")
        .file("project/AGENTS.md", "Use tabs.\n")
}

fn run(world: &World, options: &[&str]) -> (Done, Server) {
    let server = Server::start([streamed("Done.", "stop")]);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    (world.run(&[&model, options, &["Go on."]].concat()), server)
}

/// What the first line of `stream-json` says was loaded, and the first request.
fn loaded(world: &World, options: &[&str]) -> (Value, Value) {
    let (done, server) = run(world, &[options, &["--json"]].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let first: Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["type"], "init");
    (first["loaded"].clone(), server.request())
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().map(|it| it["function"]["name"].as_str().unwrap()).collect()
}

#[test]
fn the_first_line_names_what_was_loaded() {
    let (loaded, request) = loaded(&furnished(), &[]);
    let own = |name: &str| format!("/.config/loopwright/{name}");
    let expect = json!({
        "config": [own("config.toml"), own("hooks.json"), own("mcp.json")],
        "project": ["/project/loopwright.toml"], "folders": [], "project_trusted": false,
        "instructions": ["/.claude/CLAUDE.md", "/project/AGENTS.md"], "agents": ["reviewer"], "skills": ["tidy"],
        "mcp_servers": ["notes"], "hooks": 1,
    });
    assert_eq!(loaded, expect);
    let messages = request["messages"].to_string();
    for text in ["Use tabs.", "Be kind.", "Say please."] {
        assert!(messages.contains(text), "{text}: {messages}");
    }
}

#[test]
fn a_bare_run_loads_nothing() {
    let (loaded, request) = loaded(&furnished(), &["--bare"]);
    let expect = json!({
        "config": [], "project": [], "folders": [], "project_trusted": false, "instructions": [], "agents": [],
        "skills": [], "mcp_servers": [], "hooks": 0,
    });
    assert_eq!(loaded, expect);
    let messages = request["messages"].to_string();
    for text in ["Use tabs.", "Be kind.", "Say please."] {
        assert!(!messages.contains(text), "{text}: {messages}");
    }
    let others = ["load_skill", "spawn_subagent"];
    assert!(!tools(&request).iter().any(|it| others.contains(it)), "{request}");
}

#[test]
fn a_bare_run_reads_the_file_of_settings_that_is_named() {
    let world = furnished().file("own.toml", "system_prompt = \"Be brief.\"\n");
    let (loaded, request) = loaded(&world, &["--bare", "--config", "../own.toml"]);
    assert_eq!(loaded["config"], json!(["/project/../own.toml"]));
    assert!(request["messages"].to_string().contains("Be brief."), "{request}");
}

#[test]
fn a_bare_run_takes_no_agent_of_a_file() {
    let (done, _server) = run(&furnished(), &["--bare", "--agent", "reviewer"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
}

#[test]
fn a_list_of_tools_leaves_the_agent_with_these() {
    let of = |list: &str| {
        let (_, request) = loaded(&furnished(), &["--tools", list]);
        tools(&request).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of("Bash"), ["bash", "bash_start", "bash_read", "bash_stop"]);
    assert_eq!(
        of("Read,Edit"),
        ["read_file", "write_file", "edit_file", "list_dir", "search_files", "grep"]
    );
    assert_eq!(of("read_file grep"), ["read_file", "grep"]);
}

#[test]
fn names_that_are_no_tools_are_refused() {
    for (list, told) in [("Raed", "unknown tool `Raed`"), ("Bash(git *)", "is a rule")] {
        let (done, server) = run(&World::new(), &["--tools", list]);
        assert_eq!(done.status, 2, "{}", done.stderr);
        assert!(done.stderr.contains(told), "{}", done.stderr);
        assert!(!server.was_asked());
    }
}
