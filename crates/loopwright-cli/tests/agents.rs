//! `agents`, and runs of agents that files define.

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::world::World;

const REVIEWER: &str = "---
name: reviewer
description: Reviews changes.
tools: Read, Grep
disallowedTools: Grep
budget: {maxSteps: 2}
---

You review.
";

fn world() -> World {
    World::new()
        .file("project/.loopwright/agents/reviewer.md", REVIEWER)
        .file(
            ".claude/agents/helper.md",
            "---\nname: helper\ndescription: Helps.\nmodel: best\n---\n\nYou help.\n",
        )
        .file(
            ".config/loopwright/agents/mine.yaml",
            "name: mine\ndescription: Is mine.\nsystemPrompt: Go.\n",
        )
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

fn run(world: &World, replies: Vec<Reply>, options: &[&str]) -> (crate::world::Done, Server) {
    let server = Server::start(replies);
    let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    (world.run(&[&line, options, &["Go on."]].concat()), server)
}

fn tools(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.map(|it| it["function"]["name"].as_str().unwrap()).collect()
}

fn system(request: &Value) -> &str {
    request["messages"][0]["content"].as_str().unwrap()
}

#[test]
fn a_limit_that_a_guard_of_the_file_sets_is_not_blamed_on_an_option() {
    let guarded = "---\nname: guarded\ndescription: d\ncapabilities:\n  - use_guards: { limits: { maxSteps: 1 } }\n\
                   ---\nYou are guarded.\n";
    let world = World::new().file("project/.loopwright/agents/guarded.md", guarded);
    let server = Server::start([streamed_call("Look.", "ls")]);
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run(&[&["run", "--agent", "guarded", "hi"], &model[..]].concat());
    let told = "stopped: the step limit of 1 was reached; the agent's definition sets this limit in `use_guards`\n";
    assert_eq!((done.status, done.stderr.contains(told)), (6, true), "{}", done.stderr);
}

#[test]
fn agents_of_the_project_and_of_the_user_are_listed() {
    let world = world().file("project/.claude/agents/bad.md", "no front matter");
    let done = world.run(&["agents", "list"]);
    let expect = "\
NAME      FILE                                   DESCRIPTION
helper    ~/.claude/agents/helper.md             Helps.
mine      ~/.config/loopwright/agents/mine.yaml  Is mine.
reviewer  .loopwright/agents/reviewer.md         Reviews changes.
";
    assert_eq!((done.status, done.stdout.as_str()), (0, expect));
    assert!(done.stderr.contains("bad.md: no front matter"), "{}", done.stderr);
    let listed = json_of(&world.run(&["agents", "list", "--json"]).stdout);
    assert_eq!(
        listed["agents"][0],
        json!({
            "name": "helper", "label": "helper", "description": "Helps.",
            "path": "/.claude/agents/helper.md", "scope": "user",
        })
    );
    let none = World::new().run(&["agents", "list"]);
    assert_eq!((none.status, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("loopwright agents new"), "{}", none.stderr);
}

#[test]
fn an_agent_is_shown_as_markdown_or_json_without_secrets() {
    let secret = "name: s\ndescription: Hides.\nmetadata: {token: sk-hidden}\nsystemPrompt: Go.\n";
    let world = world().file("project/.loopwright/agents/s.yaml", secret);
    let done = world.run(&["agents", "show", "reviewer"]);
    let expect = "---\nname: reviewer\ndescription: Reviews changes.\ntools:\n  - read_file\n  - grep\n\
        toolsDeny:\n  - grep\nbudget:\n  maxSteps: 2\n---\n\nYou review.\n";
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, expect, ""));
    let shown = world.run(&["agents", "show", "s", "--json"]).stdout;
    assert!(!shown.contains("sk-hidden"), "{shown}");
    assert_eq!(json_of(&shown)["definition"]["metadata"], json!({ "token": "(hidden)" }));
    let done = world.run(&["agents", "show", "helper"]);
    assert!(done.stderr.contains("helper.md: line 4: `model` does not select"), "{}", done.stderr);
    let done = world.run(&["agents", "show", "nobody"]);
    let expect = "error: unknown agent `nobody`; available: helper, mine, reviewer, s\n";
    assert_eq!((done.status, done.stderr.as_str()), (2, expect));
}

