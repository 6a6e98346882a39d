//! `env`, `model` and `statusLine` of `.claude/settings.json`.

use crate::prompt_line::{chatting, done};
use crate::server::{Server, streamed, streamed_call};
use crate::terminal::Terminal;
use crate::world::World;

const FILE: &str = ".claude/settings.json";

const SETTINGS: &str = r#"{
  "env": { "FOO": "from-settings", "LD_PRELOAD": "/tmp/x.so" },
  "model": "opus",
  "statusLine": { "type": "command", "command": "echo line-of-settings" },
  "outputStyle": "Explanatory"
}"#;

/// Returns what a command prints of the variables, and the warnings.
fn printed(world: &World) -> (String, String) {
    let replies = [streamed_call("", "echo [$FOO][$LD_PRELOAD]"), streamed("Done.", "stop")];
    let server = Server::start(replies);
    let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Go."];
    let done = world.run(&line);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let requests = server.heard();
    let messages = requests[1].1["messages"].as_array().unwrap().clone();
    (messages.last().unwrap()["content"].as_str().unwrap().trim().to_owned(), done.stderr)
}

#[test]
fn variables_of_a_trusted_project_reach_its_commands_and_nothing_that_changes_programs() {
    let world = World::new().file(&format!("project/{FILE}"), SETTINGS);
    let (output, warnings) = printed(&world);
    assert_eq!(output, "[][]");
    let untrusted = "warning: this project is not trusted: `env`, `model` and `statusLine` are ignored; review with `loopwright trust`";
    assert!(warnings.contains(untrusted), "{warnings}");
    let trusted = world.run(&["trust", "--yes"]).stderr;
    for line in
        ["variable FOO=from-settings (", "model opus (", "status line echo line-of-settings ("]
    {
        assert!(trusted.contains(line), "{trusted}");
    }
    let (output, warnings) = printed(&world);
    assert_eq!(output, "[from-settings][]");
    let refused = "/project/.claude/settings.json:2: `env.LD_PRELOAD` is ignored: the variable can contain a secret or change which programs run";
    let unknown = "/project/.claude/settings.json: `outputStyle` has no effect here; details: `loopwright policy lint`";
    assert!(warnings.contains(refused) && warnings.contains(unknown), "{warnings}");
}

#[test]
fn settings_of_the_user_count_where_the_configuration_says_so() {
    let world = World::new().file(FILE, SETTINGS);
    assert_eq!(printed(&world).0, "[][]");
    let world = world.file(".config/loopwright/config.toml", "[permissions]\nclaude = true\n");
    assert_eq!(printed(&world).0, "[from-settings][]");
    let world = world.file(
        ".config/loopwright/config.toml",
        "[permissions]\nclaude = true\n[sandbox]\nenvironment = [\"FOO=own\"]\n",
    );
    assert_eq!(printed(&world).0, "[own][]");
}

#[test]
fn a_model_that_can_be_used_is_the_one_of_the_run_unless_another_is_named() {
    let shown = |world: &World| {
        let done = world.run(&["config", "show"]);
        (done.stdout + &done.stderr)
            .lines()
            .filter(|it| it.contains("model"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let world = World::new()
        .file(FILE, SETTINGS)
        .file(".config/loopwright/config.toml", "[permissions]\nclaude = true\n");
    let without_key = shown(&world);
    assert!(without_key.contains("settings.json:3: `model` is ignored: "), "{without_key}");
    let world = world.env("ANTHROPIC_API_KEY", "k");
    let with_key = shown(&world);
    assert!(with_key.contains("anthropic/claude-opus"), "{with_key}");
    let own = "model = \"openai/gpt-5\"\n[permissions]\nclaude = true\n";
    let world = world.file(".config/loopwright/config.toml", own);
    assert!(shown(&world).contains("openai/gpt-5"), "{}", shown(&world));
}

#[test]
fn the_status_line_of_a_trusted_project_is_shown_unless_the_user_has_one() {
    let seen = |world: &World| {
        done(Terminal::new(80).typing("/help for help", "/quit").run(world, &[])).written
    };
    let server = Server::start([]);
    let world = chatting(&server).file(&format!("project/{FILE}"), SETTINGS);
    assert!(!seen(&world).contains("line-of-settings"));
    assert_eq!(world.run(&["trust", "--yes"]).status, 0);
    assert!(seen(&world).contains("line-of-settings"));
    let own = "[chat]\nstatus_line = \"echo own-line\"\n";
    let world = world.file(".config/loopwright/config.toml", own);
    assert!(!seen(&world).contains("line-of-settings"));
}
