use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_core::{AgentLoop, AgentState, ApprovalDecision, ExecutionStatus, RunOptions};
use loopwright_models::Secret;
use loopwright_testing::{FakeModel, MemoryJournal, ScenarioStep, test_env, tool_results};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{InvalidRemoteAgent, RemoteAgent, RemoteAgentPolicy, UseRemoteAgent};

const TOKEN: &str = "Bearer a-token-of-billing";

/// A request as a remote agent receives it.
#[derive(Clone, Debug, PartialEq)]
struct Received {
    method: String,
    params: Value,
    headers: String,
}

enum Reply {
    Json(Value),
    Events(Vec<Value>),
    Refusal(&'static str),
    Status(u16),
    /// None until the client gives up.
    Never,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    binding: &'static str,
    streaming: bool,
}

const POLLED: Kind = Kind { binding: "JSONRPC", streaming: false };

/// A remote agent on this machine.
#[derive(Clone)]
struct Remote {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Remote {
    /// Starts an agent that answers each method so; the number counts earlier requests of the method.
    async fn start(
        kind: Kind,
        reply: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/billing", listener.local_addr().unwrap());
        let remote = Self { url, received: Arc::default() };
        let (served, reply) = (remote.clone(), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (served, reply) = (served.clone(), Arc::clone(&reply));
                tokio::spawn(async move { served.serve(kind, stream, &*reply).await });
            }
        });
        remote
    }

    async fn serve(
        &self,
        kind: Kind,
        mut stream: TcpStream,
        reply: &(dyn Fn(&Received, usize) -> Reply + Send + Sync),
    ) -> Option<()> {
        let received = read(&mut stream, kind).await?;
        let earlier = {
            let mut all = self.received.lock().unwrap();
            let earlier = all.iter().filter(|it| it.method == received.method).count();
            all.push(received.clone());
            earlier
        };
        let reply = match received.method.as_str() {
            "card" => Reply::Json(json!({
                "name": "billing", "capabilities": { "streaming": kind.streaming },
                "supportedInterfaces": [{
                    "url": self.url, "protocolBinding": kind.binding, "protocolVersion": "1.0",
                }],
            })),
            _ => reply(&received, earlier),
        };
        let is_rpc = kind.binding == "JSONRPC" && received.method != "card";
        let wrapped = |result: Value| {
            let wrapped = json!({ "jsonrpc": "2.0", "id": 1, "result": result.clone() });
            if is_rpc { wrapped } else { result }
        };
        let (status, kind, body) = match reply {
            Reply::Json(value) => (200, "application/json", wrapped(value).to_string()),
            Reply::Events(events) => {
                let events = events.into_iter().map(|it| format!("data: {}\n\n", wrapped(it)));
                (200, "text/event-stream", events.collect())
            }
            Reply::Refusal(text) => {
                let error = json!({ "error": { "code": -32602, "message": text } });
                (if is_rpc { 200 } else { 400 }, "application/json", error.to_string())
            }
            Reply::Status(status) => (status, "text/plain", "no".to_owned()),
            Reply::Never => {
                stream.read_u8().await.ok();
                return None;
            }
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.ok()
    }

    fn methods(&self) -> Vec<String> {
        self.received.lock().unwrap().iter().map(|it| it.method.clone()).collect()
    }

    fn sent(&self) -> Vec<Value> {
        let received = self.received.lock().unwrap();
        let sent = received.iter().filter(|it| it.method == "SendMessage");
        sent.map(|it| it.params["message"].clone()).collect()
    }

    fn agent(&self) -> RemoteAgent {
        let agent = RemoteAgent::new("billing", "Knows all invoices.", &self.url).unwrap();
        agent.with_token(Secret::new("a-token-of-billing")).with_private_addresses()
    }

    /// Builds an agent that gives one task to the remote agent.
    fn caller(&self) -> AgentLoop {
        Self::caller_with(self.agent(), policy())
    }

    fn caller_with(agent: RemoteAgent, policy: RemoteAgentPolicy) -> AgentLoop {
        let ask = json!({ "agent": "billing", "message": "Pay it." });
        let ask = ScenarioStep::tool_call("ask_remote_agent", ask);
        caller_of(agent, policy, [ask, "done".into()])
    }
}

fn caller_of(
    agent: RemoteAgent,
    policy: RemoteAgentPolicy,
    steps: impl IntoIterator<Item = ScenarioStep>,
) -> AgentLoop {
    AgentBuilder::base()
        .with(UseLlmConfig::model(FakeModel::script(steps)))
        .with(UseRemoteAgent::new([agent]).with_policy(policy))
        .build()
        .unwrap()
}

async fn read(stream: &mut TcpStream, kind: Kind) -> Option<Received> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|it| it.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |it| it.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = head.split(' ').nth(1).unwrap();
    if path == "/billing/.well-known/agent-card.json" {
        return Some(Received { method: "card".to_owned(), params: Value::Null, headers: head });
    }
    if kind.binding == "JSONRPC" {
        let method = body["method"].as_str().unwrap().to_owned();
        return Some(Received { method, params: body["params"].clone(), headers: head });
    }
    let (method, params) = match path.strip_prefix("/billing").unwrap() {
        "/message:send" => ("SendMessage", body),
        "/tasks/t1" => ("GetTask", json!({ "id": "t1" })),
        "/tasks/t1:cancel" => ("CancelTask", json!({ "id": "t1" })),
        "/tasks/t1:subscribe" => ("SubscribeToTask", json!({ "id": "t1" })),
        path => panic!("{path}"),
    };
    Some(Received { method: method.to_owned(), params, headers: head })
}

