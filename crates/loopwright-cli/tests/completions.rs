//! Completion, asked as shells ask.

use crate::server::{Server, streamed};
use crate::world::World;

/// Asks for what completes the last word.
fn completed(world: World, shell: &str, words: &[&str]) -> (World, Vec<String>) {
    let last = (words.len() - 1).to_string();
    let world = world.env("LOOPWRIGHT_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", &last);
    let world = world.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_IFS", "\n");
    let done = world.run(&[&["--"], words].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
    (world.env("LOOPWRIGHT_COMPLETE", ""), done.stdout.lines().map(str::to_owned).collect())
}

#[test]
fn names_of_sessions_are_completed_in_bash_and_zsh() {
    let (world, server) = (World::new(), Server::start([streamed("one", "stop")]));
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let json = ["--output-format", "json", "Who?"];
    let done = world.run(&[&model[..], &json].concat());
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let id = report["session_id"].as_str().unwrap();
    let beginning = &id[..3];
    let lines = [
        vec!["loopwright", "sessions", "show", beginning],
        vec!["loopwright", "sessions", "delete", "x", beginning],
        vec!["loopwright", "run", "--resume", beginning],
        vec!["loopwright", "chat", "--fork", beginning],
    ];
    let mut world = world;
    for line in &lines {
        let candidates;
        (world, candidates) = completed(world, "bash", line);
        assert_eq!(candidates, [id], "{line:?}");
        (world, _) = completed(world, "zsh", line);
    }
    let (world, candidates) = completed(world, "zsh", &lines[0]);
    assert_eq!(candidates, [format!("{id}:Who?")]);
    let (_, candidates) = completed(world, "bash", &["loopwright", "sessions", "show", "nothing"]);
    assert_eq!(candidates, Vec::<String>::new());
}

#[test]
fn commands_are_completed_and_nothing_is_made_for_it() {
    let (world, candidates) = completed(World::new(), "bash", &["loopwright", "sess"]);
    assert_eq!(candidates, ["sessions"]);
    let (world, candidates) = completed(world, "bash", &["loopwright", "run", "--resume", ""]);
    assert_eq!(candidates, Vec::<String>::new());
    assert!(!world.path(".local").exists());
}
