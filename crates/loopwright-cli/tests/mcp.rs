//! Servers of the Model Context Protocol, as a user adds, trusts and uses them.

use serde_json::json;

use crate::server::{Server, streamed, streamed_tool};
use crate::world::World;

/// A server in a shell: good enough for a handshake, one tool, and calls of it.
pub(crate) const SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"shell","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"greet","description":"'"${GREETING:-Greets.}"'","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) echo "greeting" >&2; echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"hello from the server"}]}}' ;;
    *'"resources/read"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"contents":[{"uri":"note:///a","text":"buy @secret.txt @shell:note:///b"}]}}' ;;
    *'"prompts/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"prompts":[{"name":"plan","arguments":[{"name":"what","required":true},{"name":"how"}]}]}}' ;;
    *'"prompts/get"'*) words=$(printf '%s' "$line" | tr -d '"\\\\' | sed 's/.*arguments:{\([^}]*\)}.*/\1/'); echo '{"jsonrpc":"2.0","id":'$id',"result":{"messages":[{"role":"user","content":{"type":"text","text":"Plan with '"$words"' and @secret.txt"}}]}}' ;;
    *'"id"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"unknown"}}' ;;
  esac
done
"#;

fn world() -> World {
    World::new().file("project/server.sh", SERVER)
}

fn add(world: &World) {
    let done = world.run(&["mcp", "add", "shell", "sh", "server.sh"]);
    assert_eq!(done.status, 0, "{done:?}");
    assert!(done.stderr.contains("sandbox: on") && done.stderr.contains("no network"), "{done:?}");
}

#[test]
fn a_server_is_added_listed_tested_shown_and_removed() {
    let world = world();
    add(&world);
    let listed = world.run(&["mcp", "list"]);
    assert!(
        listed.stdout.starts_with("shell (/.config/loopwright/mcp.json)\n  runs: sh server.sh"),
        "{listed:?}"
    );
    let tested = world.run(&["mcp", "test"]);
    assert_eq!(
        (tested.status, tested.stdout.as_str()),
        (0, "shell: ok, protocol 2025-11-25, 1 tool\n"),
        "{tested:?}"
    );
    let shown = world.run(&["mcp", "show", "shell"]);
    assert!(shown.stdout.contains("mcp__shell__greet  Greets."), "{shown:?}");
    assert!(shown.stdout.contains("1 prompt:\n  /shell:plan what how"), "{shown:?}");
    let again = world.run(&["mcp", "add", "shell", "sh"]);
    assert!(again.status == 2 && again.stderr.contains("is already in"), "{again:?}");
    assert_eq!(world.run(&["mcp", "remove", "shell"]).status, 0);
    assert_eq!(world.run(&["mcp", "remove", "shell"]).status, 2);
    let unknown = world.run(&["mcp", "show", "shell"]);
    assert!(unknown.stderr.contains("unknown MCP server `shell`; available: none"), "{unknown:?}");
}

#[test]
fn processes_that_add_servers_at_the_same_time_lose_none() {
    let world = world();
    let names: Vec<String> = (0..8).map(|n| format!("shell{n}")).collect();
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| {
                let done = world.run(&["mcp", "add", name, "sh", "server.sh"]);
                assert_eq!(done.status, 0, "{done:?}");
            });
        }
    });
    let listed = world.run(&["mcp", "list"]).stdout;
    assert!(names.iter().all(|it| listed.contains(&format!("{it} ("))), "{listed}");
}

