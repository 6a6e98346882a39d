//! What `trust` shows and covers, settings of Claude Code that hold in every project, and lists of rules in options.

use serde_json::{Value, json};

use crate::hooks::{is_there, removing, run};
use crate::server::{Server, streamed, streamed_call};
use crate::terminal::Terminal;
use crate::world::World;

const SETTINGS: &str = ".claude/settings.json";

fn guard(command: &str) -> Value {
    json!({ "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": command }] }] })
}

fn guarded() -> World {
    let hooks = guard("sh \"$CLAUDE_PROJECT_DIR/.claude/g.sh\" && sh ci/g.sh");
    let settings = json!({ "permissions": { "allow": ["Bash(rm *)"], "defaultMode": "acceptEdits" }, "hooks": hooks });
    World::new()
        .file(&format!("project/{SETTINGS}"), &settings.to_string())
        .file("project/.claude/g.sh", "exit 0")
        .file("project/ci/g.sh", "exit 2")
        .file(
            "project/.claude/skills/s/SKILL.md",
            "---\nname: s\ndescription: s\n---\n!`git status`\n",
        )
}

#[test]
fn settings_that_cannot_be_read_make_every_call_ask() {
    let rules = r#"{ "permissions": { "deny": ["Bash"] } }"#;
    for trusts in [false, true] {
        let world = World::new().file(&format!("project/{SETTINGS}"), rules);
        if trusts {
            assert_eq!(world.run(&["trust", "--yes"]).status, 0);
        }
        let damaged = [rules.as_bytes(), b"\xff"].concat();
        std::fs::write(world.path(&format!("project/{SETTINGS}")), damaged).unwrap();
        let (ended, _) = run(&world, removing(), &["--on-ask", "deny"]);
        assert!(is_there(&world), "{}", ended.stderr);
        let told = "the file cannot be read, so every call needs approval";
        assert!(ended.stderr.contains(told), "{}", ended.stderr);
    }
}

#[test]
fn a_change_to_a_script_that_settings_run_ends_trust() {
    for script in ["project/.claude/g.sh", "project/ci/g.sh"] {
        let world = guarded();
        assert_eq!(world.run(&["trust", "--yes"]).status, 0);
        let (trusted, _) = run(&world, removing(), &[]);
        assert!(is_there(&world), "{}", trusted.stderr);
        assert!(!trusted.stderr.contains("ignored"), "{}", trusted.stderr);
        let world = world.file(script, "exit 1");
        let (changed, _) = run(&world, removing(), &[]);
        assert!(changed.stderr.contains("1 hook"), "{script}: {}", changed.stderr);
        let told = "settings of this project, or files that they run, have changed since they were trusted";
        assert!(changed.stderr.contains(told), "{script}: {}", changed.stderr);
    }
}

#[test]
fn calls_that_a_trusted_hook_guarded_ask_until_the_changed_project_is_trusted_again() {
    let settings = format!("project/{SETTINGS}");
    let trust = |world: &World, option| assert_eq!(world.run(&["trust", option]).status, 0);
    let world = World::new().file(&settings, &json!({ "hooks": guard("exit 2") }).to_string());
    trust(&world, "--yes");
    let world = world
        .file("project/.claude/skills/s/SKILL.md", "---\nname: s\ndescription: s\n---\n!`ls`\n");
    let (asked, _) = run(&world, removing(), &[]);
    assert_eq!((asked.status, is_there(&world)), (9, true), "{}", asked.stderr);
    // Settings that have lost the hook do not end its effect.
    let world = world.file(&settings, "{}");
    let (asked, _) = run(&world, removing(), &[]);
    assert_eq!((asked.status, is_there(&world)), (9, true), "{}", asked.stderr);
    trust(&world, "--revoke");
    let (unguarded, _) = run(&world, removing(), &[]);
    assert_eq!((unguarded.status, is_there(&world)), (0, false), "{}", unguarded.stderr);
}

