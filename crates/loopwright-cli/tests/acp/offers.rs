//! What an editor offers and names: files that it has open, MCP servers, and options that it selects.

use std::fs;

use serde_json::{Value, json};

use super::editor::{Editor, text_of};
use super::prompt;
use crate::mcp::SERVER;
use crate::server::{Server, streamed, streamed_tool};
use crate::world::World;

fn start(world: &World, server: &Server, options: &[&str]) -> Editor {
    let line = ["acp", "-m", "openai-compatible/test", "--base-url", &server.url];
    let fs = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    Editor::start_offering(world, &[&line, options].concat(), &fs)
}

/// What the last request to the model holds.
fn last_request(server: &Server) -> String {
    server.heard().pop().unwrap().1.to_string()
}

#[test]
fn unsaved_text_is_read_and_changed_through_the_editor() {
    let read = streamed_tool("", "read_file", &json!({"path": "a.txt"}));
    let edit = json!({"path": "a.txt", "old_string": "unsaved", "new_string": "edited"});
    let edit = streamed_tool("", "edit_file", &edit);
    let server = Server::start([read, edit, streamed("Done.", "stop")]);
    let world = World::new().file("project/a.txt", "saved\n");
    let mut editor = start(&world, &server, &["--permission-mode", "ask"]);
    let file = world.path("project/a.txt").display().to_string();
    editor.buffers.insert(file.clone(), "unsaved\n".to_owned());
    let session = editor.new_session(&world);
    editor.answer("allow");
    let ended = editor.prompt(&session, &prompt("Edit it"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    let asked = last_request(&server);
    assert!(asked.contains("\\tunsaved"), "{asked}");
    // The permission dialog shows the change of what the user sees.
    let diff = &editor.asked[0]["toolCall"]["content"][1];
    assert_eq!((&diff["oldText"], &diff["newText"]), (&json!("unsaved\n"), &json!("edited\n")));
    let written = json!({"sessionId": session, "path": file, "content": "edited\n"});
    assert_eq!(editor.written, [written]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "edited\n");
}

#[test]
fn commands_run_in_the_sandbox_and_not_in_a_terminal_of_the_editor_in_every_mode() {
    for mode in ["auto", "unconfined"] {
        // A command in the sandbox has another home than the editor.
        let call = streamed_tool("", "bash", &json!({"command": "echo home=$HOME; touch made"}));
        let server = Server::start([call, streamed("Done.", "stop")]);
        let world = World::new();
        let line = ["acp", "-m", "openai-compatible/test", "--base-url", &server.url];
        let line = [&line[..], &["--permission-mode", mode]].concat();
        let mut editor = Editor::start_offering(&world, &line, &json!({"terminal": true}));
        let session = editor.new_session(&world);
        let ended = editor.prompt(&session, &prompt("Run it"));
        assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
        let asked = last_request(&server);
        assert!(asked.contains("home=/"), "{asked}");
        let home = world.path("").display().to_string();
        assert!(!asked.contains(&format!("home={}", home.trim_end_matches('/'))), "{asked}");
        assert!(world.path("project/made").exists());
    }
}

#[test]
fn the_editor_gives_no_access_to_denied_files_and_writes_no_protected_ones() {
    let read = streamed_tool("", "read_file", &json!({"path": ".env"}));
    let write = json!({"path": ".git/hooks/x", "content": "x", "create_dirs": true});
    let write = streamed_tool("", "write_file", &write);
    let server = Server::start([read, write, streamed("Done.", "stop")]);
    let world = World::new().file("project/.env", "KEY=1\n");
    let mut editor = start(&world, &server, &["--deny", "Read(.env)"]);
    let session = editor.new_session(&world);
    let file = world.path("project/.env").display().to_string();
    editor.buffers.insert(file, "KEY=unsaved\n".to_owned());
    editor.prompt(&session, &prompt("Look"));
    let asked = last_request(&server);
    assert!(asked.contains("rule `Read(.env)`") && !asked.contains("unsaved"), "{asked}");
    assert_eq!(editor.written, Vec::<Value>::new());
}

#[test]
fn mcp_servers_that_the_editor_names_are_those_of_its_session() {
    let search = streamed_tool("", "mcp_search", &json!({ "query": "greet" }));
    let greet = streamed_tool("", "mcp__shell__greet", &json!({}));
    let replies = [search, greet, streamed("Done.", "stop"), streamed("None.", "stop")];
    let (world, server) = (World::new().file("project/server.sh", SERVER), Server::start(replies));
    let mut editor = Editor::start_with(
        &world,
        &["acp", "-m", "openai-compatible/test", "--base-url", &server.url],
    );
    let hello = editor.ask("initialize", &json!({"protocolVersion": 1}));
    let offered = json!({"http": true, "sse": false});
    assert_eq!(hello["result"]["agentCapabilities"]["mcpCapabilities"], offered);
    let shell = json!({
        "name": "shell", "command": "sh", "args": ["server.sh"],
        "env": [{"name": "GREETING", "value": "Greets by variable."}],
    });
    let params = json!({"cwd": world.path("project"), "mcpServers": [shell]});
    let new = editor.ask("session/new", &params);
    let session = new["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{new}"));
    let ended = editor.prompt(session, &prompt("Greet"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    let asked = last_request(&server);
    assert!(asked.contains("hello from the server"), "{asked}");
    assert!(asked.contains("Greets by variable."), "{asked}");
    let other = editor.new_session(&world);
    editor.prompt(&other, &prompt("Greet"));
    let asked = last_request(&server);
    assert!(!asked.contains("mcp__shell"), "{asked}");
    let bad = json!({"cwd": world.path("project"), "mcpServers": [{"command": "sh"}]});
    assert_eq!(editor.ask("session/new", &bad)["error"]["code"], -32602);
}

#[test]
fn skills_are_advertised_and_used() {
    let skill = "---\nname: review\ndescription: Reviews.\neffort: high\nargument-hint: \"[file]\"\n---\n\
        Review $ARGUMENTS with care.\n";
    let world = World::new().file(".agents/skills/review/SKILL.md", skill);
    let server = Server::start([streamed("Fine.", "stop"), streamed("No.", "stop")]);
    let mut editor = start(&world, &server, &[]);
    let session = editor.new_session(&world);
    let ended = editor.prompt(&session, &prompt("/review a.rs"));
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    let commands = editor.only("available_commands_update")["availableCommands"].clone();
    let review = json!({"name": "review", "description": "Reviews.", "input": {"hint": "[file]"}});
    assert_eq!(commands[1], review, "{commands}");
    let asked = server.request();
    assert_eq!(asked["reasoning_effort"], "high");
    let asked = asked.to_string();
    assert!(asked.contains("Review a.rs with care."), "{asked}");
    assert_eq!(editor.only("session_info_update")["title"], "/review a.rs");
    editor.prompt(&session, &prompt("/unknown a.rs"));
    let asked = server.request();
    assert_eq!(asked.get("reasoning_effort"), None);
    let asked = asked.to_string();
    assert!(asked.contains("/unknown a.rs"), "{asked}");
    assert_eq!(text_of(&editor.updates, "agent_message_chunk"), "Fine.No.");
}

#[test]
fn the_model_and_the_effort_are_selected_for_the_next_turn() {
    let server = Server::start([streamed("Fine.", "stop")]);
    let world = World::new();
    let mut editor = start(&world, &server, &[]);
    let params = json!({"cwd": world.path("project"), "mcpServers": []});
    let new = editor.ask("session/new", &params);
    let session = new["result"]["sessionId"].as_str().unwrap();
    let options = new["result"]["configOptions"].as_array().unwrap();
    let ids: Vec<&Value> = options.iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, ["mode", "model", "effort"]);
    assert_eq!(options[1]["currentValue"], "openai-compatible/test");
    assert_eq!(options[2]["currentValue"], "default");
    let mut set = |id: &str, value: &str| {
        let params = json!({"sessionId": session, "configId": id, "value": value});
        editor.ask("session/set_config_option", &params)
    };
    for (id, value) in [("model", "none-such/x"), ("effort", "huge"), ("color", "red")] {
        let refused = set(id, value);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    set("effort", "low");
    let told = set("model", "openai-compatible/other");
    let options = &told["result"]["configOptions"];
    assert_eq!(options[1]["currentValue"], "openai-compatible/other", "{told}");
    assert_eq!(options[2]["currentValue"], "low");
    editor.prompt(session, &prompt("Go"));
    let asked = server.request();
    assert_eq!((&asked["model"], &asked["reasoning_effort"]), (&json!("other"), &json!("low")));
}

#[test]
fn a_session_that_is_loaded_with_other_servers_keeps_what_was_selected() {
    let server = Server::start([streamed("Fine.", "stop")]);
    let world = World::new().file("project/server.sh", SERVER);
    let mut editor = start(&world, &server, &[]);
    let session = editor.new_session(&world);
    editor.prompt(&session, &prompt("Go"));
    let selected = [("mode", "plan"), ("model", "openai-compatible/other"), ("effort", "low")];
    for (id, value) in selected {
        let params = json!({"sessionId": session, "configId": id, "value": value});
        let told = editor.ask("session/set_config_option", &params);
        assert_eq!(told.get("error"), None, "{told}");
    }
    let shell = json!({"name": "shell", "command": "sh", "args": ["server.sh"], "env": []});
    let params = json!({"sessionId": session, "cwd": world.path("project"), "mcpServers": [shell]});
    let loaded = editor.ask("session/load", &params);
    let options = loaded["result"]["configOptions"].as_array().unwrap();
    let values: Vec<&Value> = options.iter().map(|it| &it["currentValue"]).collect();
    assert_eq!(values, selected.map(|it| it.1), "{loaded}");
}
