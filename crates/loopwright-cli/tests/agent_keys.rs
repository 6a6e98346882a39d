//! Keys of agent files that the program supports: `hooks` and `initialPrompt`.

use serde_json::{Value, json};

use crate::hooks::{is_there, removing, run};
use crate::server::{Server, streamed, streamed_tool};
use crate::world::World;

/// The file of an agent that keeps `a.txt`: a hook refuses its commands.
fn guarded(name: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: Keeps files.\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n\
         \x20       - {{ type: command, command: \"echo keep it >&2; exit 2\" }}\n---\nWork.\n"
    )
}

#[test]
fn hooks_of_an_agents_file_run_for_that_agent_alone() {
    let world = World::new().file(".claude/agents/keeper.md", &guarded("keeper"));
    let (done, requests) = run(&world, removing(), &["--agent", "keeper"]);
    assert!(is_there(&world), "{}", done.stderr);
    assert!(requests[1].contains("blocked by a hook: keep it"), "{}", requests[1]);
    // A continued session has the hooks of the file as it is now.
    let (done, requests) =
        run(&world, removing(), &["--continue", "--output-format", "stream-json"]);
    assert!(is_there(&world), "{requests:?}");
    let first: Value = serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["loaded"]["hooks"], 1, "{first}");
    run(&world, removing(), &[]);
    assert!(!is_there(&world));
}

#[test]
fn hooks_in_the_definition_of_a_session_do_not_run_without_their_file() {
    const FILE: &str = ".claude/agents/keeper.md";
    let mut world = World::new().file(FILE, &guarded("keeper"));
    run(&world, removing(), &["--agent", "keeper"]);
    // Without its hooks, with other keys that are read here, and without the file.
    for front_matter in ["", "mcpServers: []\n"] {
        let text = format!("---\nname: keeper\ndescription: Keeps.\n{front_matter}---\nWork.\n");
        world = world.file(FILE, &text);
        refused(&world);
    }
    std::fs::remove_file(world.path(FILE)).unwrap();
    refused(&world);
}

/// A session whose definition has hooks does not continue without them.
fn refused(world: &World) {
    let (done, requests) = run(world, removing(), &["--continue"]);
    assert_eq!((done.status, requests.len()), (3, 0), "{}", done.stderr);
    assert!(
        done.stderr.contains("the hooks for `PreToolUse` are no longer in the agent's file"),
        "{}",
        done.stderr
    );
}

#[test]
fn hooks_of_an_agents_file_run_where_it_is_spawned() {
    let lead =
        "name: lead\ndescription: Leads.\ncapabilities: [use_subagents]\nsystemPrompt: Lead.\n";
    let world = World::new()
        .file(".config/loopwright/agents/lead.yaml", lead)
        .file(".claude/agents/keeper.md", &guarded("keeper"));
    let spawn = json!({ "subagent": "keeper", "prompt": "Remove a.txt." });
    let mut replies = vec![streamed_tool("", "spawn_subagent", &spawn)];
    replies.extend(removing());
    replies.push(streamed("Done.", "stop"));
    let (done, requests) = run(&world, replies, &["--agent", "lead"]);
    assert!(is_there(&world), "{}", done.stderr);
    assert!(requests[2].contains("blocked by a hook: keep it"), "{}", requests[2]);
}

#[test]
fn an_agent_of_a_project_with_hooks_runs_when_the_project_is_trusted() {
    let world = World::new().file("project/.claude/agents/keeper.md", &guarded("keeper"));
    assert_eq!(world.run(&["agents", "validate"]).status, 0);
    let (done, requests) = run(&world, removing(), &["--agent", "keeper"]);
    assert_eq!((done.status, requests.len()), (3, 0), "{}", done.stderr);
    assert!(done.stderr.contains("run `loopwright trust`"), "{}", done.stderr);
    assert_eq!(world.run(&["trust", "--yes"]).status, 0);
    let (_, requests) = run(&world, removing(), &["--agent", "keeper"]);
    assert!(requests[1].contains("blocked by a hook: keep it"), "{}", requests[1]);
    assert!(is_there(&world));
    // What was trusted has changed.
    let world = world
        .file("project/.claude/agents/keeper.md", &guarded("keeper").replace("keep it", "keep"));
    let (done, _) = run(&world, removing(), &["--agent", "keeper"]);
    assert_eq!(done.status, 3, "{}", done.stderr);
}

#[test]
fn an_agent_says_its_initial_prompt_first_in_a_new_session() {
    let agent = "---\nname: greeter\ndescription: Greets.\ninitialPrompt: Look around first.\n---\nGreet.\n";
    let world = World::new().file(".claude/agents/greeter.md", agent);
    let said = |options: &[&str]| {
        let server = Server::start([streamed("Done.", "stop")]);
        let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let done = world.run(&[&line[..], options].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
        crate::prompt_line::said(&server.request())
    };
    assert_eq!(said(&["--agent", "greeter"]), ["Look around first."]);
    assert_eq!(said(&["--continue", "And then?"]), ["Look around first.", "And then?"]);
    let both = "Look around first.\n\nHello.";
    assert_eq!(said(&["--agent", "greeter", "--no-session", "Hello."]), [both]);
    let done =
        world.run(&["run", "-m", "openai-compatible/test", "--base-url", "http://127.0.0.1:1"]);
    assert_eq!(done.status, 2, "{}", done.stderr);
}
