use std::sync::Mutex;
use std::time::Duration;

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_core::{AgentLoop, AgentState, ApprovalDecision, ExecutionStatus, RunOptions};
use loopwright_models::Secret;
use loopwright_testing::{FakeModel, ScenarioStep, tool_results};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::super::{RemoteAgent, RemoteAgentPolicy, RemoteProtocol, UseRemoteAgent};
use super::*;

fn ended(events: &[Value]) -> Option<Ended> {
    let mut run = Run::default();
    for event in events {
        run.read(event.to_string().as_bytes()).unwrap();
    }
    run.ended
}

fn text(id: &str, delta: &str) -> Value {
    json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta })
}

fn finished() -> Value {
    json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" })
}

fn completed(text: &str) -> Ended {
    let (interrupts, usage) = (Vec::new(), Usage::default());
    Ended { state: TaskState::Completed, text: text.to_owned(), interrupts, usage }
}

#[test]
fn the_last_message_of_the_agent_is_the_answer() {
    let start = |id: &str, role: &str| json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": role });
    let events = [
        json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" }),
        start("1", "assistant"),
        text("1", "Let me look."),
        start("2", "user"),
        text("2", "of another"),
        json!({ "type": "TEXT_MESSAGE_START", "messageId": "5", "subagentRunId": "s" }),
        text("5", "of a sub-agent"),
        start("3", "assistant"),
        text("3", "Paid "),
        json!({ "type": "CUSTOM", "name": "x", "value": {} }),
        text("3", "it."),
        start("4", "assistant"),
        finished(),
    ];
    assert_eq!(ended(&events), Some(completed("Paid it.")));
    assert_eq!(ended(&events[..12]), None);
    let chunk = |delta: &str| json!({ "type": "TEXT_MESSAGE_CHUNK", "delta": delta });
    let first = json!({ "type": "TEXT_MESSAGE_CHUNK", "messageId": "1", "role": "assistant" });
    assert_eq!(ended(&[first, chunk("Pa"), chunk("id."), finished()]), Some(completed("Paid.")));
}

#[test]
fn an_answer_that_is_not_streamed_is_in_the_snapshot_or_the_result() {
    let messages = json!([
        { "id": "1", "role": "assistant", "content": "Earlier." },
        { "id": "2", "role": "user", "content": "Pay it." },
        { "id": "3", "role": "assistant", "content": "Paid." },
        { "id": "4", "role": "assistant", "toolCalls": [] },
        { "id": "5", "role": "tool", "toolCallId": "c", "content": "of a tool" },
    ]);
    let snapshot = json!({ "type": "MESSAGES_SNAPSHOT", "messages": messages });
    assert_eq!(ended(&[snapshot.clone(), finished()]), Some(completed("Paid.")));
    assert_eq!(ended(&[text("1", "Done."), snapshot, finished()]), Some(completed("Done.")));
    let earlier =
        json!({ "type": "MESSAGES_SNAPSHOT", "messages": messages.as_array().unwrap()[..2] });
    assert_eq!(ended(&[earlier, finished()]), Some(completed("")));
    let mut result = finished();
    result["result"] = json!({ "invoice": 7 });
    assert_eq!(ended(&[result]), Some(completed(r#"{"invoice":7}"#)));
}

#[test]
fn usage_of_all_models_counts_and_runs_that_fail_or_are_cancelled_have_no_answer() {
    let mut done = finished();
    done["usage"] = json!([
        { "provider": "a", "model": "b", "inputTokens": 10, "outputTokens": 3, "cachedInputTokens": 4 },
        { "model": "c", "inputTokens": 1, "outputTokens": 2, "reasoningTokens": 1 },
    ]);
    let usage = Usage { input: 11, output: 5, cache_read: 4, reasoning: 1, ..Usage::default() };
    assert_eq!(ended(&[done]).unwrap().usage, usage);
    let mut cancelled = finished();
    cancelled["outcome"] = json!({ "type": "cancelled" });
    assert_eq!(ended(&[cancelled]).unwrap().state, TaskState::Canceled);
    let error = json!({ "type": "RUN_ERROR", "message": "no such invoice", "code": "x" });
    let failed = ended(&[text("1", "Let me look."), error]).unwrap();
    assert_eq!((failed.state, &*failed.text), (TaskState::Failed, "no such invoice"));
}

/// A call that waits for approval, and a question.
fn interrupted() -> Value {
    let mut waits = finished();
    waits["outcome"] = json!({ "type": "interrupt", "interrupts": [
        { "id": "i1", "reason": "tool_call", "message": "Allow it?", "toolCallId": "c1" },
        { "id": "i2", "reason": "input_required", "message": "Which account?",
          "responseSchema": { "type": "integer" } },
    ]});
    waits
}

fn call(id: &str) -> [Value; 2] {
    [
        json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "pay" }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": "{\"invoice\":7}" }),
    ]
}

#[test]
fn a_question_about_a_call_shows_the_call_and_takes_only_yes_or_no() {
    let [start, arguments] = call("c1");
    let ended = ended(&[start, arguments, interrupted()]).unwrap();
    let question = |id: &str, question: &str, schema: Value, is_approval| Interrupt {
        id: id.to_owned(),
        question: question.to_owned(),
        schema,
        is_approval,
    };
    let yes_or_no = json!({ "type": "string", "enum": ["approve", "deny"] });
    let expect = [
        question("i1", "Allow it?\npay {\"invoice\":7}", yes_or_no, true),
        question("i2", "Which account?", json!({ "type": "integer" }), false),
    ];
    assert_eq!((ended.state, &*ended.interrupts), (TaskState::InputRequired, &expect[..]));
}

/// A request as a remote agent receives it.
struct Received {
    head: String,
    body: Value,
}

/// A remote agent that answers each request with the next of these events. The last response never ends, if there are
/// none.
async fn serving(replies: Vec<(u16, Option<Vec<Value>>)>) -> (String, Arc<Mutex<Vec<Received>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/run", listener.local_addr().unwrap());
    let received = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&received);
    tokio::spawn(async move {
        for (status, events) in replies {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read(&mut stream).await;
            seen.lock().unwrap().push(request);
            let kind = if status == 200 { "text/event-stream" } else { "application/problem+json" };
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            for event in events.iter().flatten() {
                let event =
                    if status == 200 { format!("data: {event}\n\n") } else { event.to_string() };
                stream.write_all(event.as_bytes()).await.unwrap();
            }
            if events.is_none() {
                stream.read_u8().await.ok();
            }
        }
    });
    (url, received)
}

