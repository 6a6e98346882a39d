//! Permission rules that change while a chat or an editor is open.

use serde_json::json;

use crate::server::{Server, streamed, streamed_call};
use crate::terminal::Terminal;
use crate::world::World;

const SETTINGS: &str = "project/.claude/settings.json";

/// Writes settings with a rule that denies a command and a file.
fn deny(world: &World) {
    let settings = json!({ "permissions": { "deny": ["Bash(rm *)", "Read(./secret.txt)"] } });
    let path = world.path(SETTINGS);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, settings.to_string()).unwrap();
}

#[test]
fn a_deny_rule_that_is_added_while_a_chat_is_open_applies_to_the_next_turn_and_its_commands() {
    let world =
        World::at_terminal().file("project/a.txt", "x").file("project/secret.txt", "s3cr3t");
    let server = Server::start([
        streamed("One.", "stop"),
        streamed_call("", "rm a.txt"),
        streamed_call("", "cat secret.tx?"),
        streamed("Two.", "stop"),
    ]);
    let line = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url];
    let terminal = Terminal::new(200)
        .typing("/help for help", "first")
        .typing("One.", "second")
        .first(deny)
        // The pattern could name the denied file, so the rule asks; the sandbox hides the file all the same.
        .typing("1 yes", "1")
        .typing("Two.", "/quit");
    let seen = terminal.run(&world, &line);
    let told = "permissions reloaded: 2 rules from /project/.claude/settings.json";
    assert!(seen.text().contains(told), "{}", seen.text());
    assert!(world.path("project/a.txt").exists(), "{}", seen.text());
    let results = server.results();
    let denied = results[0].as_str().unwrap();
    assert!(denied.contains("rule `Bash(rm *)` of"), "{denied}");
    assert!(!results[1].to_string().contains("s3cr3t"), "{}", results[1]);
}

#[test]
fn permissions_in_a_chat_are_those_that_the_files_have_now() {
    let world = World::at_terminal();
    let line = ["chat", "-m", "openai-compatible/test", "--base-url", "http://127.0.0.1:9"];
    let terminal = Terminal::new(200)
        .typing("/help for help", "/permissions")
        .typing("mode auto", "/permissions")
        .first(deny)
        .typing("deny Bash(rm *)", "/quit");
    let seen = terminal.run(&world, &line);
    assert_eq!(seen.status, 0, "{}", seen.text());
    let told = "permissions reloaded: 2 rules from /project/.claude/settings.json";
    assert!(seen.text().contains(told), "{}", seen.text());
}
