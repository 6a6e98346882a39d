//! Servers of the Model Context Protocol that ask the user and the model.

use serde_json::json;

use crate::server::{Server, streamed, streamed_tool};
use crate::terminal::{Seen, Terminal};
use crate::world::{Done, World};

/// A server whose tool asks, and says what it was answered.
const SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*)
      cat question.json
      read -r answer
      words=$(printf '%s' "$answer" | tr -d '"\\{}')
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"heard '"$words"'"}]}}' ;;
    *'"id"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"unknown"}}' ;;
  esac
done
"#;

const OF_MODEL: &str = r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"6 x 7?"}}],"maxTokens":9}}"#;

const OF_USER: &str = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}"#;

/// A world with a server that asks this. Its tools are known.
fn world(question: &str, sampling: &str) -> World {
    let entry = json!({"command": "sh", "args": ["server.sh"], "sampling": sampling});
    let file = json!({"mcpServers": {"shell": entry}}).to_string();
    let world = World::at_terminal()
        .file("project/server.sh", SERVER)
        .file("project/question.json", &format!("{question}\n"))
        .file(".config/loopwright/mcp.json", &file);
    assert_eq!(world.run(&["mcp", "test"]).status, 0);
    world
}

/// Lets a model call the tool, and returns what it was then told, and what the program said.
fn told(world: &World, line: &[&str], answers: &[&str]) -> (Vec<String>, Done) {
    let call = streamed_tool("", "mcp__shell__ask", &json!({}));
    let answers = answers.iter().map(|it| streamed(it, "stop"));
    let answers: Vec<_> = std::iter::once(call).chain(answers).collect();
    let server = Server::start(answers);
    let model = ["-m", "openai-compatible/test", "--base-url", &server.url];
    let (command, options) = line.split_first().unwrap();
    let line: Vec<&str> = [&[*command][..], &model[..], options].concat();
    let done = world.run(&line);
    (heard_after_first(&server), done)
}

/// Does the same at a terminal, where each line is typed once its text stands there.
fn told_at_terminal(
    world: &World,
    typed: &[(&'static str, &'static str)],
    answers: &[&str],
) -> (Vec<String>, Seen) {
    let call = streamed_tool("", "mcp__shell__ask", &json!({}));
    let answers = answers.iter().map(|it| streamed(it, "stop"));
    let server = Server::start(std::iter::once(call).chain(answers).collect::<Vec<_>>());
    let line = ["run", "-m", "openai-compatible/test", "--base-url", &server.url, "Go."];
    let terminal =
        typed.iter().fold(Terminal::new(200), |it, (after, line)| it.typing(after, line));
    let seen = terminal.run(world, &line);
    (heard_after_first(&server), seen)
}

/// Returns the last message of each request but the first.
fn heard_after_first(server: &Server) -> Vec<String> {
    let last = |it: &serde_json::Value| {
        it["messages"].as_array()?.last()?["content"].as_str().map(ToOwned::to_owned)
    };
    server.heard().iter().skip(1).filter_map(|it| last(&it.1)).collect()
}

#[test]
fn a_user_is_asked_before_a_server_uses_the_model() {
    let world = world(OF_MODEL, "ask");
    let question = "MCP server `shell` requests a response from your model (1 message, up to 9 tokens): 6 x 7?";
    let (told_yes, _) = told_at_terminal(&world, &[(question, "yes")], &["forty-two", "Done."]);
    assert_eq!(told_yes[0], "6 x 7?");
    assert!(told_yes[1].contains("heard") && told_yes[1].contains("forty-two"), "{told_yes:?}");
    let (told_no, seen) = told_at_terminal(&world, &[(question, "no")], &["Done."]);
    assert_eq!(seen.status, 0, "{:?}", seen.lines);
    assert!(told_no[0].contains("the user does not allow"), "{told_no:?}");
}

