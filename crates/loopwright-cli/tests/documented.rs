//! The commands that pages show are run as they are written, but for names of sessions.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::pages::{WORKSPACE, blocks};
use crate::server::{Server, streamed};
use crate::world::World;

/// The session that pages speak of.
const SESSION: &str = "7f3a";

/// Commands that need what no test can give them at once, and where they are run instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("export ", "a key of a provider"),
    (
        "loopwright run -m anthropic/",
        "a provider that speaks another protocol: crates/loopwright-models/tests",
    ),
    (
        "loopwright run -m openai/",
        "a provider that speaks another protocol: tests/run.rs, what is recorded is replayed",
    ),
    (
        "loopwright run --continue --on-interrupted require-decision",
        "a call that was interrupted: tests/sessions/running.rs",
    ),
    ("loopwright sessions decide", "a call that was interrupted: tests/sessions/running.rs"),
];

/// Returns the lines that are typed on a page.
fn typed(page: &str) -> Vec<String> {
    let mut typed = Vec::new();
    for (language, code) in blocks(page) {
        let code = code.replace("\\\n", " ");
        let of_shell = |line: &str| (language == "sh").then(|| line.to_owned());
        let lines = code.lines().map(str::trim).filter(|it| !it.is_empty());
        typed
            .extend(lines.filter_map(|it| {
                it.strip_prefix("$ ").map(str::to_owned).or_else(|| of_shell(it))
            }));
    }
    typed.retain(|line| !ELSEWHERE.iter().any(|(begin, _)| line.starts_with(begin)));
    typed
}

/// Runs the commands of a page one after the other, and expects that each of them ends with 0.
#[track_caller]
fn check(page: &str, count: usize, world: World) {
    let server = Server::start((0..9).map(|_| streamed("a.txt is one.", "stop")));
    let config = format!("model = 'mine/m'\n[providers.mine]\nbase_url = '{}'\n", server.url);
    let world = world.file(".config/loopwright/config.toml", &config);
    let text = fs::read_to_string(Path::new(WORKSPACE).join("docs").join(page)).unwrap();
    let mut lines = typed(&text);
    assert_eq!(lines.len(), count, "{lines:#?}");
    // Not every machine has a toolchain in the home directory.
    let has_toolchain = std::env::home_dir().is_some_and(|it| it.join(".rustup").is_dir());
    lines.retain(|it| has_toolchain || !it.contains("cargo"));
    if lines.iter().any(|it| it.contains(SESSION)) {
        assert_eq!(world.run(&["run", "Begin."]).status, 0);
        let listed: Value =
            serde_json::from_str(&world.run(&["sessions", "list", "--json"]).stdout).unwrap();
        let id = &listed["sessions"][0]["id"].as_str().unwrap()[..8];
        for line in &mut lines {
            *line = line.replace("7f3a1b2c", id).replace(SESSION, id);
        }
    }
    for line in lines {
        let done = world.shell(&line);
        assert_eq!(done.status, 0, "{page}: {line}\n{}{}", done.stdout, done.stderr);
    }
}

#[test]
fn commands_of_the_page_on_agents_run_as_they_are_written() {
    check("agents.md", 3, World::new());
}

#[test]
fn commands_of_the_page_on_providers_run_as_they_are_written() {
    check("providers.md", 2, World::new());
}

#[test]
fn commands_of_the_page_on_sessions_run_as_they_are_written() {
    check("sessions.md", 6, World::new());
}

#[test]
fn commands_of_the_page_on_workers_run_as_they_are_written() {
    check("worker.md", 3, World::new());
}

/// With a toolchain in the home directory, as users have it.
#[test]
fn commands_of_the_page_on_the_sandbox_run_as_they_are_written() {
    let home = std::env::home_dir().unwrap_or_default();
    let world = World::new()
        .file("project/Cargo.toml", "[package]\nname = \"a\"\nedition = \"2024\"\n")
        .file("project/src/lib.rs", "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n")
        .env("HOME", home.to_str().unwrap());
    let state = world.path("state");
    let path = std::env::var("PATH").unwrap_or_default();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_loopwright")).parent().unwrap();
    let world = world
        .env("XDG_STATE_HOME", state.to_str().unwrap())
        .env("PATH", &format!("{}:{path}", program.display()));
    check("sandbox.md", 5, world);
}
