//! The server as its clients see it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::server::{Reply, Server, streamed, streamed_call, streamed_tool};
use crate::world::World;

/// A server under way.
struct Serving {
    child: Child,
    url: String,
    page: String,
    token: String,
}

impl Serving {
    fn start(world: &World, model: &Server, options: &[&str]) -> Self {
        let line = [
            &["serve", "--output-format", "json"][..],
            &["-m", "openai-compatible/test", "--base-url", &model.url][..],
            if options.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] },
            options,
        ]
        .concat();
        let mut command = world.command(&line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        let text = |key: &str| told[key].as_str().unwrap().to_owned();
        Self { child, url: text("url"), page: text("page"), token: text("token") }
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
fn every_stored_event_of_a_served_session_names_the_mode_unconfined() {
    for (mode, expect) in [("unconfined", json!("unconfined")), ("auto", Value::Null)] {
        let replies = [streamed_call("", "true"), streamed("Done.", "stop")];
        let (world, model) = (World::new(), Server::start(replies));
        let serving = Serving::start(&world, &model, &["--permission-mode", mode]);
        let session = serving.json(&serving.token, "POST", "/v1/sessions", &json!({}));
        let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
        let message = json!({ "text": "Look." });
        serving.json(&serving.token, "POST", &format!("{path}/messages"), &message);
        let (_, stream) = serving.send(&serving.token, "GET", &format!("{path}/events"), "");
        let stored = stream.lines().filter_map(|it| it.strip_prefix("data: {"));
        let events: Vec<Value> = stored.map(|it| format!("{{{it}").parse().unwrap()).collect();
        assert!(events.iter().any(|it| it["payload"]["status"] == "completed"), "{stream}");
        let told = events.iter().filter(|it| it["execution_id"].is_string());
        let named: Vec<&Value> = told.map(|it| &it["permission_mode"]).collect();
        assert!(named.len() > 2 && named.iter().all(|it| **it == expect), "{stream}");
        assert_eq!(serving.end(), Some(0));
    }
}

#[test]
fn a_run_whose_server_was_killed_is_taken_up_by_another_one() {
    let (world, model) =
        (World::new(), Server::start([Reply::Nothing, streamed("Hello.", "stop")]));
    let mut first = Serving::start(&world, &model, &[]);
    let session = first.json(&first.token, "POST", "/v1/sessions", &json!({}));
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    let text = &json!({"text": "Who are you?"});
    first.json(&first.token, "POST", &format!("{path}/messages"), text);
    let asked = model.request()["messages"].clone();
    // Only the first one can have begun the run.
    let second = Serving::start(&world, &model, &[]);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert_eq!(model.request()["messages"], asked);
    // The stream may end while no server runs the session.
    let events = (0..10).map(|_| second.send(&second.token, "GET", &format!("{path}/events"), ""));
    let told = events.map(|it| it.1).find(|it| it.contains("\"status\":\"completed\""));
    assert!(told.is_some());
    let shown = second.json(&second.token, "GET", &path, &json!(null));
    assert_eq!((&shown["text"], &shown["status"]), (&json!("Hello."), &session["status"]));
    let runs = second.json(&second.token, "GET", &format!("{path}/runs"), &json!(null));
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    assert!(!model.was_asked());
}

#[test]
fn a_browser_signs_in_once_with_the_address_and_stays_signed_in_when_the_server_is_started_again() {
    let (world, model) = (World::new(), Server::start([streamed("Hello.", "stop")]));
    let serving = Serving::start(&world, &model, &[]);
    let session = serving.json(&serving.token, "POST", "/v1/sessions", &json!({}));
    let id = session["id"].as_str().unwrap();
    let get = |serving: &Serving, path: &str, cookie: &str| {
        let host = serving.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncookie: {cookie}\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let path = serving.page.strip_prefix(&serving.url).unwrap();
    let answer = get(&serving, path, "");
    let cookie = answer.split("set-cookie: ").nth(1).unwrap();
    let (cookie, attributes) = cookie.lines().next().unwrap().split_once(';').unwrap();
    assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Strict; Max-Age=43200");
    assert!(get(&serving, path, "").starts_with("HTTP/1.1 401 "));
    let shown = get(&serving, "/", cookie);
    assert!(shown.starts_with("HTTP/1.1 200 ") && shown.contains(id), "{shown}");
    let opened = world.run(&["sessions", "open", &id[..8], "--print", "--url", &serving.url]);
    let path = opened.stdout.trim().strip_prefix(&serving.url).unwrap().to_owned();
    assert!(path.ends_with(&format!("&next=/sessions/{id}")), "{path}");
    let host = serving.url.strip_prefix("http://").unwrap().to_owned();
    let port = host.split(':').nth(1).unwrap();
    assert_eq!(serving.end(), Some(0));
    let refused = world.run(&["sessions", "open", id, "--url", "http://127.0.0.1:1"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.contains("loopwright serve --open"), "{}", refused.stderr);
    let again = Serving::start(&world, &model, &["--listen", &host]);
    assert!(get(&again, "/", cookie).contains(id), "port {port}");
    assert!(get(&again, &path, "").contains("Signed in"));
}

#[test]
fn what_changes_something_or_is_refused_is_on_record() {
    let (world, model) = (World::new(), Server::start([]));
    let log = world.path("audit.jsonl").display().to_string();
    let serving = Serving::start(&world, &model, &["--audit", &log]);
    let token = serving.token.clone();
    let session = serving.json(&token, "POST", "/v1/sessions", &json!({}));
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    assert_eq!(serving.send(&token, "GET", &path, "").0, 200);
    assert_eq!(serving.send("lwt_wrong", "GET", &path, "").0, 401);
    assert_eq!(serving.send(&token, "DELETE", &path, "").0, 204);
    let log = std::fs::read_to_string(log).unwrap();
    let entries: Vec<Value> = log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let told =
        entries.iter().map(|it| (&it["principal"], &it["method"], &it["path"], &it["status"]));
    let local = json!("local");
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (&local, &json!("POST"), &json!("/v1/sessions"), &json!(201)),
            (&json!(null), &json!("GET"), &json!(path), &json!(401)),
            (&local, &json!("DELETE"), &json!(path), &json!(204)),
        ]
    );
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
fn limits_of_the_server_and_of_a_token_hold_after_a_restart() {
    let (world, model) = (World::new(), Server::start([streamed("Hello.", "stop")]));
    let create =
        ["tokens", "create", "--principal", "ada", "--max-runs", "2", "--cost-per-day", "0.5"];
    let ada = world.run(&create).stdout.trim().to_owned();
    let listed = world.run(&["tokens", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let limits = &listed["tokens"][0]["limits"];
    assert_eq!((&limits["open_runs"], &limits["cost_usd_per_day"]), (&json!(2), &json!(0.5)));
    let dirs = world.path("dirs").display().to_string();
    let options = ["--session-dirs", &dirs, "--tokens-per-day", "1", "--max-runs", "9"];
    let serving = Serving::start(&world, &model, &options);
    let id = serving.json(&ada, "POST", "/v1/sessions", &json!({}))["id"].clone();
    let path = format!("/v1/sessions/{}", id.as_str().unwrap());
    serving.json(&ada, "POST", &format!("{path}/messages"), &json!({"text": "Hi"}));
    assert_eq!(serving.send(&ada, "GET", &format!("{path}/events"), "").0, 200);
    assert_eq!(serving.end(), Some(0));
    let serving = Serving::start(&world, &model, &options);
    let usage = serving.json(&ada, "GET", "/v1/usage", &json!(null));
    assert!(usage["tokens_today"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!((&usage["max_open_runs"], &usage["max_tokens_per_day"]), (&json!(2), &json!(1)));
    let text = json!({"text": "Again"}).to_string();
    let (status, refused) = serving.send(&ada, "POST", &format!("{path}/messages"), &text);
    assert_eq!(status, 429, "{refused}");
    let wrong = world.run(&["serve", "--cost-per-day", "0"]);
    assert_eq!(wrong.status, 2, "{wrong:?}");
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
    assert_eq!(files.status, 3, "{files:?}");
    assert!(files.stderr.contains("as in `--store sqlite:FILE`"), "{files:?}");
}

#[test]
fn a_webhook_is_told_that_a_served_session_waits() {
    let hook = Server::start(vec![streamed("", "stop")]);
    let config = format!("[notify]\nwebhook = \"{}/waiting\"\n", hook.url);
    let world = World::new().file(".config/loopwright/config.toml", &config);
    let model = Server::start(vec![streamed_call("", "rm a.txt")]);
    let serving = Serving::start(&world, &model, &["--permission-mode", "ask"]);
    let token = serving.token.clone();
    let session = serving.json(&token, "POST", "/v1/sessions", &json!({}));
    let id = session["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{id}");
    serving.json(&token, "POST", &format!("{path}/messages"), &json!({"text": "Go."}));
    let (_, events) = serving.send(&token, "GET", &format!("{path}/events"), "");
    assert!(events.contains("\"status\":\"idle\""), "{events}");
    // A notification in progress is sent before the server ends.
    assert_eq!(serving.end(), Some(0));
    let heard = &hook.heard()[0].1;
    assert_eq!(
        (heard["type"].as_str(), heard["session_id"].as_str()),
        (Some("waiting"), Some(&*id))
    );
}

#[test]
fn an_agent_of_a_server_is_a_remote_agent_of_a_run_once_the_user_configures_it() {
    let (served, model) = (World::new(), Server::start([streamed("Forty-two.", "stop")]));
    let serving = Serving::start(&served, &model, &[]);
    let table = format!(
        "[remote_agents.helper]\nurl = \"{}/v1/agents/loopwright/a2a\"\n\
         description = \"Counts.\"\ntoken = \"env:HELPER_TOKEN\"\nprivate = true\n",
        serving.url
    );
    let world = World::new().file(".config/loopwright/config.toml", &table);
    let ask = json!({"agent": "helper", "message": "How many?"});
    let run = |world: &World| {
        let replies = [streamed_tool("", "ask_remote_agent", &ask), streamed("Done.", "stop")];
        let caller = Server::start(replies);
        let line = ["run", "-m", "openai-compatible/test", "--base-url", &caller.url];
        let done = world.run(&[&line[..], &["--allow", "ask_remote_agent", "Go."]].concat());
        let offered = caller.request()["tools"].to_string();
        let told = caller.request()["messages"].to_string();
        (done, offered.contains("Counts."), told)
    };
    let (done, is_offered, _) = run(&world);
    assert!(!is_offered);
    assert!(done.stderr.contains("remote agent `helper` is not available; set HELPER_TOKEN"));
    let world = world.env("HELPER_TOKEN", &serving.token);
    let (done, is_offered, told) = run(&world);
    assert_eq!((done.status, is_offered), (0, true), "{}", done.stderr);
    assert!(told.contains("[Remote agent: helper] Forty-two."), "{told}");
}

#[test]
fn a_server_runs_jobs_that_need_its_labels() {
    let (world, model) = (World::new(), Server::start([streamed("Done.", "stop")]));
    let serving = Serving::start(&world, &model, &["--label", "gpu", "--label", "zone=eu"]);
    let line = ["submit", "-m", "openai-compatible/test", "--base-url", &model.url];
    let done = world.run(&[&line[..], &["--needs", "gpu", "Look."]].concat());
    assert_eq!(done.status, 0, "{}", done.stderr);
    let jobs = || world.run(&["jobs", "--json"]).stdout.parse::<Value>().unwrap();
    let is_open =
        |jobs: &Value| matches!(jobs["jobs"][0]["status"].as_str(), Some("queued" | "running"));
    let ended = std::iter::repeat_with(jobs).find(|it| !is_open(it)).unwrap();
    assert_eq!(ended["jobs"][0]["status"], "completed", "{ended}");
    assert_eq!(serving.end(), Some(0));
    let refused = world.run(&["serve", "--no-worker", "--label", "gpu"]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
}

#[test]
fn an_issuer_needs_an_address_that_is_safe_and_a_directory_for_each_session() {
    let world = World::new();
    let serve = |issuer: &str, options: &[&str]| {
        let line = ["serve", "--listen", "127.0.0.1:0", "-m", "openai-compatible/test"];
        let model = ["--base-url", "http://127.0.0.1:1/v1"];
        let oidc = ["--oidc-issuer", issuer, "--oidc-audience", "loopwright"];
        let done = world.run(&[&line[..], &model, &oidc, options].concat());
        (done.status, done.stderr)
    };
    let (status, error) = serve("https://a.example", &[]);
    assert!((status, error.contains("pass `--session-dirs DIR`")) == (2, true), "{error}");
    let dirs = ["--session-dirs", "sessions"];
    let (status, error) = serve("http://a.example", &dirs);
    assert!(
        (status, error.contains("the issuer `http://a.example` is invalid")) == (2, true),
        "{error}"
    );
    let mapped = [&dirs[..], &["--oidc-role-claim", "groups", "--oidc-map", "ops=owner"]].concat();
    assert_eq!(serve("https://a.example", &mapped).0, 2);
}
