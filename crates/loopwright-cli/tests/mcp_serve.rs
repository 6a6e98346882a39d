//! `mcp serve`, as a client uses it: messages by hand over pipes.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout};

use serde_json::{Value, json};

use crate::server::{Server, streamed};
use crate::world::World;

struct Client {
    program: Child,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Client {
    fn start(world: &World, options: &[&str]) -> Self {
        let mut program = world.command(&[&["mcp", "serve"], options].concat()).spawn().unwrap();
        let output = BufReader::new(program.stdout.take().unwrap());
        let mut client = Self { program, output, last_id: 0 };
        let started = client.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }),
        );
        assert_eq!(started["result"]["protocolVersion"], "2025-11-25", "{started}");
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.program.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))["result"].clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.program.kill().ok();
        self.program.wait().ok();
    }
}

#[test]
fn the_file_tools_are_served_without_a_model_and_under_the_rules() {
    let world = World::new();
    let mut client = Client::start(&world, &["--tools", "files", "--deny", "Read(secret.txt)"]);
    let world = world.file("project/secret.txt", "hush");
    let listed = client.ask("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"read_file") && !names.contains(&"bash"), "{names:?}");
    let read = client.call("read_file", &json!({"path": "a.txt"}));
    assert!(read["content"][0]["text"].as_str().unwrap().contains("two"), "{read}");
    let written = client.call("write_file", &json!({"path": "b.txt", "content": "new"}));
    assert_eq!(written["isError"], false, "{written}");
    assert_eq!(fs::read_to_string(world.path("project/b.txt")).unwrap(), "new");
    for path in ["secret.txt", "../outside.txt"] {
        let refused = client.call("read_file", &json!({"path": path}));
        assert_eq!(refused["isError"], true, "{path}: {refused}");
        assert!(!refused.to_string().contains("hush"), "{refused}");
    }
}

#[test]
fn an_agent_is_a_tool_and_its_sessions_are_resources() {
    let (world, server) = (
        World::new(),
        Server::start([streamed("forty-two", "stop"), streamed("of course", "stop")]),
    );
    let world = world.env("OPENAI_COMPATIBLE_BASE_URL", &server.url).file(
        "project/.claude/skills/tidy/SKILL.md",
        "---\nname: tidy\ndescription: Tidies up.\n---\nTidy $ARGUMENTS.\n",
    );
    let mut client = Client::start(&world, &["-m", "openai-compatible/test"]);
    let asked = client.call("ask_loopwright", &json!({"prompt": "The answer?"}));
    assert_eq!(asked["content"][0]["text"], "forty-two", "{asked}");
    let session = asked["structuredContent"]["session_id"].clone();
    let again = json!({"prompt": "Are you sure?", "session_id": session});
    let asked = client.call("ask_loopwright", &again);
    assert_eq!(asked["content"][0]["text"], "of course", "{asked}");
    drop(server.request());
    assert!(server.request()["messages"].to_string().contains("forty-two"));
    let listed = client.ask("resources/list", &json!({}));
    let resource = listed["result"]["resources"][0].clone();
    assert_eq!(resource["name"], "The answer?", "{listed}");
    let read = client.ask("resources/read", &json!({"uri": resource["uri"]}));
    assert!(read.to_string().contains("forty-two"), "{read}");
    let prompts = client.ask("prompts/list", &json!({}));
    assert_eq!(prompts["result"]["prompts"][0]["name"], "tidy", "{prompts}");
    let params = json!({"name": "tidy", "arguments": {"arguments": "the desk"}});
    let prompt = client.ask("prompts/get", &params);
    assert!(prompt.to_string().contains("Tidy the desk."), "{prompt}");
}

#[cfg(feature = "snapshots")]
#[test]
fn an_agent_continues_no_session_with_snapshots() {
    let kept = crate::snapshots::KeptSession::new();
    let mut client = Client::start(&kept.world, &["-m", "openai-compatible/test"]);
    let call = json!({"prompt": "More.", "session_id": kept.id});
    let asked = client.call("ask_loopwright", &call);
    let text = asked["content"][0]["text"].as_str().unwrap();
    assert!(asked["isError"] == true && text.contains(&kept.refusal()), "{asked}");
    kept.assert_no_turn();
}
