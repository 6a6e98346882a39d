//! Servers that behave.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::{AgentState, ApprovalDecision, ToolSource as _, ToolSources};
use loopwright_mcp::{
    McpClient, McpProgress, McpServerConnected, McpToolSource, ServerHealth, ServerNetwork,
    StdioServer,
};
use loopwright_testing::tool_source::{CASES, SourceUnderTest};
use loopwright_testing::{FakeModel, ModelDriver, ScenarioStep, test_loop};
use serde_json::json;

use crate::world::{World, call, results};

#[tokio::test(flavor = "multi_thread")]
async fn a_model_calls_a_tool_of_a_server() {
    let world = World::new();
    let client = world.client("");
    assert_eq!(client.status().health, ServerHealth::Idle);
    let (told, events) = call(&client, "mcp__fake__echo", json!({ "text": "hello" })).await;
    assert_eq!(told, "hello");
    let status = client.status();
    assert_eq!((status.health, status.starts), (ServerHealth::Connected, 1));
    let info = status.info.unwrap();
    assert_eq!(info.protocol, "2025-11-25");
    assert_eq!(info.implementation.as_deref(), Some("fake 1\\u{1b}[31m"));
    let connected = events.events_of::<McpServerConnected>();
    assert_eq!((connected.len(), connected[0].is_confined), (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_an_event_and_keeps_a_call_alive() {
    let world = World::new();
    let client = world.client("progress_flood");
    let (told, events) = call(&client, "mcp__fake__echo", json!({})).await;
    assert_eq!(told, "done");
    let progress = events.events_of::<McpProgress>();
    assert_eq!(progress[0].message.as_deref(), Some("working"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_server_sees_no_variables_and_writes_only_in_its_folder() {
    let world = World::new();
    let mut server = World::server("");
    let stdio = StdioServer::new(crate::world::SERVER).with_env("API_KEY", "${HIDDEN:-secret}");
    server.transport = loopwright_mcp::McpServer::stdio("fake", stdio).transport;
    let client = McpClient::new(server, world.host());
    let (names, _) = call(&client, "mcp__fake__env", json!({})).await;
    let names: Vec<&str> = names.split(' ').collect();
    assert!(names.contains(&"API_KEY") && names.contains(&"PATH"), "{names:?}");
    assert!(!names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
    let inside = world.folder.path().join("file");
    assert_eq!(call(&client, "mcp__fake__write", json!({ "text": inside })).await.0, "Ok(())");
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let outside = outside.path().join("file");
    call(&client, "mcp__fake__write", json!({ "text": outside })).await;
    assert!(!outside.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_server_reaches_the_hosts_of_its_configuration_and_no_others() {
    let world = World::new();
    let (granted, other) = (one_answer("welcome"), one_answer("LEAKED"));
    let host = format!("granted.test:{granted}@127.0.0.1").parse().unwrap();
    let mut server = World::server("network");
    server.sandbox = server.sandbox.with_network(ServerNetwork::Hosts(vec![host]));
    let client = McpClient::new(server, world.host());
    let fetch = async |address: String| {
        call(&client, "mcp__fake__fetch", json!({ "text": address })).await.0
    };
    let welcome = fetch(format!("http://granted.test:{granted}/")).await;
    assert!(welcome.ends_with("welcome"), "{welcome}");
    let refused = fetch(format!("http://127.0.0.1:{other}/")).await;
    assert!(refused.starts_with("Error: HTTP/1.1 403") && !refused.contains("LEAKED"), "{refused}");
    let refused = fetch(format!("http://other.test:{other}/")).await;
    assert!(refused.starts_with("Error: HTTP/1.1 403") && !refused.contains("LEAKED"), "{refused}");
    let note = "[the server's sandbox refused other.test; the user can allow hosts with the server's `network` key]";
    assert!(refused.ends_with(note), "{refused}");
    assert!(
        client
            .log()
            .to_lines()
            .iter()
            .any(|it| it.starts_with("[the sandbox refused other.test: "))
    );
}

/// A server of the host that answers one request, and its port.
fn one_answer(text: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        let length = text.len();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}").unwrap();
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_server_waits_until_it_is_answered_by_another_process() {
    let world = World::new();
    let model = FakeModel::script([
        ScenarioStep::tool_call("mcp__fake__echo", json!({ "text": "hello" })),
        "done".into(),
    ]);
    let agent = || {
        let mut sources = ToolSources::default();
        let source = McpToolSource::new(world.client("stateless"));
        sources.add_with_wait(Arc::new(source), Duration::from_mins(1));
        test_loop(ModelDriver::new(model.clone())).with(|parts| parts.sources = sources)
    };
    let state = agent().execute(AgentState::new().with_user_message("go")).await;
    let stored = serde_json::to_string(&state).unwrap();
    let state: AgentState = serde_json::from_str(&stored).unwrap();
    let pending: Vec<(u16, String)> =
        state.pending().iter().map(|it| (it.index, it.question.text.clone())).collect();
    assert_eq!(pending, [(0, "MCP server `fake` asks: Who?".to_owned())]);
    // Another agent, with another process of the server.
    let state = state.decide(0, ApprovalDecision::Reply(json!({ "name": "Ada" })));
    let state = agent().execute(state).await;
    assert_eq!(results(&state), [r#""accept" {"name":"Ada"} "opaque state""#]);
    assert!(state.pending().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_leaves_the_other_tools_out() {
    let world = World::new();
    let client = McpClient::new(World::server("").with_tools(["e*"]), world.host());
    let tools = client.tools().await.unwrap();
    let names: Vec<&str> = tools.tools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["echo", "env"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_of_a_server_keeps_the_contract_of_sources() {
    for case in CASES {
        let world = World::new();
        let client = world.client("changing");
        let source = Arc::new(McpToolSource::new(client.clone()));
        let change = move || -> futures_util::future::BoxFuture<'static, ()> {
            let client = client.clone();
            Box::pin(async move {
                // Every list of this server is another one.
                let before = client.version();
                client.refresh().await.unwrap();
                assert_ne!(client.version(), before);
            })
        };
        case.run(SourceUnderTest::new(source, change)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_at_the_same_time_share_one_start_which_survives_their_drop() {
    let world = World::new();
    let client = world.client("");
    let source = McpToolSource::new(client.clone());
    // Dropped at its first wait.
    tokio::select! {
        biased;
        _ = source.tools() => panic!("a process cannot be started at once"),
        () = std::future::ready(()) => {}
    }
    let (left, right) = tokio::join!(source.tools(), client.tools());
    assert_eq!((left.unwrap().tools.len(), right.unwrap().tools.len()), (3, 3));
    assert_eq!(client.status().starts, 1);
    drop(source);
    tokio::time::timeout(Duration::from_secs(20), client.close()).await.unwrap();
    assert!(client.tools().await.is_ok(), "the tools stay known");
    assert!(client.connect().await.unwrap_err().to_string().contains("is closed"));
}