fn policy() -> RemoteAgentPolicy {
    RemoteAgentPolicy { poll_interval: Duration::from_millis(1), ..RemoteAgentPolicy::default() }
}

fn task(state: &str) -> Value {
    let mut task = json!({ "id": "t1", "contextId": "c1", "status": { "state": state } });
    if state == "TASK_STATE_COMPLETED" {
        task["artifacts"] = json!([
            { "artifactId": "1", "parts": [{ "text": "Paid" }, { "data": { "invoice": 7 } }] },
            { "artifactId": "2", "parts": [
                { "url": "https://a.example/7", "filename": "7.pdf", "mediaType": "application/pdf" },
            ] },
        ]);
    } else if state != "TASK_STATE_WORKING" {
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "Which account?" }] });
        task["status"]["message"] = message;
    }
    task
}

/// What a model reads of the task above.
const PAID: &str = "[Remote agent: billing] Paid\n{\"invoice\":7}\n\n\
                    [7.pdf, application/pdf: https://a.example/7]\n[context: c1]";

/// Works until its task was read once, and is then completed.
fn working(received: &Received, earlier: usize) -> Reply {
    match (received.method.as_str(), earlier) {
        ("SendMessage", _) => Reply::Json(json!({ "task": task("TASK_STATE_WORKING") })),
        ("SubscribeToTask", _) => Reply::Events(vec![
            json!({ "task": task("TASK_STATE_WORKING") }),
            json!({ "artifactUpdate": { "taskId": "t1", "artifact": { "parts": [{ "text": "Pa" }] } } }),
            json!({ "statusUpdate": { "taskId": "t1", "status": { "state": "TASK_STATE_COMPLETED" } } }),
        ]),
        ("GetTask", 0) => Reply::Json(task("TASK_STATE_WORKING")),
        ("GetTask", _) => Reply::Json(task("TASK_STATE_COMPLETED")),
        ("CancelTask", _) => Reply::Json(task("TASK_STATE_CANCELED")),
        (method, _) => panic!("{method}"),
    }
}

fn options(journal: Option<&MemoryJournal>) -> RunOptions {
    let journal = journal.map(|it| Arc::new(it.clone()) as _);
    RunOptions { env: test_env(1), journal, ..RunOptions::default() }
}

async fn run(agent: &AgentLoop) -> AgentState {
    agent.start(AgentState::new().with_user_message("go"), options(None)).finish().await
}

#[tokio::test]
async fn the_artifacts_of_a_task_are_the_result_over_both_bindings_streamed_and_polled() {
    for binding in ["JSONRPC", "HTTP+JSON"] {
        for streaming in [true, false] {
            let remote = Remote::start(Kind { binding, streaming }, working).await;
            let state = run(&remote.caller()).await;
            assert_eq!(
                (tool_results(&state), state.text()),
                (vec![PAID.to_owned()], "done".into())
            );
            let mut expect = vec!["card", "SendMessage", "GetTask", "SubscribeToTask", "GetTask"];
            expect.retain(|it| streaming || *it != "SubscribeToTask");
            assert_eq!(remote.methods(), expect);
            for it in &*remote.received.lock().unwrap() {
                let has = |line: &str| it.headers.contains(&format!("{line}\r\n").to_lowercase());
                assert!(has(&format!("authorization: {TOKEN}")) && has("a2a-version: 1.0"));
            }
            let sent = &remote.sent()[0];
            assert_eq!(
                (&sent["role"], &sent["parts"]),
                (&json!("ROLE_USER"), &json!([{ "text": "Pay it." }]))
            );
        }
    }
}

