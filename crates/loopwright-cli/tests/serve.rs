//! The server as its clients see it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed};
use crate::world::World;

/// A server under way.
struct Serving {
    child: Child,
    url: String,
    token: String,
}

impl Serving {
    fn start(world: &World, model: &Server, options: &[&str]) -> Self {
        let line = [
            &["serve", "--listen", "127.0.0.1:0", "--output-format", "json"],
            &["-m", "openai-compatible/test", "--base-url", &model.url][..],
            options,
        ]
        .concat();
        let mut command = world.command(&line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        let text = |key: &str| told[key].as_str().unwrap().to_owned();
        Self { child, url: text("url"), token: text("token") }
    }

    /// Sends a request, and returns the status and the body.
    fn send(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        let host = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn json(&self, token: &str, method: &str, path: &str, body: &Value) -> Value {
        let (status, text) = self.send(token, method, path, &body.to_string());
        assert!((200..300).contains(&status), "{status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Asks it to end, and returns its exit status.
    fn end(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_session_is_created_answered_watched_and_found_at_the_command_line() {
    let replies: [Reply; 1] = [streamed("Hello.", "stop")];
    let (world, model) = (World::new(), Server::start(replies));
    let serving = Serving::start(&world, &model, &[]);
    let token = serving.token.clone();
    let session = serving.json(&token, "POST", "/v1/sessions", &json!({}));
    let id = session["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{id}");
    serving.json(&token, "POST", &format!("{path}/messages"), &json!({"text": "Who are you?"}));
    let (status, events) = serving.send(&token, "GET", &format!("{path}/events"), "");
    assert_eq!(status, 200);
    assert!(events.contains("\"status\":\"completed\""), "{events}");
    assert_eq!(serving.json(&token, "GET", &path, &json!(null))["text"], "Hello.");
    assert_eq!(serving.end(), Some(0));
    let shown = world.run(&["sessions", "show", &id, "--json"]);
    assert!(shown.stdout.contains("Who are you?"), "{shown:?}");
}

#[test]
fn principals_have_directories_of_their_own_that_go_with_their_sessions() {
    let (world, model) = (World::new(), Server::start([]));
    let create = |name: &str| {
        let done = world.run(&["tokens", "create", "--principal", name, "--role", "run"]);
        done.stdout.trim().to_owned()
    };
    let (ada, bob) = (create("ada"), create("bob"));
    let refused = world.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("--session-dirs"), "{}", refused.stderr);
    let dirs = world.path("dirs").display().to_string();
    let serving = Serving::start(&world, &model, &["--session-dirs", &dirs]);
    let id = serving.json(&ada, "POST", "/v1/sessions", &json!({}))["id"].clone();
    let id = id.as_str().unwrap();
    assert!(world.path(&format!("dirs/{id}")).is_dir());
    let path = format!("/v1/sessions/{id}");
    assert_eq!(serving.send(&bob, "GET", &path, "").0, 404);
    assert_eq!(serving.send(&serving.token, "GET", &path, "").0, 404);
    assert_eq!(serving.send(&ada, "DELETE", &path, "").0, 204);
    assert!(!world.path(&format!("dirs/{id}")).exists());
    let listed = world.run(&["tokens", "list", "--json"]);
    assert!(!listed.stdout.contains(&ada), "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let token = listed["tokens"][0]["id"].as_str().unwrap();
    assert_eq!(world.run(&["tokens", "revoke", token]).status, 0);
    assert_eq!(serving.send(&ada, "GET", "/v1/sessions", "").0, 401);
    assert_eq!(serving.send(&bob, "GET", "/v1/sessions", "").0, 200);
}

#[test]
fn an_address_that_others_reach_is_refused_without_a_proxy() {
    let world = World::new();
    let refused = world.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("--behind-proxy"), "{}", refused.stderr);
    let unnamed = world.run(&["serve", "--behind-proxy"]);
    assert_eq!(unnamed.status, 2, "{unnamed:?}");
    assert!(unnamed.stderr.contains("--host"), "{}", unnamed.stderr);
    let files = world.run(&["serve", "--listen", "127.0.0.1:0", "--store", "files:kept"]);
    assert_ne!(files.status, 0, "{files:?}");
}
