//! Denied and hidden paths, wherever tools, commands and servers run.

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::world::World;

const SETTINGS: &str = r#"{ "permissions": { "deny": ["Edit(src/**)", "Read(./.env)"] } }"#;
const SCRIPT: &str = "cat .env; echo more >> src/a.txt; echo ran > out.txt";
const HELPER: &str = "---\nname: helper\ndescription: D.\ntools: Bash\n---\n\nGo.\n";

fn world(settings: Option<&str>) -> World {
    let world = World::new()
        .file("project/src/a.txt", "source")
        .file("project/.env", "KEY=sesame")
        .file("project/x.sh", SCRIPT)
        .file("project/.claude/agents/helper.md", HELPER);
    match settings {
        Some(settings) => world.file("project/.claude/settings.json", settings),
        None => world,
    }
}

fn run(world: &World, server: &Server, line: &[&str]) {
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run(&[&model[..], line].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
}

fn heard(server: &Server) -> String {
    server.heard().into_iter().map(|(_, body)| body.to_string()).collect()
}

/// Whether models were told the secret, what the protected file has, and whether the command ran to its end.
fn found(world: &World, server: &Server) -> (bool, String, bool) {
    let text = std::fs::read_to_string(world.path("project/src/a.txt")).unwrap();
    (heard(server).contains("sesame"), text, world.path("project/out.txt").exists())
}

const KEPT: (bool, &str, bool) = (false, "source", true);
const FREE: (bool, &str, bool) = (true, "sourcemore\n", true);

#[test]
fn a_denied_path_that_a_command_makes_a_link_hides_its_target_from_the_next_command() {
    for (settings, told) in
        [(Some(r#"{ "permissions": { "deny": ["Read(./kept)"] } }"#), false), (None, true)]
    {
        let world = world(settings)
            .file("project/link.sh", "ln -s src/a.txt kept; echo linked > linked.txt")
            .file("project/src/a.txt", "sesame")
            .file("project/x.sh", "cat src/a.txt; echo ran > out.txt");
        let calls = [streamed_call("", "sh link.sh"), streamed_call("", "sh x.sh")];
        let server = Server::start(calls.into_iter().chain([streamed("Done.", "stop")]));
        run(&world, &server, &["Go."]);
        let link = std::fs::read_link(world.path("project/kept")).unwrap();
        assert_eq!(link, std::path::Path::new("src/a.txt"));
        let ran = world.path("project/out.txt").exists();
        assert_eq!((heard(&server).contains("sesame"), ran), (told, true));
    }
}

#[test]
fn links_that_appear_between_two_runs_of_a_session_withhold_what_they_lead_to() {
    let rules = r#"{ "permissions": { "deny": ["Read(./kept)", "Edit(./set/**)"] } }"#;
    for (settings, (told, text, ran)) in [(Some(rules), KEPT), (None, FREE)] {
        let world = world(settings);
        let replies = [streamed_call("", "echo first > first.txt"), streamed("Done.", "stop")];
        let again = [streamed_call("", "sh x.sh"), streamed("Done.", "stop")];
        let server = Server::start(replies.into_iter().chain(again));
        run(&world, &server, &["Begin."]);
        assert!(world.path("project/first.txt").exists());
        std::os::unix::fs::symlink(".env", world.path("project/kept")).unwrap();
        std::os::unix::fs::symlink("src", world.path("project/set")).unwrap();
        run(&world, &server, &["--continue", "Run it."]);
        assert_eq!(found(&world, &server), (told, text.to_owned(), ran));
    }
}

fn delegated(calls: impl IntoIterator<Item = Reply>) -> Server {
    let spawn = json!({ "subagent": "helper", "prompt": "Run it." });
    let steps = [streamed_tool("", "spawn_subagent", &spawn)].into_iter().chain(calls);
    Server::start(steps.chain([streamed("Ran.", "stop"), streamed("Done.", "stop")]))
}

#[test]
fn commands_of_a_continued_run_are_kept_from_denied_paths() {
    for (settings, (told, text, ran)) in [(Some(SETTINGS), KEPT), (None, FREE)] {
        let world = world(settings);
        let replies = [streamed("Hello.", "stop"), streamed_call("", "sh x.sh")];
        let server = Server::start(replies.into_iter().chain([streamed("Done.", "stop")]));
        run(&world, &server, &["Hello."]);
        run(&world, &server, &["--continue", "Run it."]);
        assert_eq!(found(&world, &server), (told, text.to_owned(), ran));
    }
}

#[test]
fn commands_of_a_sub_agent_are_kept_from_denied_paths() {
    for (settings, (told, text, ran)) in [(Some(SETTINGS), KEPT), (None, FREE)] {
        let world = world(settings);
        let server = delegated([streamed_call("", "sh x.sh")]);
        run(&world, &server, &["Go."]);
        assert_eq!(found(&world, &server), (told, text.to_owned(), ran));
    }
}

#[test]
fn file_tools_of_a_continued_run_and_of_a_sub_agent_do_not_read_what_a_project_hides() {
    let helper = "---\nname: helper\ndescription: D.\ntools: Read\n---\n\nGo.\n";
    let read = || streamed_tool("", "read_file", &json!({ "path": ".env" }));
    let reason = "`sandbox.hide` in the configuration includes this path";
    for hides in [true, false] {
        let world = world(None).file("project/.claude/agents/helper.md", helper);
        let world = if hides {
            world.file("project/loopwright.toml", "[sandbox]\nhide = [\".env\"]\n")
        } else {
            world
        };
        let replies = [streamed("Hello.", "stop"), read(), streamed("Done.", "stop")];
        let server = Server::start(replies);
        run(&world, &server, &["Hello."]);
        run(&world, &server, &["--continue", "Read it."]);
        let continued = heard(&server);
        let server = delegated([read()]);
        run(&world, &server, &["Go."]);
        for told in [continued, heard(&server)] {
            assert_eq!((told.contains("sesame"), told.contains(reason)), (!hides, hides), "{told}");
        }
    }
}

#[test]
fn commands_of_a_sub_agent_cannot_request_the_settings_of_the_program() {
    let world = world(None).file(".config/loopwright/config.toml", "# sesame");
    let arguments = json!({
        "command": "cat ~/.config/loopwright/*", "read": ["~/.config/loopwright"], "why": "x",
    });
    let server = delegated([streamed_tool("", "bash", &arguments)]);
    run(&world, &server, &["--allow", "Read", "Go."]);
    let heard = heard(&server);
    assert!(heard.contains("cannot be requested: commands can never read it"), "{heard}");
    assert!(!heard.contains("sesame"), "{heard}");
}

/// A server whose tool runs the script, and returns what it says.
fn mcp_server() -> String {
    let answer = |result: &Value| {
        let text = json!({ "jsonrpc": "2.0", "id": "ID", "result": result }).to_string();
        let (before, after) = text.split_once("\"ID\"").unwrap();
        format!("echo '{before}'$id'{after}'")
    };
    let info = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
        "serverInfo": { "name": "runner", "version": "1" },
    });
    let tools = json!({
        "tools": [{ "name": "go", "description": "Runs it.", "inputSchema": { "type": "object" } }],
    });
    let unknown = r#""error":{"code":-32601,"message":"unknown method"}"#;
    let called = json!({ "content": [{ "type": "text", "text": "TEXT" }] });
    let called = answer(&called).replace("TEXT", "'\"$text\"'");
    format!(
        "#!/bin/sh\nwhile read -r line; do\n\
        id=$(printf '%s' \"$line\" | sed -n 's/.*\"id\":\\([0-9]*\\).*/\\1/p')\n\
        case \"$line\" in\n*'\"initialize\"'*) {} ;;\n*'\"tools/list\"'*) {} ;;\n\
        *'\"tools/call\"'*) text=$(sh x.sh 2>&1 | tr -d '\\n\"\\\\'); {called} ;;\n\
        *) [ -n \"$id\" ] && {} ;;\nesac\ndone\n",
        answer(&info),
        answer(&tools),
        answer(&json!("ERROR")).replace("\"result\":\"ERROR\"", unknown)
    )
}

#[test]
fn a_server_in_the_sandbox_is_kept_from_denied_paths() {
    for (settings, (told, text, ran)) in [(Some(SETTINGS), KEPT), (None, FREE)] {
        let world = world(settings).file("project/server.sh", &mcp_server());
        let added = world.run(&["mcp", "add", "runner", "sh", "server.sh"]);
        assert_eq!(added.status, 0, "{}", added.stderr);
        // A run does not wait for a server that it does not know.
        assert_eq!(world.run(&["mcp", "test"]).status, 0);
        let calls = [streamed_tool("", "mcp__runner__go", &json!({})), streamed("Done.", "stop")];
        let server = Server::start(calls);
        run(&world, &server, &["Go."]);
        assert_eq!(found(&world, &server), (told, text.to_owned(), ran));
        // What the user calls is kept from them as well.
        let called = world.run(&["mcp", "call", "runner", "go"]);
        assert_eq!((called.status, called.stdout.contains("sesame")), (0, told), "{called:?}");
    }
}