#[tokio::test]
async fn a_message_without_a_task_is_the_result() {
    let message = json!({ "message": {
        "messageId": "m", "contextId": "c2", "role": "ROLE_AGENT", "parts": [{ "text": "Hello." }],
    } });
    let remote = Remote::start(POLLED, move |_, _| Reply::Json(message.clone())).await;
    let state = run(&remote.caller()).await;
    assert_eq!(tool_results(&state), ["[Remote agent: billing] Hello.\n[context: c2]"]);
}

/// Asks for the account, and is completed once that is sent.
fn asking(received: &Received, earlier: usize) -> Reply {
    match (received.method.as_str(), earlier) {
        ("SendMessage", 0) => Reply::Json(json!({ "task": task("TASK_STATE_INPUT_REQUIRED") })),
        ("SendMessage", _) => Reply::Json(json!({ "task": task("TASK_STATE_COMPLETED") })),
        ("CancelTask", _) => Reply::Json(task("TASK_STATE_CANCELED")),
        (method, _) => panic!("{method}"),
    }
}

#[tokio::test]
async fn a_question_of_a_remote_agent_waits_at_the_root_and_its_answer_continues_the_task() {
    for journal in [None, Some(MemoryJournal::new())] {
        let remote = Remote::start(POLLED, asking).await;
        let agent = remote.caller();
        let state = AgentState::new().with_user_message("go");
        let paused = agent.start(state, options(journal.as_ref())).finish().await;
        assert_eq!(paused.status(), &ExecutionStatus::Paused);
        let asked = paused.pending()[0];
        assert_eq!((&*asked.path[0].agent, &*asked.question.text), ("billing", "Which account?"));
        let address = asked.address();
        let decision = ApprovalDecision::Reply("The second.".into());
        let paused = match &journal {
            Some(journal) => AgentState::new().replay(journal.changes()).unwrap(),
            None => paused,
        };
        let state = agent.decide(&paused, &address, decision).unwrap();
        let done = agent.start(state, options(journal.as_ref())).finish().await;
        assert_eq!((tool_results(&done), done.text()), (vec![PAID.to_owned()], "done".into()));
        let sent = remote.sent();
        assert_eq!(sent.len(), 2);
        assert_eq!(
            (&sent[1]["taskId"], &sent[1]["contextId"], &sent[1]["parts"][0]["text"]),
            (&json!("t1"), &json!("c1"), &json!("The second."))
        );
        assert_ne!(sent[0]["messageId"], sent[1]["messageId"]);
    }
}

#[tokio::test]
async fn a_question_that_is_declined_cancels_the_task() {
    let remote = Remote::start(POLLED, asking).await;
    let agent = remote.caller();
    let paused = run(&agent).await;
    let address = paused.pending()[0].address();
    let reason = "the user declined".to_owned();
    let state = agent.decide(&paused, &address, ApprovalDecision::Deny { reason }).unwrap();
    let done = agent.start(state, options(None)).finish().await;
    assert_eq!(remote.methods(), ["card", "SendMessage", "CancelTask"]);
    let result = &tool_results(&done)[0];
    assert!(result.contains("the user declined; the task was cancelled"), "{result}");
}

#[tokio::test]
async fn a_task_that_fails_or_takes_too_long_is_an_error_that_the_model_reads() {
    for state in ["TASK_STATE_FAILED", "TASK_STATE_REJECTED", "TASK_STATE_CANCELED"] {
        let sent = json!({ "task": task(state) });
        let remote = Remote::start(POLLED, move |_, _| Reply::Json(sent.clone())).await;
        let done = run(&remote.caller()).await;
        let expect =
            format!("Error: remote agent `billing` gave no answer: {state}: Which account?");
        assert_eq!((tool_results(&done), done.text()), (vec![expect], "done".into()));
    }
    let remote = Remote::start(POLLED, |received, _| match received.method.as_str() {
        "GetTask" => Reply::Json(task("TASK_STATE_WORKING")),
        _ => working(received, 0),
    });
    let remote = remote.await;
    let policy = RemoteAgentPolicy { timeout: Duration::from_millis(20), ..policy() };
    let done = run(&Remote::caller_with(remote.agent(), policy)).await;
    assert!(tool_results(&done)[0].contains("it was cancelled"), "{:?}", tool_results(&done));
    assert_eq!(remote.methods().last().unwrap(), "CancelTask");
}