async fn read(stream: &mut TcpStream) -> Received {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|it| it.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    Received { head, body: serde_json::from_slice(&body).unwrap() }
}

fn caller(url: &str) -> AgentLoop {
    let agent = RemoteAgent::new("billing", "Knows all invoices.", url).unwrap();
    let agent = agent.with_protocol(RemoteProtocol::AgUi).with_private_addresses();
    caller_of(agent.with_token(Secret::new("a-token")), RemoteAgentPolicy::default())
}

fn caller_of(agent: RemoteAgent, policy: RemoteAgentPolicy) -> AgentLoop {
    let ask = json!({ "agent": "billing", "message": "Pay it.", "context": "t1" });
    let ask = ScenarioStep::tool_call("ask_remote_agent", ask);
    AgentBuilder::base()
        .with(UseLlmConfig::model(FakeModel::script([ask, "done".into()])))
        .with(UseRemoteAgent::new([agent]).with_policy(policy))
        .build()
        .unwrap()
}

async fn result(agent: &AgentLoop, options: RunOptions) -> String {
    let state = AgentState::new().with_user_message("go");
    let done = agent.start(state, options).finish().await;
    tool_results(&done).remove(0)
}

#[tokio::test]
async fn a_message_is_one_request_and_the_thread_continues() {
    let (url, received) = serving(vec![(200, Some(vec![text("1", "Paid."), finished()]))]).await;
    let result = result(&caller(&url), RunOptions::default()).await;
    assert_eq!(result, "[Remote agent: billing] Paid.\n[context: t1]");
    let received = received.lock().unwrap();
    let Received { head, body } = &received[0];
    assert!(head.starts_with("post /run http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer a-token\r\n"), "{head}");
    let id = body["runId"].as_str().unwrap();
    assert_eq!(
        *body,
        json!({
            "threadId": "t1", "runId": id, "protocolVersion": "1.0", "state": {}, "tools": [],
            "context": [],
            "messages": [{ "id": id, "role": "user", "content": "Pay it." }], "forwardedProps": {},
        })
    );
}

#[tokio::test]
async fn all_questions_of_a_run_wait_at_the_root_and_one_run_takes_all_answers() {
    let [start, arguments] = call("c1");
    let waits = vec![start, arguments, interrupted()];
    let (url, received) =
        serving(vec![(200, Some(waits)), (200, Some(vec![text("2", "Paid."), finished()]))]).await;
    let agent = caller(&url);
    let mut state = agent.execute(AgentState::new().with_user_message("go")).await;
    assert_eq!(state.status(), &ExecutionStatus::Paused);
    let asked: Vec<_> =
        state.pending().iter().map(|it| (it.address(), it.question.text.clone())).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].1, "Allow it?\npay {\"invoice\":7}");
    assert_eq!(asked[1].1, "Which account?");
    let yes = || ApprovalDecision::Reply("yes".into());
    assert!(agent.decide(&state, &asked[0].0, yes()).is_err());
    state = agent.decide(&state, &asked[0].0, ApprovalDecision::Reply("approve".into())).unwrap();
    state = agent.decide(&state, &asked[1].0, ApprovalDecision::Reply(2.into())).unwrap();
    let done = agent.execute(state).await;
    assert_eq!(tool_results(&done), ["[Remote agent: billing] Paid.\n[context: t1]"]);
    let received = received.lock().unwrap();
    let (first, second) = (&received[0].body, &received[1].body);
    assert_eq!(
        second["resume"],
        json!([
            { "interruptId": "i1", "status": "resolved", "payload": { "approved": true } },
            { "interruptId": "i2", "status": "resolved", "payload": 2 },
        ])
    );
    assert_eq!((&second["threadId"], &second["messages"]), (&json!("t1"), &first["messages"]));
    assert_ne!(second["runId"], first["runId"]);
}