#[test]
fn trust_shows_what_it_allows_and_asks_at_a_terminal() {
    let is_trusted =
        |world: &World| world.run(&["policy", "show"]).stdout.contains("allow Bash(rm *)");
    let world = guarded();
    let answering = |answer: &'static str| {
        Terminal::new(200).pressing("trust all of this? [y/N]", answer).run(&world, &["trust"])
    };
    let refused = answering("n\r");
    for shown in [
        "allow Bash(rm *)",
        "mode accept-edits",
        "hook PreToolUse Bash: sh",
        "ci/g.sh (run by a command below)",
        "SKILL.md: git status",
        "nothing was changed",
    ] {
        assert!(refused.text().contains(shown), "{shown}: {}", refused.text());
    }
    assert!(!is_trusted(&world));
    // Without a terminal, the user has to agree in the command.
    let piped = world.run(&["trust"]);
    assert_eq!((piped.status, is_trusted(&world)), (2, false), "{}", piped.stderr);
    assert!(piped.stderr.contains("pass `--yes` to trust the listed settings"), "{}", piped.stderr);
    assert!(answering("y\r").text().contains("is trusted until"));
    assert!(is_trusted(&world));
    assert_eq!(world.run(&["trust", "--revoke"]).status, 0);
    assert!(!is_trusted(&world));
    let unasked = Terminal::new(200).run(&world, &["trust", "--yes"]);
    assert!(is_trusted(&world), "{}", unasked.text());
}

#[test]
fn settings_of_the_user_for_claude_code_restrict_and_allow_only_if_the_configuration_says_so() {
    let settings = json!({
        "model": "opus",
        "permissions": { "allow": ["Bash(ls *)"], "deny": ["Bash(rm *)"], "defaultMode": "default",
            "disableBypassPermissionsMode": "disable" },
        "hooks": guard("exit 2"),
    });
    let world = World::new().file(SETTINGS, &settings.to_string());
    let shown = |world: &World, options: &[&str]| {
        let done = world.run(&[&["policy", "show"], options].concat());
        (done.stdout, done.stderr)
    };
    let place = "(/.claude/settings.json:1)";
    let warned = "warning: 1 permission setting ignored in the Claude Code settings for all projects; to use them, set `claude = true` in `[permissions]` of your own configuration; to hide this warning, set `claude = false`\n\
                  warning: /.claude/settings.json: 1 hook ignored: `permissions.claude` is not set\n";
    let restricting = format!("deny Bash(rm *) {place}\n");
    assert_eq!(shown(&world, &[]), (format!("mode ask\n{restricting}"), warned.to_owned()));
    let (typed, _) = shown(&world, &["--permission-mode", "accept-edits"]);
    assert_eq!(typed, format!("mode accept-edits\n{restricting}"));
    let (forbidden, _) = shown(&world, &["--permission-mode", "unconfined"]);
    assert_eq!(forbidden, format!("mode ask\n{restricting}"));
    run(&world, removing(), &["--on-ask", "deny"]);
    assert!(is_there(&world));
    let own = |world: World, text: &str| world.file(".config/loopwright/config.toml", text);
    let world = own(world, "[permissions]\nclaude = false\n");
    assert_eq!(shown(&world, &[]), (format!("mode ask\n{restricting}"), String::new()));
    let world = own(world, "[permissions]\nclaude = true\n");
    let all = format!(
        "mode ask\n{restricting}allow Bash(ls *) {place}\nhook PreToolUse Bash: exit 2 (/.claude/settings.json)\n"
    );
    let warned = "warning: /.claude/settings.json:1: `model` is ignored: the key of provider `anthropic` is missing: set ANTHROPIC_API_KEY\n";
    assert_eq!(shown(&world, &[]), (all, warned.to_owned()));
    let (bare, _) = run(&world, removing(), &["--bare"]);
    assert!(!is_there(&world), "{}", bare.stderr);
    let world = own(world, "").file("project/loopwright.toml", "[permissions]\nclaude = true\n");
    assert_eq!(world.run(&["policy", "show"]).status, 3);
}

#[test]
fn an_option_takes_a_list_of_rules_and_one_for_an_unknown_tool_is_reported() {
    for option in ["--disallowedTools", "--deny"] {
        let world = World::new();
        let (done, _) = run(&world, removing(), &[option, "Edit,Bash(rm *), Bashh"]);
        assert!(is_there(&world), "{}", done.stderr);
        let warning = "command line: rule `Bashh`: unknown tool `Bashh`; write `Bash`";
        assert!(done.stderr.contains(warning), "{}", done.stderr);
    }
    let world = World::new();
    let ask = ["--permission-mode", "ask", "--on-ask", "deny"];
    run(&world, removing(), &[&ask[..], &["--allowedTools", "Bash(rm a.txt),Edit"]].concat());
    assert!(!is_there(&world));
}

