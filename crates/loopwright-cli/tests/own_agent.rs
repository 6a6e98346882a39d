//! The agent of `run` and `chat` that no file defines, and the table `[capabilities]`.

use serde_json::Value;

use crate::server::{Server, streamed};
use crate::world::{Done, World};

const SKILL: &str = "---\nname: tidy\ndescription: Tidies.\n---\nTidy.\n";
const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews changes.\n---\n\nYou review.\n";

fn run(world: &World, options: &[&str]) -> (Done, Server) {
    let server = Server::start([streamed("Done.", "stop")]);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    (world.run(&[&model, options, &["Go on."]].concat()), server)
}

/// Returns those of the tools that a run has which belong to no file and no command.
fn tools(world: &World, options: &[&str]) -> Vec<String> {
    let (done, server) = run(world, options);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let request = server.request();
    let tools = request["tools"].as_array().unwrap().iter();
    let mut names: Vec<String> =
        tools.map(|it: &Value| it["function"]["name"].as_str().unwrap().to_owned()).collect();
    names.retain(|it| ["todo_write", "load_skill", "spawn_subagent"].contains(&it.as_str()));
    names.sort();
    names
}

fn furnished() -> World {
    World::new()
        .file(".agents/skills/tidy/SKILL.md", SKILL)
        .file("project/.loopwright/agents/reviewer.md", REVIEWER)
}

#[test]
fn the_own_agent_plans_loads_skills_and_delegates_to_agents_that_are_found() {
    assert_eq!(tools(&World::new(), &[]), ["todo_write"]);
    assert_eq!(tools(&furnished(), &[]), ["load_skill", "spawn_subagent", "todo_write"]);
    assert_eq!(
        tools(&furnished(), &["--no-session"]),
        ["load_skill", "spawn_subagent", "todo_write"]
    );
}

#[test]
fn skills_of_a_project_are_offered_to_the_own_agent_only_if_the_project_is_trusted() {
    let world = World::new().file("project/.agents/skills/tidy/SKILL.md", SKILL);
    assert_eq!(tools(&world, &[]), ["todo_write"]);
    let trusted = world.run(&["trust", "--yes"]);
    assert_eq!(trusted.status, 0, "{}", trusted.stderr);
    assert_eq!(tools(&world, &[]), ["load_skill", "todo_write"]);
}

#[test]
fn each_capability_of_the_own_agent_is_switched_off_in_the_configuration() {
    let config =
        "[capabilities]\nuse_task_planning = false\nuse_skills = false\nuse_subagents = false\n";
    let world = furnished().file(".config/loopwright/config.toml", config);
    assert_eq!(tools(&world, &[]), Vec::<String>::new());
}

#[test]
fn settings_of_capabilities_are_checked_and_reach_the_own_agent_and_definitions() {
    let wrong = "[capabilities.use_task_planning]\nmax_itms = 5\n";
    let (done, _server) = run(&World::new().file(".config/loopwright/config.toml", wrong), &[]);
    assert_eq!(done.status, 3, "{}", done.stderr);
    assert!(done.stderr.contains("`[capabilities]`"), "{}", done.stderr);
    assert!(done.stderr.contains("max_itms"), "{}", done.stderr);
    let unknown = "[capabilities]\nuse_magic = true\n";
    let (done, _server) = run(&World::new().file(".config/loopwright/config.toml", unknown), &[]);
    assert_eq!(done.status, 3, "{}", done.stderr);
    assert!(done.stderr.contains("use_magic"), "{}", done.stderr);
    // A hint in the first request stands and falls with the reminders, which the own agent has only if they are configured.
    let quiet = "[capabilities.use_task_planning]\nreminder_every_steps = 0\n";
    let planner = "---\nname: planner\ndescription: Plans.\ncapabilities: [use_task_planning]\n---\n\nPlan.\n";
    let hints = |config: &str, options: &[&str]| {
        let world = World::new()
            .file(".config/loopwright/config.toml", config)
            .file("project/.loopwright/agents/planner.md", planner);
        let (done, server) = run(&world, options);
        assert_eq!(done.status, 0, "{}", done.stderr);
        server.request()["messages"].to_string().contains("todo_write")
    };
    let planner = ["--agent", "planner"];
    assert_eq!([hints("", &[]), hints("", &planner)], [false, true]);
    assert_eq!([hints(quiet, &[]), hints(quiet, &planner)], [false, false]);
    let loud = quiet.replace('0', "5");
    assert_eq!([hints(&loud, &[]), hints(&loud, &planner)], [true, true]);
}

#[test]
fn a_project_does_not_decide_what_agents_are_composed_of() {
    let world =
        World::new().file("project/loopwright.toml", "[capabilities]\nuse_skills = false\n");
    let (done, _server) = run(&world, &[]);
    assert_eq!(done.status, 3, "{}", done.stderr);
    assert!(done.stderr.contains("what your agents do"), "{}", done.stderr);
}

/// Returns the names of all tools that a run has with a configuration.
fn all_tools(config: &str, options: &[&str]) -> Vec<String> {
    let world = World::new().file(".config/loopwright/config.toml", config);
    let (done, server) = run(&world, options);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let tools = server.request()["tools"].clone();
    let names = tools.as_array().into_iter().flatten();
    names.map(|it| it["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tools_for_files_and_commands_are_switched_off() {
    let of = |config: &str| all_tools(&format!("[capabilities]\n{config}\n"), &[]);
    let has =
        |tools: &[String]| ["bash", "read_file"].map(|it| tools.iter().any(|tool| tool == it));
    assert_eq!(has(&of("")), [true, true]);
    assert_eq!(has(&of("use_bash = false")), [false, true]);
    assert_eq!(has(&of("use_file_tools = false")), [true, false]);
    assert_eq!(has(&of("use_coding_tools = false")), [false, false]);
}

#[test]
fn an_unknown_capability_is_refused_with_the_closest_name() {
    let magic = "unknown capability `use_magic`; available: ";
    let cases = [
        ("use_magic = false", magic),
        ("use_magic = true", magic),
        ("use_skils = false", "did you mean `use_skills`?"),
        ("use_web = { max_chrs = 5 }", "unknown field `max_chrs`"),
    ];
    for (config, reason) in cases {
        let config = format!("[capabilities]\n{config}\n");
        let world = World::new().file(".config/loopwright/config.toml", &config);
        let (done, _server) = run(&world, &[]);
        assert_eq!(done.status, 3, "{config}: {}", done.stderr);
        assert!(done.stderr.contains(reason), "{config}: {}", done.stderr);
    }
}

#[test]
fn settings_of_the_web_take_effect_where_a_rule_offers_it() {
    let rule = ["--allow", "WebFetch(domain:example.com)"];
    let has = |config: &str, options: &[&str]| {
        all_tools(config, options).iter().any(|it| it == "web_fetch")
    };
    assert!(has("[capabilities.use_web]\nmax_chars = 500\n", &rule));
    assert!(!has("[capabilities.use_web]\nmax_chars = 500\n", &[]));
    assert!(!has("[capabilities]\nuse_web = false\n", &rule));
}