#[tokio::test]
async fn a_question_that_is_declined_is_cancelled_and_the_run_continues() {
    let mut waits = finished();
    waits["outcome"] =
        json!({ "type": "interrupt", "interrupts": [{ "id": "i1", "reason": "confirmation" }] });
    let (url, received) = serving(vec![
        (200, Some(vec![waits])),
        (200, Some(vec![text("2", "Not paid."), finished()])),
    ])
    .await;
    let agent = caller(&url);
    let paused = agent.execute(AgentState::new().with_user_message("go")).await;
    let asked = paused.pending()[0];
    assert_eq!(asked.question.text, "The remote agent needs input.");
    let deny = ApprovalDecision::Deny { reason: "no".to_owned() };
    let state = agent.decide(&paused, &asked.address(), deny).unwrap();
    let done = agent.execute(state).await;
    assert_eq!(tool_results(&done), ["[Remote agent: billing] Not paid.\n[context: t1]"]);
    let resume = json!([{ "interruptId": "i1", "status": "cancelled" }]);
    assert_eq!(received.lock().unwrap()[1].body["resume"], resume);
}

#[tokio::test]
async fn what_goes_wrong_is_an_error_that_the_model_reads() {
    let check = async |status, events: Vec<Value>, expect: &str| {
        let (url, received) = serving(vec![(status, Some(events))]).await;
        let result = result(&caller(&url), RunOptions::default()).await;
        assert!(result.contains(expect), "{result}");
        assert_eq!(received.lock().unwrap().len(), 1);
    };
    let error = json!({ "type": "RUN_ERROR", "message": "no such invoice" });
    check(200, vec![error], "TASK_STATE_FAILED: no such invoice").await;
    check(
        200,
        vec![text("1", "Pa")],
        "the stream ended before the run did; the message may have arrived",
    )
    .await;
    check(200, vec![json!({ "type": 1 })], "the response cannot be read").await;
    check(401, vec![], "status 401; the user may have to check the agent's token").await;
    let problem = json!({ "detail": "the thread is unknown" });
    check(422, vec![problem], "the agent rejected the request: the thread is unknown").await;
    check(503, vec![], "status 503; the message may have arrived").await;
    let long = text("1", &"x".repeat((2 << 20) + 1));
    check(200, vec![long], "longer than 2097152 bytes").await;
}

#[tokio::test]
async fn a_run_that_is_cancelled_or_late_may_continue() {
    let (url, _received) = serving(vec![(200, None)]).await;
    let agent = RemoteAgent::new("billing", "", &url).unwrap();
    let agent = agent.with_protocol(RemoteProtocol::AgUi).with_private_addresses();
    let policy =
        RemoteAgentPolicy { timeout: Duration::from_millis(50), ..RemoteAgentPolicy::default() };
    let late = result(&caller_of(agent, policy), RunOptions::default()).await;
    assert!(late.contains("the run took longer than 0 s and may still continue"), "{late}");
    let (url, received) = serving(vec![(200, None)]).await;
    let (agent, cancel) = (caller(&url), CancellationToken::new());
    let options = RunOptions {
        cancel: cancel.clone(),
        grace: Duration::from_mins(1),
        ..RunOptions::default()
    };
    let run = agent.start(AgentState::new().with_user_message("go"), options).finish();
    let cancels = async {
        while received.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        cancel.cancel();
    };
    let (state, ()) = tokio::join!(run, cancels);
    assert_eq!(state.status().as_str(), "stopped");
}

#[tokio::test]
async fn private_addresses_are_reached_only_if_they_are_allowed() {
    let (url, received) = serving(vec![(200, Some(vec![finished()]))]).await;
    let agent = RemoteAgent::new("billing", "", &url).unwrap();
    let agent = agent.with_protocol(RemoteProtocol::AgUi);
    let caller = caller_of(agent, RemoteAgentPolicy::default());
    let result = result(&caller, RunOptions::default()).await;
    assert!(result.contains("private addresses are not allowed"), "{result}");
    assert_eq!(received.lock().unwrap().len(), 0);
}