#[test]
fn commands_that_the_user_types_keep_the_trust_in_a_project_and_give_none() {
    let commands: [&[&str]; 4] = [
        &["agents", "new", "helper"],
        &["agents", "new", "helper", "--overwrite", "--prompt", "Help."],
        &["mcp", "add", "--project", "git", "sh", "ci/g.sh"],
        &["mcp", "remove", "--project", "git"],
    ];
    let is_trusted =
        |world: &World| world.run(&["policy", "show"]).stdout.contains("allow Bash(rm *)");
    let after_each = |world: &World| {
        commands.map(|command| {
            let done = world.run(command);
            assert_eq!(done.status, 0, "{}", done.stderr);
            let is_trusted = is_trusted(world);
            let advises = done.stderr.contains("trust the project with `loopwright trust`");
            assert_eq!(advises, !is_trusted && command.contains(&"add"), "{}", done.stderr);
            is_trusted
        })
    };
    assert_eq!(after_each(&guarded()), [false; 4]);
    let trusted = guarded();
    assert_eq!(trusted.run(&["trust", "--yes"]).status, 0);
    assert_eq!(after_each(&trusted), [true; 4]);
    // What the new settings run is covered.
    assert!(trusted.run(commands[2]).status == 0 && is_trusted(&trusted));
    assert!(!is_trusted(&trusted.file("project/ci/g.sh", "exit 3")));
    let changed = guarded();
    assert_eq!(changed.run(&["trust", "--yes"]).status, 0);
    assert_eq!(after_each(&changed.file("project/.claude/g.sh", "exit 3")), [false; 4]);
    let revoked = guarded();
    assert_eq!(revoked.run(&["trust", "--yes"]).status, 0);
    assert_eq!(revoked.run(&["trust", "--revoke"]).status, 0);
    assert_eq!(after_each(&revoked), [false; 4]);
}

#[test]
fn a_project_is_reviewed_in_a_chat_and_trusted_from_the_next_message_on() {
    let world = guarded().env("TERM", "xterm-256color").file("project/a.txt", "a");
    let world = world.file("project/ci/g.sh", "exit 0");
    let server = Server::start([
        streamed("One.", "stop"),
        streamed_call("", "rm a.txt"),
        streamed("Two.", "stop"),
    ]);
    let line = [
        "chat",
        "-m",
        "openai-compatible/test",
        "--base-url",
        &server.url,
        "--permission-mode",
        "ask",
    ];
    let terminal = Terminal::new(200)
        .typing("review with `/trust`", "first")
        .typing("One.", "/trust")
        .typing("trust all of this? [y/N]", "y")
        .typing("is trusted from your next message on", "second")
        .typing("Two.", "/quit");
    let seen = terminal.run(&world, &line);
    assert!(seen.text().contains("allow Bash(rm *)"), "{}", seen.text());
    assert_eq!((seen.status, world.path("project/a.txt").exists()), (0, false), "{}", seen.text());
}

#[test]
fn a_settings_file_that_cannot_be_read_is_told_with_the_reason() {
    let world = World::new().file("project/.claude/x", "");
    let path = world.path(&format!("project/{SETTINGS}"));
    let told = || world.run(&["policy", "show"]).stderr;
    std::fs::create_dir(&path).unwrap();
    assert!(told().contains("not a regular file"), "{}", told());
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, b"\xff").unwrap();
    assert!(told().contains("not UTF-8 text"), "{}", told());
}

#[test]
fn a_project_that_is_trusted_does_not_choose_the_mode_unconfined() {
    let files = [
        (".claude/settings.json", r#"{ "permissions": { "defaultMode": "bypassPermissions" } }"#),
        (
            ".claude/settings.local.json",
            r#"{ "permissions": { "defaultMode": "bypassPermissions" } }"#,
        ),
        ("loopwright.toml", "[permissions]\nmode = \"unconfined\"\n"),
    ];
    let ignored = "the mode `unconfined` is ignored in this file";
    for (name, text) in files {
        let world = World::new().file(&format!("project/{name}"), text);
        assert_eq!(world.run(&["trust", "--yes"]).status, 0);
        let shown = |options: &[&str]| {
            let done = world.run(&[&["policy", "show"], options].concat());
            (done.stdout, done.stderr.contains(ignored))
        };
        assert_eq!(shown(&[]), ("mode auto\n".to_owned(), true), "{name}");
        let typed = shown(&["--permission-mode", "unconfined"]);
        assert_eq!(typed, ("mode unconfined\n".to_owned(), true), "{name}");
        let own =
            world.file(".config/loopwright/config.toml", "[permissions]\nmode = \"unconfined\"\n");
        assert_eq!(own.run(&["policy", "show"]).stdout, "mode unconfined\n", "{name}");
    }
}
