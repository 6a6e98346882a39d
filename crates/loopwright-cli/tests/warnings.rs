//! Warnings about files of the user.

use crate::server::{Server, streamed};
use crate::world::World;

#[test]
fn a_warning_about_a_file_is_shown_again_only_until_there_is_a_folder_of_state() {
    let agent = "---\nname: a\ndescription: D.\nflavour: sweet\n---\nGo.\n";
    let world = World::new()
        .file(".config/loopwright/config.toml", "modle = 'a/b'\n")
        .file("project/.claude/agents/a.md", agent);
    let server = Server::start((0..3).map(|_| streamed("Done.", "stop")));
    let line = [
        "run",
        "--agent",
        "a",
        "-m",
        "openai-compatible/test",
        "--base-url",
        &server.url,
        "Go on.",
    ];
    let shown = || {
        let done = world.run(&line);
        assert_eq!(done.status, 0, "{}", done.stderr);
        ["modle", "flavour"].map(|it| done.stderr.contains(it))
    };
    // The first run makes the folder, after its warnings.
    assert_eq!([shown(), shown(), shown()], [[true, true], [true, true], [false, false]]);
    let checked = world.run(&["agents", "validate"]);
    let all = format!("{}{}", checked.stdout, checked.stderr);
    assert!(all.contains("flavour") && all.contains("modle"), "{all}");
}

#[test]
fn a_mode_of_a_definition_that_is_looser_than_that_of_the_run_has_no_effect_and_a_warning() {
    let agent =
        |mode: &str| format!("---\nname: a\ndescription: D.\npermissionMode: {mode}\n---\nGo.\n");
    let warned = |mode: &str, run: &str| {
        let world = World::new().file("project/.claude/agents/a.md", &agent(mode));
        let server = Server::start([streamed("Done.", "stop")]);
        let model = ["run", "--agent", "a", "-m", "openai-compatible/test", "--base-url"];
        let options = [server.url.as_str(), "--permission-mode", run, "Go on."];
        let line = [&model[..], &options].concat();
        let done = world.run(&line);
        assert_eq!(done.status, 0, "{}", done.stderr);
        done.stderr.contains("`permissionMode` of agent `a` has no effect")
    };
    assert!(warned("acceptEdits", "ask"));
    assert!(!warned("acceptEdits", "auto"));
    assert!(!warned("plan", "auto"));
}

#[test]
fn a_rule_for_a_tool_that_an_agent_or_the_configuration_declares_is_no_rule_for_an_unknown_one() {
    let agent = "---\nname: finder\ndescription: Finds.\ncapabilities:\n  - use_external_tools:\n      tools:\n        \
        - name: locate\n          description: Finds.\n---\nGo.\n";
    let own = "[[capabilities.use_external_tools.tools]]\nname = \"call_home\"\ndescription = \"Calls.\"\n\n\
        [permissions]\ndeny = [\"locate\", \"call_home\", \"locat\"]\n";
    let world = World::new()
        .file("project/.claude/agents/finder.md", agent)
        .file(".config/loopwright/config.toml", own);
    let unknown = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("unknown tool"));
        lines.map(|line| line.contains("`locat`")).collect::<Vec<_>>()
    };
    for agent in [&["--agent", "finder"][..], &[]] {
        let server = Server::start([streamed("Done.", "stop")]);
        let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let done = world.run(&[&model, agent, &["Go on."]].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert_eq!(unknown(&done.stderr), [true], "{}", done.stderr);
    }
    let linted = world.run(&["policy", "lint"]);
    assert_eq!((linted.status, unknown(&linted.stderr)), (3, vec![true]), "{}", linted.stderr);
}

#[test]
fn what_an_untrusted_project_brings_is_one_line_and_its_unknown_keys_are_one_line_per_file() {
    let settings = r#"{ "$schema": "x", "env": { "A": "1" }, "model": "opus", "outputStyle": "x",
        "cleanupPeriodDays": 1, "permissions": { "allow": ["Bash(ls)", "Bash(pwd)"], "allowed": [] },
        "hooks": { "PreToolUse": [{ "hooks": [{ "type": "command", "command": "true" }] }] } }"#;
    let servers = r#"{ "mcpServers": { "notes": { "command": "cat" } } }"#;
    let world = World::new()
        .file("project/.claude/settings.json", settings)
        .file("project/.claude/commands/tidy.md", "---\ndescription: Tidies up.\n---\nTidy up.\n")
        .file("project/.mcp.json", servers);
    let run = |url: &str| {
        let done = world.run(&["run", "-m", "openai-compatible/test", "--base-url", url, "Go on."]);
        let warnings = done.stderr.lines().filter(|it| it.starts_with("warning: "));
        (done.status, warnings.map(str::to_owned).collect::<Vec<_>>())
    };
    let ignored = "warning: this project is not trusted: 2 permission settings, 1 hook, 1 MCP server, `env` and `model` are ignored, \
        and 1 command is not offered to the model; review with `loopwright trust`";
    let keys = "warning: /project/.claude/settings.json: `outputStyle`, `cleanupPeriodDays` and `permissions.allowed` have no effect here; \
        details: `loopwright policy lint`";
    let server = Server::start([streamed("Done.", "stop")]);
    assert_eq!(run(&server.url), (0, vec![ignored.to_owned(), keys.to_owned()]));
    let details = world.run(&["policy", "lint"]).stderr;
    let each = "/project/.claude/settings.json:1: `outputStyle` is ignored: not supported";
    assert!(details.contains(each), "{details}");
    let lists: [&[&str]; 5] = [
        &["agents", "list"],
        &["skills", "list"],
        &["mcp", "list"],
        &["config", "show"],
        &["trust"],
    ];
    for list in lists {
        let told = world.run(list).stderr;
        assert!(!told.contains("ignored"), "{list:?}: {told}");
    }
}

#[test]
fn a_mode_of_an_untrusted_project_that_overrules_an_option_is_told() {
    let settings = "{ \"permissions\": {\n\"defaultMode\": \"acceptEdits\" } }";
    let world = World::new().file("project/.claude/settings.json", settings);
    let told = |mode: &str| {
        let server = Server::start([streamed("Done.", "stop")]);
        let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let done = world.run(&[&line[..], &["--permission-mode", mode, "Go on."]].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
        let told = format!(
            "mode `accept-edits` from /project/.claude/settings.json:2 applies: it is stricter than `{mode}`, and the project is not trusted"
        );
        done.stderr.contains(&told)
    };
    assert!(told("auto"));
    assert!(!told("plan"));
    assert_eq!(world.run(&["trust", "--yes"]).status, 0);
    assert!(!told("auto"));
}