#[test]
fn files_are_checked_and_what_is_wrong_ends_with_3() {
    let world = world();
    let done = world.run(&["agents", "validate"]);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{}", done.stdout);
    assert!(done.stdout.contains("helper.md: warning: line 4: `model`"), "{}", done.stdout);
    let world = world
        .file("project/bad.yaml", "name: bad\ndescription: Bad.\ntools: 3\nsystemPrompt: Go.\n")
        .file(
            "project/odd.yaml",
            "name: odd\ndescription: Odd.\ntools: [grep, magic]\nskills: [no]\nsystemPrompt: Go.\n",
        );
    let done = world.run(&["agents", "validate", "bad.yaml", "odd.yaml", "none.md", "--json"]);
    assert_eq!(done.status, 3, "{}", done.stderr);
    let checked = json_of(&done.stdout);
    assert_eq!(checked["valid"], false);
    let errors = |at: usize| checked["files"][at]["errors"].to_string();
    assert!(errors(0).contains("line 3: `tools` must be a list"), "{checked}");
    assert!(errors(1).contains("the file cannot be read"), "{checked}");
    assert!(errors(2).contains("unknown tool `magic`"), "{checked}");
    assert!(errors(2).contains("unknown skill `no`"), "{checked}");
}

#[test]
fn a_new_agent_is_begun_and_none_is_overwritten_unasked() {
    let world = World::new();
    let done = world.run(&["agents", "new", "ada", "--description", "Counts."]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "/project/.loopwright/agents/ada.md\n"));
    assert_eq!(world.run(&["agents", "validate"]).status, 0);
    let again = world.run(&["agents", "new", "ada"]);
    assert_eq!(again.status, 2);
    assert!(again.stderr.starts_with("error: definition already exists"), "{}", again.stderr);
    assert_eq!(world.run(&["agents", "new", "ada", "--overwrite", "--prompt", "Go."]).status, 0);
    assert!(world.run(&["agents", "show", "ada"]).stdout.ends_with("\nGo.\n"));
    assert_eq!(world.run(&["agents", "new", "../ada"]).status, 2);
    let mine = world.run(&["agents", "new", "mine", "--user"]);
    assert_eq!(mine.stdout, "/.config/loopwright/agents/mine.md\n");
}