#[tokio::test]
async fn cancelling_the_run_cancels_the_task() {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let remote = Remote::start(POLLED, move |received, _| {
        if received.method == "GetTask" {
            token.cancel();
            return Reply::Json(task("TASK_STATE_WORKING"));
        }
        working(received, 0)
    });
    let remote = remote.await;
    let policy = RemoteAgentPolicy { poll_interval: Duration::from_hours(1), ..policy() };
    let agent = Remote::caller_with(remote.agent(), policy);
    // The clock of tests does not wait for the grace period.
    let options = RunOptions { cancel, grace: Duration::from_mins(1), ..RunOptions::default() };
    let state = agent.start(AgentState::new().with_user_message("go"), options).finish().await;
    assert_eq!(state.status().as_str(), "stopped");
    assert_eq!(remote.methods(), ["card", "SendMessage", "GetTask", "CancelTask"]);
}

/// Runs the agent until the remote agent receives the first request of this method, which it does not answer, and then
/// again from what the journal has.
async fn interrupted_at(method: &'static str) -> (Remote, AgentState) {
    let reached = Arc::new(Notify::new());
    let notify = Arc::clone(&reached);
    let remote = Remote::start(POLLED, move |received, earlier| {
        if received.method == method && earlier == 0 {
            notify.notify_one();
            return Reply::Never;
        }
        working(received, earlier)
    });
    let (remote, journal) = (remote.await, MemoryJournal::new());
    let first =
        remote.caller().start(AgentState::new().with_user_message("go"), options(Some(&journal)));
    tokio::select! {
        () = reached.notified() => {}
        state = first.finish() => panic!("{:?}", tool_results(&state)),
    }
    let state = AgentState::new().replay(journal.changes()).unwrap();
    // Another process, whose model is asked only after the call.
    let caller = caller_of(remote.agent(), policy(), ["done".into()]);
    let done = caller.start(state, options(Some(&journal))).finish().await;
    (remote, done)
}

#[tokio::test]
async fn a_run_that_continues_after_a_crash_follows_the_same_task() {
    let (remote, done) = interrupted_at("GetTask").await;
    assert_eq!(tool_results(&done), [PAID]);
    assert_eq!(remote.sent().len(), 1);
}

#[tokio::test]
async fn a_message_whose_arrival_is_unknown_after_a_crash_is_not_sent_again() {
    let (remote, done) = interrupted_at("SendMessage").await;
    assert_eq!(remote.methods(), ["card", "SendMessage"]);
    let result = &tool_results(&done)[0];
    assert!(result.contains("may have taken effect"), "{result}");
}

#[tokio::test]
async fn credentials_go_to_the_configured_host_only() {
    let card = |url: &str, version: &str| {
        json!({ "supportedInterfaces": [{
            "url": url, "protocolBinding": "JSONRPC", "protocolVersion": version,
        }] })
    };
    let check = async |card: Value, expect: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            let body = card.to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(head.as_bytes()).await.unwrap();
        });
        let agent = RemoteAgent::new("billing", "", &url).unwrap().with_private_addresses();
        let done = run(&Remote::caller_with(agent, policy())).await;
        let result = &tool_results(&done)[0];
        assert!(result.contains(expect), "{result}");
    };
    check(card("https://other.example/", "1.0"), "not on the host of the configured address").await;
    check(card("ftp://127.0.0.1/", "1.0"), "only http and https are allowed").await;
    check(card("http://127.0.0.1/", "0.3"), "version `0.3` is not supported").await;
    check(json!({}), "the card lists no interface").await;
}

async fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
}

#[tokio::test]
async fn private_addresses_are_reached_only_if_they_are_allowed() {
    let remote = Remote::start(POLLED, working).await;
    let check = async |url: &str, expect: &str| {
        let agent = RemoteAgent::new("billing", "", url).unwrap();
        let done = run(&Remote::caller_with(agent, policy())).await;
        let result = &tool_results(&done)[0];
        assert!(result.contains(expect), "{result}");
    };
    check(&remote.url, "private addresses are not allowed").await;
    check(&remote.url.replace("http:", "https:"), "is not a public address").await;
    assert_eq!(remote.methods(), [""; 0]);
}

