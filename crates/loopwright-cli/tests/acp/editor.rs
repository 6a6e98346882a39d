//! An editor that writes its messages by hand.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::server::Server;
use crate::world::World;

/// How long is waited for a message.
const PATIENCE: Duration = Duration::from_mins(1);

/// An editor with the program as its agent.
pub(super) struct Editor {
    program: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    last_id: u64,
    /// What is selected when a permission is asked for; without it, nothing is answered.
    choice: Option<String>,
    /// The last permission request that was not answered.
    pub(super) open: Value,
    /// The updates that came.
    pub(super) updates: Vec<Value>,
    /// The permissions that were asked for.
    pub(super) asked: Vec<Value>,
    /// The permission requests that the program withdrew.
    pub(super) withdrawn: Vec<Value>,
    /// The files that it has open, by their paths.
    pub(super) buffers: BTreeMap<String, String>,
    /// The files that were written through it.
    pub(super) written: Vec<Value>,
}

impl Editor {
    /// Starts the program with a model.
    pub(super) fn start(world: &World, server: &Server, options: &[&str]) -> Self {
        let line = ["acp", "-m", "openai-compatible/test", "--base-url", &server.url];
        Self::start_offering(world, &[&line, options].concat(), &json!({}))
    }

    /// Starts the program, and offers capabilities to it.
    pub(super) fn start_offering(world: &World, line: &[&str], offered: &Value) -> Self {
        let mut editor = Self::start_with(world, line);
        let params = json!({"protocolVersion": 1, "clientCapabilities": offered});
        let started = editor.ask("initialize", &params);
        assert_eq!(started["result"]["protocolVersion"], 1, "{started}");
        editor
    }

    pub(super) fn start_with(world: &World, line: &[&str]) -> Self {
        let mut program = world.command(line).spawn().unwrap();
        let input = program.stdin.take();
        let output = BufReader::new(program.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self {
            program,
            input,
            lines,
            last_id: 0,
            choice: None,
            open: Value::Null,
            updates: Vec::new(),
            asked: Vec::new(),
            withdrawn: Vec::new(),
            buffers: BTreeMap::new(),
            written: Vec::new(),
        }
    }

    /// Does something while the program is stopped, so that the program sees only the result.
    pub(super) fn while_stopped(&self, what: impl FnOnce()) {
        let program = Pid::from_child(&self.program);
        kill_process(program, Signal::STOP).unwrap();
        what();
        kill_process(program, Signal::CONT).unwrap();
    }

    pub(super) fn new_session(&mut self, world: &World) -> String {
        let params = json!({"cwd": world.path("project"), "mcpServers": []});
        let new = self.ask("session/new", &params);
        new["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{new}")).to_owned()
    }

    /// Selects this option from now on.
    pub(super) fn answer(&mut self, option: &str) {
        self.choice = Some(option.to_owned());
        self.asked.clear();
    }

    pub(super) fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(super) fn notify(&mut self, method: &str, params: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    pub(super) fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&request.to_string());
        id
    }

    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.wait(id)
    }

    pub(super) fn send_prompt(&mut self, session: &str, blocks: &Value) -> u64 {
        self.send("session/prompt", &json!({"sessionId": session, "prompt": blocks}))
    }

    pub(super) fn prompt(&mut self, session: &str, blocks: &Value) -> Value {
        let id = self.send_prompt(session, blocks);
        self.wait(id)
    }

    /// Returns the next message; standard output carries nothing else.
    pub(super) fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        message
    }

    /// Takes messages until a request is answered.
    pub(super) fn wait(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.take(message);
        }
    }

    /// Takes messages until a permission is asked for.
    pub(super) fn until_asked(&mut self) {
        let before = self.asked.len();
        while self.asked.len() == before {
            let message = self.next();
            self.take(message);
        }
    }

    /// Answers the last permission request.
    pub(super) fn select(&mut self, choice: &str) {
        let outcome = json!({"outcome": "selected", "optionId": choice});
        let answer = json!({"jsonrpc": "2.0", "id": self.open, "result": {"outcome": outcome}});
        self.write(&answer.to_string());
    }

    fn respond(&mut self, id: &Value, mut answer: Value) {
        (answer["jsonrpc"], answer["id"]) = (json!("2.0"), id.clone());
        self.write(&answer.to_string());
    }

    fn take(&mut self, mut message: Value) {
        let mut params = message["params"].take();
        match message["method"].as_str() {
            Some("session/update") => self.updates.push(params["update"].clone()),
            Some("session/request_permission") => {
                self.asked.push(params);
                self.open = message["id"].clone();
                if let Some(choice) = self.choice.clone() {
                    self.select(&choice);
                }
            }
            Some("$/cancel_request") => self.withdrawn.push(params["requestId"].take()),
            Some("fs/read_text_file") => {
                let path = params["path"].as_str().unwrap();
                let answer = match self.buffers.get(path) {
                    Some(text) => json!({"result": {"content": text}}),
                    None => json!({"error": {"code": -32002, "message": "no such file"}}),
                };
                self.respond(&message["id"], answer);
            }
            Some("fs/write_text_file") => {
                let path = params["path"].as_str().unwrap();
                std::fs::write(path, params["content"].as_str().unwrap()).unwrap();
                self.written.push(params);
                self.respond(&message["id"], json!({"result": {}}));
            }
            _ => panic!("unexpected: {message}"),
        }
    }

    /// Returns the updates of a kind.
    pub(super) fn all(&self, kind: &str) -> Vec<Value> {
        self.updates.iter().filter(|it| it["sessionUpdate"] == kind).cloned().collect()
    }

    /// Returns the last update of a kind.
    pub(super) fn only(&self, kind: &str) -> Value {
        let last = self.all(kind).pop();
        last.unwrap_or_else(|| panic!("no {kind}: {:?}", self.updates))
    }

    pub(super) fn close_stdin(&mut self) {
        self.input = None;
    }

    /// Closes the connection and returns the exit status.
    pub(super) fn leave(&mut self) -> i32 {
        self.close_stdin();
        self.program.wait().unwrap().code().unwrap()
    }

    /// Ends the program as a crash does.
    pub(super) fn kill(mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.program.kill().ok();
        self.program.wait().ok();
    }
}

/// Joins the texts of updates of a kind.
pub(super) fn text_of(updates: &[Value], kind: &str) -> String {
    let of_kind = updates.iter().filter(|it| it["sessionUpdate"] == kind);
    of_kind.map(|it| it["content"]["text"].as_str().unwrap()).collect()
}