#[test]
fn a_run_is_by_the_agent_that_was_named() {
    let world = world()
        .file("project/AGENTS.md", "Run `just check`.")
        .file(
            "project/.agents/skills/brief/SKILL.md",
            "---\nname: brief\ndescription: Is brief.\n---\nBe brief.\n",
        )
        .file(
            "project/.loopwright/agents/full.yaml",
            "name: full\ndescription: Is whole.\ncapabilities: [use_task_planning]\n\
             tools: [read_file, todo_write]\nskills: [brief]\nllm: {options: {temperature: 0.5}}\n\
             systemPrompt: You are whole.\n",
        );
    let (done, server) = run(&world, vec![streamed("Done.", "stop")], &["--agent", "reviewer"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Done.\n"), "{}", done.stderr);
    let request = server.request();
    assert_eq!(tools(&request), ["read_file"]);
    assert!(system(&request).starts_with("You review.\n\n"), "{}", system(&request));
    assert!(system(&request).contains("Run `just check`."), "{}", system(&request));
    assert!(!system(&request).contains("You are Loopwright"), "{}", system(&request));
    // Capabilities, skills and settings of the model count too.
    let options = ["--agent", "full", "--no-agents-md", "--no-session"];
    let (done, server) = run(&world, vec![streamed("Done.", "stop")], &options);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let request = server.request();
    assert_eq!(tools(&request), ["read_file", "todo_write"]);
    assert_eq!(request["temperature"], 0.5);
    assert!(
        system(&request).contains("You are whole.\n\n<skill_content name=\"brief\">"),
        "{request}"
    );
    assert!(!system(&request).contains("just check"), "{request}");
}

#[test]
fn a_spawned_agent_has_its_skills_its_capabilities_and_what_the_project_tells() {
    let world = World::new()
        .file("project/AGENTS.md", "Run `just check`.")
        .file(
            "project/.agents/skills/brief/SKILL.md",
            "---\nname: brief\ndescription: Is brief.\n---\nBe brief.\n",
        )
        .file(
            "project/.loopwright/agents/lead.yaml",
            "name: lead\ndescription: Leads.\ncapabilities: [use_subagents]\nsystemPrompt: You lead.\n",
        )
        .file(
            "project/.loopwright/agents/helper.yaml",
            "name: helper\ndescription: Helps.\ncapabilities: [use_task_planning]\n\
             tools: [read_file, todo_write]\nskills: [brief]\nsystemPrompt: You help.\n",
        )
        .file(
            "project/.claude/agents/other.md",
            "---\nname: other\ndescription: Plans.\ntools: Read, TodoWrite\n---\n\nYou plan.\n",
        );
    let ask = |name: &str| json!({ "subagent": name, "prompt": "Help." });
    let replies = vec![
        streamed_tool("", "spawn_subagent", &ask("helper")),
        streamed("Helped.", "stop"),
        streamed_tool("", "spawn_subagent", &ask("other")),
        streamed("Planned.", "stop"),
        streamed("Done.", "stop"),
    ];
    let (done, server) = run(&world, replies, &["--agent", "lead"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let _of_lead = server.request();
    let request = server.request();
    assert_eq!(tools(&request), ["read_file", "todo_write"]);
    let expect = "You help.\n\n<skill_content name=\"brief\">\nBe brief.\n</skill_content>";
    assert!(system(&request).starts_with(expect), "{}", system(&request));
    assert!(system(&request).contains("Run `just check`."), "{}", system(&request));
    // A tool that only a capability brings may be named alone, as other programs do.
    let _of_lead = server.request();
    assert_eq!(tools(&server.request()), ["read_file", "todo_write"]);
}

#[test]
fn a_capability_is_configured_in_the_file_and_cannot_widen_what_an_agent_reaches() {
    let agent = |name: &str, capability: &str| {
        format!(
            "name: {name}\ndescription: D.\ncapabilities:\n  - {capability}\nsystemPrompt: Go.\n"
        )
    };
    let path = |name: &str| format!("project/.loopwright/agents/{name}.yaml");
    let world = World::new()
        .file(&path("few"), &agent("few", "use_task_planning: { max_items: 3 }"))
        .file(&path("odd"), &agent("odd", "use_task_planning: { most: 3 }"))
        .file(&path("far"), &agent("far", "use_bash: { sandbox: { network: host } }"))
        .file(&path("tape"), &agent("tape", "use_recording: { file: /tmp/tape.jsonl }"));
    let (done, server) = run(&world, vec![streamed("Done.", "stop")], &["--agent", "few"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(server.request().to_string().contains("at most 3, of which"));
    for (name, reason) in [
        ("odd", "unknown field `most`"),
        ("far", "unknown field `sandbox`"),
        ("tape", "use `--record FILE`"),
    ] {
        let (done, _) = run(&world, Vec::new(), &["--agent", name]);
        assert_eq!(done.status, 3, "{name}: {}", done.stderr);
        assert!(done.stderr.contains(reason), "{name}: {}", done.stderr);
        let checked =
            world.run(&["agents", "validate", &format!(".loopwright/agents/{name}.yaml")]);
        assert_eq!(checked.status, 3, "{name}");
        assert!(checked.stdout.contains(reason), "{name}: {}", checked.stdout);
    }
}

#[test]
fn a_definition_of_another_program_works_as_it_is() {
    let planner = "---\nname: planner\ndescription: Plans.\ntools: Read, Task, TodoWrite, WebFetch\n\
        model: opus\ncolor: red\n---\n\nYou plan.\n";
    let world = World::new().file("project/.claude/agents/planner.md", planner);
    assert_eq!(world.run(&["agents", "validate"]).status, 0);
    let (done, server) = run(&world, vec![streamed("Done.", "stop")], &["--agent", "planner"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "Done.\n"), "{}", done.stderr);
    let request = server.request();
    let mut names = tools(&request);
    names.sort_unstable();
    assert_eq!(names, ["read_file", "spawn_subagent", "todo_write"]);
    let warning = "agent `planner` runs without the tool `web_fetch`: no allow rule matches the tool, which requires one in every mode";
    assert!(done.stderr.contains(warning), "{}", done.stderr);
    // Only the check of a file mentions keys without an effect.
    assert!(!done.stderr.contains("`color`"), "{}", done.stderr);
    let checked = world.run(&["agents", "validate"]).stdout;
    assert!(checked.contains("line 6: `color`"), "{checked}");
}

#[test]
fn a_definitions_limits_hold_unless_others_are_typed() {
    let again = || (0..4).map(|_| streamed_call("Again.", "ls")).collect();
    let steps = |world: &World, options: &[&str]| {
        let (done, _) = run(world, again(), &[&["--agent", "reviewer"], options].concat());
        assert_eq!(done.status, 6, "{}", done.stderr);
        done.stdout.lines().count()
    };
    assert_eq!(steps(&world(), &[]), 2);
    assert_eq!(steps(&world(), &["--max-steps", "3"]), 3);
    assert_eq!(steps(&world(), &["--max-steps", "1"]), 1);
    // What is configured is not exceeded.
    let config = |steps: u32| format!("[limits]\nsteps = {steps}\n");
    let configured = |limit| world().file(".config/loopwright/config.toml", &config(limit));
    assert_eq!(steps(&configured(1), &[]), 1);
    assert_eq!(steps(&configured(3), &[]), 2);
}

#[test]
fn a_session_keeps_its_agent() {
    let world = world();
    let (done, _) = run(&world, vec![streamed("One.", "stop")], &["--agent", "reviewer"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let (done, server) = run(&world, vec![streamed("Two.", "stop")], &["--continue"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let request = server.request();
    assert_eq!(tools(&request), ["read_file"]);
    assert!(system(&request).starts_with("You review.\n\n"), "{}", system(&request));
    let listed = json_of(&world.run(&["sessions", "list", "--json"]).stdout);
    assert_eq!(listed["sessions"][0]["agent_name"], "reviewer", "{listed}");
    let done = world.run(&["run", "--continue", "--agent", "helper", "x"]);
    assert_eq!(done.status, 2);
}

#[test]
fn the_model_is_the_definitions_unless_one_is_typed() {
    let server = Server::start([streamed("One.", "stop"), streamed("Two.", "stop")]);
    let config = format!(
        "model = 'mine/m'\n[providers.mine]\nbase_url = '{}'\nmodel = 'usual'\n",
        server.url
    );
    let agent = |llm: &str| format!("name: a\ndescription: A.\nllm: {llm}\nsystemPrompt: Go.\n");
    let world = World::new()
        .file(".config/loopwright/config.toml", &config)
        .file("project/.loopwright/agents/a.yaml", &agent("mine/special"));
    assert_eq!(world.run(&["run", "--agent", "a", "x"]).status, 0);
    assert_eq!(server.request()["model"], "special");
    assert_eq!(world.run(&["run", "--agent", "a", "-m", "mine/typed", "x"]).status, 0);
    assert_eq!(server.request()["model"], "typed");
    let server = Server::start([streamed("One.", "stop")]);
    let config = config.replace(config.split('\'').nth(3).unwrap(), &server.url);
    let world = world
        .file(".config/loopwright/config.toml", &config)
        .file("project/.loopwright/agents/a.yaml", &agent("mine"));
    assert_eq!(world.run(&["run", "--agent", "a", "x"]).status, 0);
    assert_eq!(server.request()["model"], "usual");
}

#[test]
fn an_agent_that_cannot_be_used_is_refused_with_the_remedy() {
    let bad = |name: &str, line: &str| {
        format!("name: {name}\ndescription: Bad.\n{line}\nsystemPrompt: Go.\n")
    };
    let world = world()
        .file("project/.loopwright/agents/wrong.yaml", &bad("wrong", "tools: 7"))
        .file("project/.loopwright/agents/magic.yaml", &bad("magic", "tools: [magic]"))
        .file("project/.loopwright/agents/cap.yaml", &bad("cap", "capabilities: [use_magic]"))
        .file("project/.loopwright/agents/skilled.yaml", &bad("skilled", "skills: [none]"))
        .file("project/.loopwright/agents/half.yaml", &bad("half", "llm: {provider: nobody}"));
    let refused = |name: &str| {
        let (done, _) = run(&world, Vec::new(), &["--agent", name]);
        assert_eq!(done.stdout, "", "{name}");
        (done.status, done.stderr)
    };
    let cases = [
        ("nobody", 2, "create one: loopwright agents new nobody"),
        ("loopwright", 2, "rename the definition"),
        ("wrong", 3, "line 3: `tools` must be a list of names"),
        ("magic", 3, "; available: "),
        ("cap", 3, "unknown capability `use_magic`"),
        ("skilled", 3, "loopwright skills list"),
    ];
    for (name, status, remedy) in cases {
        let (ended, told) = refused(name);
        assert_eq!(ended, status, "{name}: {told}");
        assert!(told.contains(remedy), "{name}: {told}");
    }
    let done = world.run(&["run", "--agent", "half", "x"]);
    assert_eq!(done.status, 4, "{}", done.stderr);
    assert!(done.stderr.contains("write `llm: provider/model`"), "{}", done.stderr);
    // Scripts read the reason from standard output.
    let (done, _) = run(&world, Vec::new(), &["--agent", "magic", "--json"]);
    let last = json_of(done.stdout.lines().last().unwrap());
    assert_eq!((&last["exit_code"], &last["stop_reason"]), (&json!(3), &json!("configuration")));
}

#[test]
fn an_agent_with_a_restriction_that_is_not_supported_is_refused_with_the_way_out() {
    let agent = |name: &str, lines: &str| {
        format!("---\nname: {name}\ndescription: D.\n{lines}---\n\nGo.\n")
    };
    let hooks = "hooks:\n  PermissionRequest:\n    - hooks: [{type: command, command: ./check}]\n";
    let cases = [
        ("guarded", hooks, "hooks at `PermissionRequest`", "deny whole tools with `toolsDeny`"),
        (
            "apart",
            "isolation: container\n",
            "`container`",
            "remove the entry to let the agent work",
        ),
    ];
    for (name, lines, restriction, remedy) in cases {
        // The file has another name than its agent. Of the user's, the project's takes the place in no case.
        let alone = World::new().file("project/.claude/agents/file.md", &agent(name, lines));
        let users = World::new()
            .file(".claude/agents/mine.md", &agent(name, lines))
            .file("project/.claude/agents/file.md", &agent(name, ""));
        for world in [alone, users] {
            let (done, _) = run(&world, Vec::new(), &["--agent", name]);
            assert_eq!((done.status, done.stdout.as_str()), (3, ""), "{name}: {}", done.stderr);
            for part in [restriction, remedy, "which is not supported"] {
                assert!(done.stderr.contains(part), "{name}: {part}: {}", done.stderr);
            }
            assert_eq!(world.run(&["agents", "validate"]).status, 3, "{name}");
        }
    }
}

#[test]
fn the_users_agent_counts_before_the_projects_and_both_files_are_named() {
    let agent =
        |prompt: &str| format!("---\nname: same\ndescription: D.\ntools: []\n---\n{prompt}\n");
    let world = World::new()
        .file(
            "project/.loopwright/agents/theirs.md",
            &agent("Be theirs.").replace("tools: []\n", ""),
        )
        .file(".claude/agents/mine.md", &agent("Be mine."));
    let (done, server) = run(&world, vec![streamed("Done.", "stop")], &["--agent", "same"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let request = server.request();
    assert!(system(&request).starts_with("Be mine."), "{}", system(&request));
    assert_eq!(tools(&request), Vec::<&str>::new());
    let expect = "warning: /project/.loopwright/agents/theirs.md: the file is skipped: /.claude/agents/mine.md defines an agent of the same name\n";
    assert!(done.stderr.starts_with(expect), "{}", done.stderr);
}

#[test]
fn agents_validate_checks_the_agent_that_runs() {
    let cases = [
        ("disallowedTools: WebFetch", true),
        ("toolsDeny: [todo_write, mcp__github, NotebookEdit]", true),
        ("toolsDeny: [bsh]", false),
        ("tools: [magic]", false),
        ("tools: [todo_write]", true),
        ("capabilities: [use_magic]", false),
        ("capabilities: [use_task_planning, use_subagents]", true),
        ("skills: [none]", false),
        ("llm: mine/m", true),
        ("llm: nobody/m", false),
        ("llm: {provider: nobody}", false),
        ("permissionMode: plan", true),
        ("permissionMode: careful", false),
        ("tools: ['Write(x)']", false),
        ("permissionMode: acceptEdits", true),
    ];
    let server = Server::start(cases.iter().map(|_| streamed("Done.", "stop")));
    let config = format!("model = 'mine/m'\n[providers.mine]\nbase_url = '{}'\n", server.url);
    for (line, is_fine) in cases {
        let agent = format!("name: a\ndescription: A.\n{line}\nsystemPrompt: Go.\n");
        let world = World::new()
            .file(".config/loopwright/config.toml", &config)
            .file("project/.loopwright/agents/a.yaml", &agent);
        let validated = world.run(&["agents", "validate"]);
        let ran = world.run(&["run", "--agent", "a", "x"]);
        assert_eq!(validated.status == 0, is_fine, "{line}: {}", validated.stdout);
        assert_eq!(ran.status == 0, is_fine, "{line}: {}", ran.stderr);
    }
}

#[test]
fn no_file_is_begun_through_a_link_of_the_project() {
    let world = World::new().file("elsewhere/a", "");
    let link = world.path("project/.loopwright");
    std::os::unix::fs::symlink(world.path("elsewhere"), &link).unwrap();
    let done = world.run(&["agents", "new", "a"]);
    assert_eq!(done.status, 1, "{}", done.stdout);
    assert!(done.stderr.contains("/project/.loopwright\n"), "{}", done.stderr);
    assert!(done.stderr.contains("is a symbolic link"), "{}", done.stderr);
    assert_eq!(std::fs::read_dir(world.path("elsewhere")).unwrap().count(), 1);
}

#[test]
fn each_checked_file_has_its_own_line() {
    let done = World::new().run(&["agents", "validate"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, ""));
    assert!(done.stderr.starts_with("no agents are defined"), "{}", done.stderr);
    let done = World::new().run(&["skills", "validate"]);
    assert!(done.stderr.starts_with("no skills found"), "{}", done.stderr);
    let world = World::new().file("project/.loopwright/agents/a\nb.yaml: ok.yaml", "name: 3\n");
    let done = world.run(&["agents", "validate"]);
    assert_eq!(done.status, 3);
    let is_told = |it: &str| it.contains("/agents/a\\nb.yaml: ok.yaml: error: ");
    assert!(!done.stdout.is_empty() && done.stdout.lines().all(is_told), "{}", done.stdout);
}

#[test]
fn an_address_is_shown_without_its_password() {
    let text = "name: s\ndescription: Uses postgres://me:hunter2@db/x.\nmetadata: {at: \"https://a:hunter2@b/\"}\nsystemPrompt: Go.\n";
    let world = World::new().file("project/.loopwright/agents/s.yaml", text);
    for options in [&["agents", "show", "s"][..], &["agents", "show", "s", "--json"]] {
        let done = world.run(options);
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert!(!done.stdout.contains("hunter2"), "{}", done.stdout);
        assert!(done.stdout.contains("postgres://me:[redacted]@db/x"), "{}", done.stdout);
    }
}

#[test]
fn a_skill_that_an_agent_begins_with_has_nothing_to_work_on() {
    let skill = "---\nname: fix\ndescription: Fixes.\n---\nFix $ARGUMENTS now.\n";
    let agent = "name: s\ndescription: Has a skill.\nskills: [fix]\nsystemPrompt: Go.\n";
    let world = World::new()
        .file("project/.agents/skills/fix/SKILL.md", skill)
        .file("project/.loopwright/agents/s.yaml", agent);
    let (done, server) = run(&world, vec![streamed("ok", "stop")], &["--agent", "s"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let request = server.request();
    assert!(system(&request).contains("Fix  now."), "{}", system(&request));
}

/// Starts two sub-agents at once, each of which calls a tool and says something.
fn run_with_subagents(options: &[&str]) -> crate::world::Done {
    let lead =
        "name: lead\ndescription: Leads.\ncapabilities: [use_subagents]\nsystemPrompt: Lead.\n";
    let child = "name: child\ndescription: Works.\ntools: [bash]\nsystemPrompt: Work.\n";
    let world = World::new()
        .file("project/.loopwright/agents/lead.yaml", lead)
        .file("project/.loopwright/agents/child.yaml", child);
    let spawn = json!({ "subagent": "child", "prompt": "Work." });
    let replies = vec![
        streamed_tool("I delegate.", "spawn_subagent", &spawn),
        streamed_call("Inner words.", "false"),
        streamed("Inner answer.", "stop"),
        streamed("Outer answer.", "stop"),
    ];
    run(&world, replies, &[&["--agent", "lead"], options].concat()).0
}

#[test]
fn words_of_a_subagent_are_no_part_of_the_answer_and_its_calls_bear_its_name() {
    let done = run_with_subagents(&[]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "I delegate.\nOuter answer.\n"));
    let calls: Vec<String> = done
        .stderr
        .lines()
        .filter(|it| it.contains(" · "))
        .map(|it| it.rsplit_once(" · ").unwrap().0.to_owned())
        .collect();
    assert_eq!(calls[0], "  ✗ child › bash false · exit 1", "{}", done.stderr);
    assert!(calls[1].starts_with("  ✓ spawn_subagent "), "{}", done.stderr);
}

#[test]
fn lines_of_stream_json_name_their_agent_and_those_of_a_subagent_its_parent() {
    let done = run_with_subagents(&["--json"]);
    let lines: Vec<Value> = done.stdout.lines().map(json_of).collect();
    let (init, rest) = lines.split_first().unwrap();
    let (result, rest) = rest.split_last().unwrap();
    assert_eq!((&init["type"], &result["type"]), (&json!("init"), &json!("result")));
    assert_eq!(result["text"], "Outer answer.");
    let own = &result["agent_id"];
    assert!(own.is_string() && rest.iter().all(|it| it["agent_id"].is_string()), "{}", done.stdout);
    let text = |is_own: bool| -> String {
        let of = rest.iter().filter(|it| (it["agent_id"] == *own) == is_own);
        let deltas = of.filter(|it| it["type"] == "text_delta");
        deltas.map(|it| it["text"].as_str().unwrap()).collect()
    };
    assert_eq!(text(true), "I delegate.Outer answer.");
    assert_eq!(text(false), "Inner words.Inner answer.");
    for line in rest {
        let parent = line.get("parent_agent_id");
        assert_eq!(parent, Some(own).filter(|own| line["agent_id"] != **own), "{line}");
    }
    let failed = rest.iter().find(|it| it["type"] == "tool_result").unwrap();
    assert_eq!((&failed["tool"], &failed["exit_code"]), (&json!("bash"), &json!(1)));
}

#[test]
fn an_agent_that_is_spawned_has_the_capabilities_that_its_definition_names() {
    let lead =
        "name: lead\ndescription: Leads.\ncapabilities: [use_subagents]\nsystemPrompt: Lead.\n";
    let child = "name: child\ndescription: Works.\ncapabilities: [use_task_planning]\nsystemPrompt: Work.\n";
    let world = World::new()
        .file("project/.loopwright/agents/lead.yaml", lead)
        .file("project/.loopwright/agents/child.yaml", child);
    let spawn = json!({ "subagent": "child", "prompt": "Work." });
    let replies = vec![
        streamed_tool("", "spawn_subagent", &spawn),
        streamed("worked", "stop"),
        streamed("led", "stop"),
    ];
    let (done, server) = run(&world, replies, &["--agent", "lead"]);
    assert_eq!((done.status, done.stdout.as_str()), (0, "led\n"), "{}", done.stderr);
    let request = server.request();
    assert!(!tools(&request).contains(&"todo_write"), "its parent has none: {request}");
    let request = server.request();
    assert!(system(&request).contains("Work."), "{request}");
    assert!(tools(&request).contains(&"todo_write"), "{request}");
}

#[test]
fn a_run_names_the_files_of_agents_in_the_project_that_are_refused() {
    let good = "name: good\ndescription: Works.\nsystemPrompt: Work.\n";
    let world = World::new()
        .file("project/.loopwright/agents/good.yaml", good)
        .file("project/.loopwright/agents/bad.yaml", "name: bad\ndescription: [\n");
    for options in [&["--agent", "good", "Go."][..], &["Go."]] {
        let server = Server::start([streamed("Done.", "stop")]);
        let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let done = world.run(&[&line[..], options].concat());
        assert_eq!((done.status, done.stdout.as_str()), (0, "Done.\n"), "{}", done.stderr);
        let warned = done.stderr.lines().filter(|it| it.starts_with("warning: ")).count();
        assert_eq!(warned, 1, "{}", done.stderr);
        assert!(done.stderr.contains(".loopwright/agents/bad.yaml"), "{}", done.stderr);
    }
}