#[tokio::test]
async fn answers_are_limited() {
    let remote = Remote::start(POLLED, |_, _| {
        let mut task = task("TASK_STATE_COMPLETED");
        task["artifacts"] = json!([{ "parts": [{ "text": "ä".repeat(1000) }] }]);
        Reply::Json(json!({ "task": task }))
    });
    let remote = remote.await;
    let short = RemoteAgentPolicy { summary_max_chars: 3, ..policy() };
    let done = run(&Remote::caller_with(remote.agent(), short)).await;
    let expect = "[Remote agent: billing] äää\n[truncated: 997 more characters]\n[context: c1]";
    assert_eq!(tool_results(&done), [expect]);
    let small = RemoteAgentPolicy { max_bytes: 1000, ..policy() };
    let done = run(&Remote::caller_with(remote.agent(), small)).await;
    assert!(tool_results(&done)[0].contains("longer than 1000 bytes"), "{:?}", tool_results(&done));
}

#[tokio::test]
async fn errors_of_the_remote_agent_are_told_to_the_model() {
    let check = async |reply: fn() -> Reply, expect: &str| {
        let remote = Remote::start(POLLED, move |_, _| reply()).await;
        let done = run(&remote.caller()).await;
        let result = &tool_results(&done)[0];
        assert!(result.contains(expect), "{result}");
    };
    check(|| Reply::Refusal("no such invoice"), "the agent rejected the request: no such invoice")
        .await;
    check(|| Reply::Status(401), "status 401; the user may have to check the agent's token").await;
    check(|| Reply::Status(503), "status 503; the message may have arrived").await;
    let remote = Remote::start(POLLED, |_, _| Reply::Status(429)).await;
    let busy = tool_results(&run(&remote.caller()).await)[0].clone();
    assert!(busy.contains("status 429") && !busy.contains("may have arrived"), "{busy}");
    check(|| Reply::Json(json!({ "nothing": 1 })), "cannot be read").await;
}

/// Returns an address on which no program listens, and none can while the socket is kept.
fn closed() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    (socket, url)
}

/// Serves a card that names this address, and closes each connection to another path without a response.
async fn with_card(url: String) -> RemoteAgent {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let own = format!("http://{}", listener.local_addr().unwrap());
    let url = if url.is_empty() { own.clone() } else { url };
    let card = json!({
        "name": "billing", "capabilities": { "streaming": false },
        "supportedInterfaces": [{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
    });
    let card = card.to_string();
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{card}",
        card.len()
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            if head.starts_with(b"GET ") {
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        }
    });
    RemoteAgent::new("billing", "Knows all invoices.", &own).unwrap().with_private_addresses()
}

#[tokio::test]
async fn a_message_that_was_certainly_not_sent_is_told_from_one_that_may_have_arrived() {
    let result = async |agent: RemoteAgent| {
        let done = run(&Remote::caller_with(agent, policy())).await;
        tool_results(&done)[0].clone()
    };
    let note = "the message may have arrived";
    let (_socket, nowhere) = closed();
    let no_card = RemoteAgent::new("billing", "Knows all invoices.", &nowhere).unwrap();
    let refused = result(no_card.with_private_addresses()).await;
    let expect = format!("the agent card cannot be read: no connection to {nowhere}");
    assert!(refused.contains(&expect) && !refused.contains(note), "{refused}");
    let refused = result(with_card(nowhere.clone()).await).await;
    assert!(refused.contains(&format!("no connection to {nowhere}")), "{refused}");
    assert!(!refused.contains("card") && !refused.contains(note), "{refused}");
    let lost = result(with_card(String::new()).await).await;
    assert!(lost.contains("was lost") && lost.contains(note), "{lost}");
}

#[tokio::test]
async fn a_task_is_followed_over_failed_requests() {
    let remote = Remote::start(POLLED, |received, earlier| match (&*received.method, earlier) {
        ("GetTask", 0..=2) => Reply::Status(502),
        ("GetTask", _) => Reply::Json(task("TASK_STATE_COMPLETED")),
        _ => working(received, earlier),
    });
    let remote = remote.await;
    assert_eq!(tool_results(&run(&remote.caller()).await), [PAID]);
}

#[test]
fn addresses_of_remote_agents_are_checked() {
    let reason = |url: &str| match RemoteAgent::new("a", "", url) {
        Err(InvalidRemoteAgent::Url { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason("ftp://a.example"), "only http and https are allowed");
    assert_eq!(reason("https://u:p@a.example"), "the URL contains a user name or a password");
    assert_eq!(reason("a"), "relative URL without a base");
    assert_eq!(RemoteAgent::new(" ", "", "https://a.example"), Err(InvalidRemoteAgent::Name));
}