#[test]
fn a_run_without_a_user_refuses_the_model_unless_the_configuration_allows_it() {
    for on_ask in ["pause", "deny"] {
        let asking = world(OF_MODEL, "ask");
        let (told, done) = told(&asking, &["run", "--on-ask", on_ask, "Go."], &["Done."]);
        assert_eq!(done.status, 0, "{done:?}");
        assert!(told[0].contains("no user is present to allow the request"), "{on_ask}: {told:?}");
    }
    let allowing = world(OF_MODEL, "allow");
    let listed = allowing.run(&["mcp", "list"]).stdout;
    assert!(listed.contains("uses your models, at your cost, without asking"), "{listed}");
    let (told, _) = told(&allowing, &["run", "Go."], &["forty-two", "Done."]);
    assert!(told[1].contains("forty-two"), "{told:?}");
}

#[test]
fn a_question_of_a_server_is_answered_at_a_terminal_and_declined_in_a_run_without_a_user() {
    let world = world(OF_USER, "ask");
    let question = "MCP server `shell` asks: Your name?";
    let (heard, _) = told_at_terminal(&world, &[(question, "Ada")], &["Done."]);
    assert!(heard[0].contains("action:accept") && heard[0].contains("name:Ada"), "{heard:?}");
    let (heard, done) = told(&world, &["run", "Go."], &["Done."]);
    assert_eq!(done.status, 0, "{done:?}");
    assert!(heard[0].contains("action:decline"), "{heard:?}");
}

#[test]
fn a_server_is_told_that_the_user_declined_or_cancelled_its_question() {
    let question = "MCP server `shell` asks: Your name?";
    for (typed, action) in [("/decline", "action:decline"), ("/cancel", "action:cancel")] {
        let world = world(OF_USER, "ask");
        let (heard, seen) = told_at_terminal(&world, &[(question, typed)], &["Done."]);
        assert!(heard[0].contains(action), "{heard:?}");
        assert_eq!(seen.status, 0, "{:?}", seen.lines);
    }
}

#[test]
fn a_form_of_a_server_is_filled_in_field_by_field() {
    let age = r#""name":{"type":"string"},"age":{"type":"integer","description":"In years."}"#;
    let question = OF_USER.replace(r#""name":{"type":"string"}"#, age);
    let world = world(&question, "ask");
    let typed = [
        ("age (integer): In years.", "age=old"),
        (
            "type NAME=VALUE for each field, or type JSON, `/decline` or `/cancel`",
            "name=Ada Byron age=36",
        ),
    ];
    let (heard, _) = told_at_terminal(&world, &typed, &["Done."]);
    assert!(heard[0].contains("name:Ada Byron") && heard[0].contains("age:36"), "{heard:?}");
}

#[test]
fn a_form_of_a_server_shows_what_its_fields_take_and_names_the_one_that_is_wrong() {
    let fields = r#""color":{"type":"string","enum":["red","green"],"default":"red"},"name":{"type":"string"},"sizes":{"type":"array","items":{"anyOf":[{"const":"S","title":"Small"},{"const":"M","title":"M"}]}}"#;
    let question = OF_USER
        .replace(r#""name":{"type":"string"}"#, fields)
        .replace(r#""type":"object","#, r#""type":"object","required":["name"],"#);
    let world = world(&question, "ask");
    let typed = [
        ("sizes (array): any of S (Small), M", "Ada"),
        ("the question is a form; type NAME=VALUE for each field", "name=Ada color=blue"),
        ("at /color: \"blue\" is not one of", "name=Ada color=green sizes=S, M"),
    ];
    let (heard, seen) = told_at_terminal(&world, &typed, &["Done."]);
    let content = "color:green,name:Ada,sizes:[S,M]";
    assert!(heard[0].contains(content), "{heard:?}");
    for line in ["color (string): one of red, green; default: red", "name (string, required)"] {
        assert!(seen.text().contains(line), "{line}: {}", seen.text());
    }
}
