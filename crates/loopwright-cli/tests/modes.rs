//! Which permission mode is in force, and that it is seen.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::server::{Server, streamed};
use crate::world::{Done, World};

const UNCONFINED: &str = "mode unconfined: every call runs unless a rule denies it; the sandbox remains active, and only `--add-dir` and `[sandbox]` widen it";

/// Returns the lines of standard error that name a mode.
fn modes(done: &Done) -> Vec<&str> {
    done.stderr.lines().filter(|line| line.starts_with("mode ")).collect()
}

fn run(world: &World, options: &[&str]) -> Done {
    let server = Server::start([streamed("Done.", "stop")]);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run(&[&model, options, &["Go."]].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
    done
}

#[test]
fn a_run_names_its_mode_unless_it_is_the_default_and_unconfined_even_if_it_is_quiet() {
    let told = |options: &[&str]| {
        let done = run(&World::new(), options);
        modes(&done).join("\n")
    };
    for session in [&[][..], &["--no-session"]] {
        let in_mode =
            |mode, others: &[&str]| told(&[session, &["--permission-mode", mode], others].concat());
        assert_eq!(told(session), "");
        assert_eq!(in_mode("auto", &[]), "");
        assert_eq!(in_mode("plan", &[]), "mode plan");
        assert_eq!(in_mode("plan", &["-q"]), "");
        assert_eq!(in_mode("plan", &["--json"]), "");
        assert_eq!(in_mode("plan", &["--output-format", "events"]), "mode plan");
        assert_eq!(in_mode("unconfined", &[]), UNCONFINED);
        assert_eq!(in_mode("unconfined", &["-q"]), UNCONFINED);
    }
}

#[test]
fn the_mode_of_the_definition_is_told_if_it_is_the_stricter_one() {
    let agent = "---\nname: a\ndescription: D.\npermissionMode: plan\n---\nGo.\n";
    let world = World::new().file("project/.claude/agents/a.md", agent);
    let told = |mode| {
        let done = run(&world, &["--agent", "a", "--permission-mode", mode]);
        modes(&done).join("\n")
    };
    assert_eq!(told("auto"), "mode plan");
    assert_eq!(told("unconfined"), "mode plan");
    assert_eq!(told("deny"), "mode deny");
}

#[test]
fn a_worker_and_a_chat_without_a_terminal_name_their_mode() {
    let model = ["-m", "openai-compatible/test", "--base-url", "http://127.0.0.1:9"];
    let world = World::new();
    let told = |command: &[&str], mode: &str| {
        let done = world.run_with(&[command, &model, &["--permission-mode", mode]].concat(), "");
        modes(&done).join("\n")
    };
    for command in [&["worker", "--exit-when-idle"][..], &["chat"]] {
        assert_eq!(told(command, "auto"), "", "{command:?}");
        assert_eq!(told(command, "plan"), "mode plan", "{command:?}");
        assert_eq!(told(command, "unconfined"), UNCONFINED, "{command:?}");
        assert_eq!(told(&[command, &["-q"]].concat(), "plan"), "", "{command:?}");
        assert_eq!(told(&[command, &["-q"]].concat(), "unconfined"), UNCONFINED, "{command:?}");
    }
    assert_eq!(told(&["worker", "--exit-when-idle", "--json"], "unconfined"), "");
}

#[test]
fn a_server_names_its_mode() {
    let world = World::new();
    for (mode, expect) in [("plan", "mode plan"), ("unconfined", UNCONFINED)] {
        let line = [
            &["serve", "--listen", "127.0.0.1:0", "--permission-mode", mode][..],
            &["-m", "openai-compatible/test", "--base-url", "http://127.0.0.1:9"],
        ];
        let mut command = world.command(&line.concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let told = lines.find(|line| line.starts_with("mode "));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(told.as_deref(), Some(expect));
    }
}

/// The modes, by the names that Claude Code gives them.
const NAMES: [(&str, &str); 6] = [
    ("plan", "plan"),
    ("ask", "default"),
    ("accept-edits", "acceptEdits"),
    ("auto", "auto"),
    ("deny", "dontAsk"),
    ("unconfined", "bypassPermissions"),
];

/// Returns the mode that is in force, or the exit status.
fn shown(world: &World, options: &[&str]) -> Result<String, i32> {
    let done = world.run(&[&["policy", "show"], options].concat());
    let mode = done.stdout.lines().next().and_then(|line| line.strip_prefix("mode "));
    mode.map(str::to_owned).ok_or(done.status)
}

#[test]
fn every_source_selects_every_mode_and_only_the_user_selects_unconfined() {
    let toml = |mode: &str| format!("[permissions]\nmode = \"{mode}\"\n");
    let claude = |mode: &str| format!(r#"{{ "permissions": {{ "defaultMode": "{mode}" }} }}"#);
    let trusted = |name: &str, text: &str| {
        let world = World::new().file(&format!("project/{name}"), text);
        assert_eq!(world.run(&["trust", "--yes"]).status, 0);
        world
    };
    for (name, alias) in NAMES {
        let is_unconfined = name == "unconfined";
        let mode = || Ok(name.to_owned());
        let unless_unconfined = |otherwise| if is_unconfined { otherwise } else { mode() };
        let ignored = || unless_unconfined(Ok("auto".to_owned()));
        for written in [name, alias] {
            // What the user types.
            assert_eq!(shown(&World::new(), &["--permission-mode", written]), mode());
            let own = World::new().file(".config/loopwright/config.toml", &toml(written));
            assert_eq!(shown(&own, &[]), mode(), "{written}");
            let named = World::new().file("project/mine.toml", &toml(written));
            assert_eq!(shown(&named, &["--config", "mine.toml"]), mode(), "{written}");
            // What programs inherit, and others write.
            let inherited = World::new().env("LOOPWRIGHT_PERMISSION_MODE", written);
            assert_eq!(shown(&inherited, &[]), unless_unconfined(Err(3)), "{written}");
            let project = trusted("loopwright.toml", &toml(written));
            assert_eq!(shown(&project, &[]), ignored(), "{written}");
        }
        for file in [".claude/settings.json", ".claude/settings.local.json"] {
            assert_eq!(shown(&trusted(file, &claude(alias)), &[]), ignored(), "{file} {alias}");
        }
        let all = World::new()
            .file(".claude/settings.json", &claude(alias))
            .file(".config/loopwright/config.toml", "[permissions]\nclaude = true\n");
        assert_eq!(shown(&all, &[]), ignored(), "{alias}");
    }
}
