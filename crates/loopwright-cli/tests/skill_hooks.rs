//! Hooks of skills, which run while the skill is active.

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::world::{Done, World};

const SKILL: &str = ".claude/skills/careful/SKILL.md";

/// A skill whose script keeps commands that remove something from running.
fn skill(world: World, below: &str) -> World {
    let front = "name: careful\ndescription: Works carefully.\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        \
        - type: command\n          command: sh \"${CLAUDE_SKILL_DIR}/guard.sh\"\n";
    let guard = "grep -q '\"command\":\"rm' && { echo keep it >&2; exit 2; }; exit 0\n";
    let world = world.file(&format!("{below}{SKILL}"), &format!("---\n{front}---\nBe careful.\n"));
    world.file(&format!("{below}.claude/skills/careful/guard.sh"), guard)
}

fn load(arguments: &Value) -> Reply {
    streamed_tool("", "load_skill", arguments)
}

fn remove() -> Reply {
    streamed_call("", "rm none.txt")
}

/// Runs a task, and returns whether the hook blocked each command that removes something, in order.
fn blocked(world: &World, options: &[&str], replies: Vec<Reply>) -> (Done, Vec<bool>) {
    let server = Server::start(replies);
    let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run(&[&line[..], options].concat());
    let last = server.heard().pop().map(|(_, body)| body).unwrap_or_default();
    let messages = last["messages"].as_array().cloned().unwrap_or_default();
    let results = messages.iter().filter(|it| it["role"] == "tool");
    let texts = results.map(|it| it["content"].to_string());
    let of_commands = texts.filter(|it| it.contains("none.txt") || it.contains("keep it"));
    (done, of_commands.map(|it| it.contains("blocked by a hook: keep it")).collect())
}

#[test]
fn hooks_of_a_skill_run_from_its_loading_to_its_end() {
    let world = skill(World::new(), "");
    let steps = vec![
        remove(),
        load(&json!({ "skill_name": "careful" })),
        remove(),
        load(&json!({ "done": true })),
        remove(),
        streamed("Done.", "stop"),
    ];
    let (done, blocked) = blocked(&world, &["Go."], steps);
    assert_eq!((done.status, blocked), (0, vec![false, true, false]), "{}", done.stderr);
}

#[test]
fn hooks_of_an_active_skill_run_in_the_run_that_resumes_its_execution_and_end_with_it() {
    let world = skill(World::new(), "");
    let loading = vec![load(&json!({ "skill_name": "careful" }))];
    let (limited, none) = blocked(&world, &["--max-steps", "1", "Go."], loading);
    assert_eq!((limited.status, none), (6, vec![]), "{}", limited.stderr);
    let steps = || vec![remove(), streamed("Done.", "stop")];
    let (resumed, first) = blocked(&world, &["--continue"], steps());
    assert_eq!(first, [true], "{}", resumed.stderr);
    let (next, both) = blocked(&world, &["--continue", "Go."], steps());
    assert_eq!(both, [true, false], "{}", next.stderr);
}

#[test]
fn hooks_of_a_skill_that_the_user_invokes_run_in_that_turn() {
    let world = skill(World::new(), "");
    let steps = || vec![remove(), streamed("Done.", "stop")];
    let (done, first) = blocked(&world, &["/careful now"], steps());
    assert_eq!((done.status, first), (8, vec![true]), "{}", done.stderr);
    let (done, both) = blocked(&world, &["--continue", "Go."], steps());
    assert_eq!((done.status, both), (0, vec![true, false]), "{}", done.stderr);
    let (_, unkept) = blocked(&world, &["--no-session", "/careful now"], steps());
    assert_eq!(unkept, [true]);
}

#[test]
fn hooks_of_an_active_skill_bind_the_sub_agents_that_begin_meanwhile() {
    let helper = "---\nname: helper\ndescription: Helps.\n---\nYou help.\n";
    let world = skill(World::new(), "").file(".claude/agents/helper.md", helper);
    let spawn = json!({ "subagent": "helper", "prompt": "Remove it." });
    let steps = vec![
        load(&json!({ "skill_name": "careful" })),
        streamed_tool("", "spawn_subagent", &spawn),
        remove(),
        streamed("Removed.", "stop"),
        streamed("Done.", "stop"),
    ];
    let server = Server::start(steps);
    let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Go."];
    let done = world.run(&line);
    let requests = server.heard();
    assert_eq!((done.status, requests.len()), (0, 5), "{}", done.stderr);
    let told = requests[3].1["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(told.contains("blocked by a hook: keep it"), "{told}");
}

#[test]
fn hooks_of_a_project_s_skill_run_only_if_the_project_is_trusted() {
    let world = skill(World::new(), "project/");
    let steps = || vec![remove(), streamed("Done.", "stop")];
    let (done, without) = blocked(&world, &["/careful"], steps());
    assert_eq!(without, [false]);
    let ignored = "warning: this project is not trusted: 1 hook is ignored, and 1 skill is not offered to the model; review with `loopwright trust`";
    assert!(done.stderr.contains(ignored), "{}", done.stderr);
    let trusted = world.run(&["trust", "--yes"]);
    let shown = format!(
        "hook PreToolUse Bash in skill careful: sh \"${{CLAUDE_SKILL_DIR}}/guard.sh\" (/project/{SKILL})"
    );
    assert!(trusted.stderr.contains(&shown), "{}", trusted.stderr);
    let (done, with) = blocked(&world, &["/careful"], steps());
    assert_eq!(with, [true], "{}", done.stderr);
}

#[test]
fn a_skill_of_an_untrusted_project_has_not_what_the_users_skill_of_its_name_allows() {
    let tidy = "---\nname: tidy\ndescription: Tidies.\nallowed-tools: Bash(rm *)\n---\nTidy up.\n";
    let options = ["--permission-mode", "ask", "/tidy"];
    let steps = || vec![remove(), streamed("Done.", "stop")];
    let world = World::new().file(".claude/skills/tidy/SKILL.md", tidy);
    let (done, _) = blocked(&world, &options, steps());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let world = world.file("project/.claude/skills/tidy/SKILL.md", tidy);
    let (done, _) = blocked(&world, &options, steps());
    assert_eq!(done.status, 9, "{}", done.stderr);
}

#[test]
fn events_that_skills_have_no_hooks_for_are_a_warning() {
    let skill =
        "---\nname: odd\ndescription: Is odd.\nhooks: { PreCompact: [], Other: [] }\n---\nGo.\n";
    let world = World::new().file("project/.claude/skills/odd/SKILL.md", skill);
    let done = world.run(&["skills", "validate"]);
    let warned = |event: &str| {
        format!(
            "/project/.claude/skills/odd/SKILL.md: warning: hooks for the event `{event}` are not supported"
        )
    };
    let expect = ["/project/.claude/skills/odd: ok", &warned("Other"), &warned("PreCompact")];
    assert_eq!(done.stdout.lines().collect::<Vec<_>>(), expect);
}