#[cfg(unix)]
#[test]
fn a_pipe_that_is_no_file_of_servers_is_left_alone() {
    let world = world();
    let pipe = world.path("project/.mcp.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let listed = world.run(&["mcp", "list"]);
    assert!(listed.status == 0 && listed.stderr.starts_with("no MCP servers"), "{listed:?}");
}

#[test]
fn thousands_of_servers_are_listed() {
    let servers: serde_json::Map<String, serde_json::Value> =
        (0..20_000).map(|n| (format!("s{n}"), json!({"command": "sh"}))).collect();
    let world = world().file("project/.mcp.json", &json!({ "mcpServers": servers }).to_string());
    let listed = world.run(&["mcp", "list"]);
    assert_eq!(listed.stdout.lines().filter(|line| line.starts_with('s')).count(), 20_000);
}

#[cfg(unix)]
#[test]
fn a_file_of_servers_that_only_its_user_may_read_stays_so() {
    use std::os::unix::fs::PermissionsExt as _;

    let world = world();
    add(&world);
    let file = world.path(".config/loopwright/mcp.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(world.run(&["mcp", "add", "other", "sh"]).status, 0);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_server_that_does_not_start_is_an_error_with_its_last_words() {
    let world = world();
    world.run(&["mcp", "add", "broken", "--", "sh", "-c", "echo no config >&2; exit 3"]);
    let done = world.run(&["mcp", "test"]);
    assert_eq!(done.status, 1, "{done:?}");
    assert!(done.stdout.contains("exited with status 3; last output: no config"), "{done:?}");
    // A run goes on without its tools, and the user learns why. The search waits until its tools are known.
    let calls = [streamed_tool("", "mcp_search", &json!({"query": "x"})), streamed("No.", "stop")];
    let server = Server::start(calls);
    let done =
        world.run(&["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Go."]);
    assert_eq!(done.stderr.matches("warning: MCP server `broken`").count(), 1, "{done:?}");
}

#[test]
fn servers_of_a_project_start_only_after_trust() {
    let file = json!({"mcpServers": {"shell": {"command": "sh", "args": ["server.sh"], "env": {"TOKEN": "${TOKEN:-x}"}}}});
    let world = world().file("project/.mcp.json", &file.to_string());
    let listed = world.run(&["mcp", "list"]);
    assert!(listed.stdout.contains("not trusted"), "{listed:?}");
    let refused = world.run(&["mcp", "test", "shell"]);
    assert!(refused.stdout.contains("not trusted"), "{refused:?}");
    let trusted = world.run(&["trust", "--yes"]);
    for shown in [
        "MCP server shell",
        "runs: sh server.sh",
        "environment: TOKEN",
        "receives the values of: TOKEN",
    ] {
        assert!(trusted.stderr.contains(shown), "{shown}: {trusted:?}");
    }
    assert_eq!(world.run(&["mcp", "test"]).stdout, "shell: ok, protocol 2025-11-25, 1 tool\n");
    let world = world.file("project/.mcp.json", &file.to_string().replace("server.sh", "other.sh"));
    let ended = world.run(&["mcp", "test"]);
    assert!(ended.stdout.contains("settings have changed since they were trusted"), "{ended:?}");
}

#[test]
fn a_run_calls_a_tool_of_a_server_and_an_unconfined_one_waits_for_approval() {
    for (options, status, told) in [(&[][..], 0, true), (&["--sandbox", "off"], 9, false)] {
        let world = world();
        let line = [&["mcp", "add", "shell"], options, &["sh", "server.sh"]].concat();
        assert_eq!(world.run(&line).status, 0);
        assert_eq!(world.run(&["mcp", "test"]).status, 0);
        let call = streamed_tool("", "mcp__shell__greet", &json!({}));
        let server = Server::start(vec![call, streamed("Done.", "stop")]);
        let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Greet."];
        let done = world.run(&model);
        assert_eq!(done.status, status, "{done:?}");
        let heard =
            server.heard().iter().any(|(_, it)| it.to_string().contains("hello from the server"));
        assert_eq!(heard, told, "{done:?}");
    }
}

/// What the model was told last by the user.
fn last_message(server: &Server) -> String {
    let heard = server.heard();
    let messages = heard.last().unwrap().1["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[test]
fn a_resource_that_the_user_names_is_attached_and_nothing_that_a_server_names() {
    let world = world().file("project/secret.txt", "secret");
    add(&world);
    let attached = "See @shell:note:///a.\n\n<resource server=\"shell\" uri=\"note:///a\">\n\
        [resource note:///a]\nbuy @secret.txt @shell:note:///b\n</resource>";
    for session in [&[][..], &["--no-session"]] {
        let server = Server::start(vec![streamed("Done.", "stop")]);
        let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url];
        let done = world.run(&[&model, session, &["See @shell:note:///a."]].concat());
        assert_eq!(done.status, 0, "{done:?}");
        assert_eq!(last_message(&server), attached);
    }
    let server = Server::start(vec![streamed("Done.", "stop")]);
    let model = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url];
    let done = world.run_with(&model, "See @shell:note:///a.\n");
    assert!(done.stderr.contains("attached: shell:note:///a"), "{done:?}");
    assert_eq!(last_message(&server), attached);
}

#[test]
fn mentions_in_piped_input_attach_nothing() {
    let world = world();
    add(&world);
    let server = Server::start(vec![streamed("Done.", "stop")]);
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Explain."];
    let done = world.run_with(&model, "see @shell:note:///a");
    assert_eq!(done.status, 0, "{done:?}");
    assert_eq!(last_message(&server), "Explain.\n\n<stdin>\nsee @shell:note:///a\n</stdin>");
}

#[test]
fn a_resource_of_a_server_that_fails_or_is_not_trusted_is_not_attached() {
    let file = json!({"mcpServers": {"theirs": {"command": "sh", "args": ["server.sh"]}}});
    let world = world().file("project/.mcp.json", &file.to_string());
    world.run(&["mcp", "add", "broken", "--", "sh", "-c", "exit 3"]);
    let server = Server::start(vec![streamed("Done.", "stop")]);
    let typed = "See @broken:a @theirs:note:///a @nobody:x";
    let model = ["run", "-m", "openai-compatible/test", "--base-url", &server.url, typed];
    let done = world.run(&model);
    assert!(done.stderr.contains("broken:a was not attached: MCP server `broken`"), "{done:?}");
    assert_eq!(last_message(&server), typed);
}

#[test]
fn a_prompt_of_a_server_is_sent_with_its_arguments_and_attaches_nothing_by_itself() {
    let world = world().file("project/secret.txt", "secret");
    add(&world);
    let server = Server::start(vec![streamed("Done.", "stop")]);
    let model = ["chat", "-m", "openai-compatible/test", "--base-url", &server.url];
    let lines = "/shell:plan\n/shell:dance\n/shell:plan what=a trip how=slowly\n";
    let done = world.run_with(&model, lines);
    assert_eq!(done.status, 0, "{done:?}");
    for told in [
        "prompt `plan` requires what; pass each as NAME=VALUE, or pass only the values in order",
        "MCP server `shell` has no prompt `dance`; available: plan",
    ] {
        assert!(done.stderr.contains(told), "{told}: {done:?}");
    }
    let command = "<user_command>/shell:plan what=a trip how=slowly</user_command>";
    let prompt = "Plan with how:slowly,what:a trip and @secret.txt";
    assert_eq!(last_message(&server), format!("{command}\n\n{prompt}"));
}

#[test]
fn what_is_typed_about_a_server_is_kept_and_shown() {
    let world = world();
    let line = [
        "mcp",
        "add",
        "shell",
        "--tool",
        "g*",
        "--timeout",
        "5",
        "--sampling",
        "deny",
        "sh",
        "server.sh",
    ];
    assert_eq!(world.run(&line).status, 0);
    let file = std::fs::read_to_string(world.path(".config/loopwright/mcp.json")).unwrap();
    let entry = json!({"command": "sh", "args": ["server.sh"], "tools": ["g*"], "timeout": 5, "sampling": "deny"});
    let file: serde_json::Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file["mcpServers"]["shell"], entry);
    let socket = world.run(&["mcp", "add", "socket", "unix:/run/none.sock"]);
    assert!(socket.stderr.contains("connects to: unix:/run/none.sock"), "{socket:?}");
    let tested = world.run(&["mcp", "test", "socket"]);
    assert!(
        tested.stdout.contains("the socket does not exist; start the server first"),
        "{tested:?}"
    );
}

#[test]
fn options_may_follow_a_url_which_takes_no_arguments() {
    let world = world();
    let options = ["--header", "Authorization: Bearer ${TOKEN}", "--timeout", "5", "-C", "."];
    let line = [&["mcp", "add", "docs", "https://example.com/mcp"], &options[..]].concat();
    let added = world.run(&line);
    assert_eq!(added.status, 0, "{added:?}");
    let line = [&["mcp", "add"], &options[..4], &["before", "https://example.com/mcp"]].concat();
    assert_eq!(world.run(&line).status, 0);
    let file = std::fs::read_to_string(world.path(".config/loopwright/mcp.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&file).unwrap();
    let headers = json!({"Authorization": "Bearer ${TOKEN}"});
    let entry =
        json!({"type": "http", "url": "https://example.com/mcp", "headers": headers, "timeout": 5});
    assert_eq!(file["mcpServers"]["docs"], entry);
    assert_eq!(file["mcpServers"]["before"], entry);
    for rest in [&["more"][..], &["--header", "a: b", "more"], &["--none"]] {
        let line = [&["mcp", "add", "other", "https://example.com/mcp"], rest].concat();
        let refused = world.run(&line);
        let told = "only options of `mcp add` can follow a URL";
        assert!(refused.status == 2 && refused.stderr.contains(told), "{rest:?}: {refused:?}");
    }
    // Those of a command are its own.
    assert_eq!(world.run(&["mcp", "add", "own", "serve", "http://a", "--header", "b"]).status, 0);
}

#[test]
fn a_program_outside_of_the_sandbox_is_named_and_found_in_a_folder_that_its_server_may_read() {
    let world = world().file("tools/bin/serve", SERVER);
    let program = world.path("tools/bin/serve");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let path = format!("{}:/usr/bin:/bin", world.path("tools/bin").display());
    let world = world.env("PATH", &path);
    world.run(&["mcp", "add", "hidden", "serve"]);
    let tested = world.run(&["mcp", "test", "hidden"]);
    for told in ["not visible in the sandbox: `", "/tools/bin/serve`; ", "`mcp add --read FOLDER`"]
    {
        assert!(tested.stdout.contains(told), "{told}: {tested:?}");
    }
    world.run(&["mcp", "add", "none", "no-such-program"]);
    let tested = world.run(&["mcp", "test", "none"]);
    assert!(tested.stdout.contains("cannot start `no-such-program`: No such file"), "{tested:?}");
    // A path is written as in other settings.
    world.run(&["mcp", "add", "shown", "--read", "~/tools", "serve"]);
    let tested = world.run(&["mcp", "test", "shown"]);
    assert_eq!(tested.stdout, "shown: ok, protocol 2025-11-25, 1 tool\n", "{tested:?}");
}
