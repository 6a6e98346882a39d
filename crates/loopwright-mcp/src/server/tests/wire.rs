//! A server of tools, line by line, in both revisions.

use futures_util::{StreamExt as _, stream::BoxStream};
use loopwright_core::AnyTool;
use loopwright_core::messages::{Content, Media, MediaSource, Part, ToolSpec};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;

use super::*;
use crate::event::{McpLogLevel, McpProgress, McpToolLog};

/// A client that writes what it is told to.
struct Wire {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
    last_id: u64,
}

impl Wire {
    fn new(server: ToolServer) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(far);
        tokio::spawn(server.serve(input, output));
        let (input, output) = tokio::io::split(near);
        Self { input: BufReader::new(input), output, last_id: 0 }
    }

    /// A client of the revision with a handshake.
    async fn of_2025(server: ToolServer, capabilities: Value) -> Self {
        let mut wire = Self::new(server);
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let (started, _) = wire.ask("initialize", params, &[]).await;
        assert_eq!(started["result"]["protocolVersion"], "2025-11-25", "{started}");
        wire.write(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        wire
    }

    async fn write(&mut self, message: Value) {
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let mut line = String::new();
        self.input.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request, and replies to those of the server. Returns the response, and what came before it.
    async fn ask(
        &mut self,
        method: &str,
        params: Value,
        replies: &[(&str, Value)],
    ) -> (Value, Vec<Value>) {
        self.last_id += 1;
        let id = self.last_id;
        self.write(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let mut before = Vec::new();
        loop {
            let message = self.read().await;
            if message["id"] == id && message.get("method").is_none() {
                return (message, before);
            }
            if message.get("id").is_some() {
                let reply = replies.iter().find(|(method, _)| message["method"] == *method);
                let reply = reply.map(|(_, it)| it.clone()).unwrap();
                self.write(json!({"jsonrpc": "2.0", "id": message["id"], "result": reply})).await;
            }
            before.push(message);
        }
    }

    /// Sends a request of the revision without a handshake.
    async fn ask_2026(
        &mut self,
        method: &str,
        params: Value,
        capabilities: Value,
    ) -> (Value, Vec<Value>) {
        let mut params = params;
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({"name": "test", "version": "1"});
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        self.ask(method, params, &[]).await
    }
}

type Body = fn(&ToolCx<'_>) -> Result<ToolOutput, ToolError>;

struct Plain(Body);

#[async_trait]
impl ToolHandler for Plain {
    async fn call(&self, _: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        (self.0)(cx)
    }
}

fn served(body: Body) -> ToolServer {
    let parameters = Arc::new(json!({"type": "object"}));
    let spec = ToolSpec { name: "it".into(), description: "Does it.".into(), parameters };
    let tool = AnyTool::dynamic(spec, ToolOptions::default(), Arc::new(Plain(body)));
    ToolServer::new(ToolSet::new().with(tool))
}

/// A tool that asks for a name, a text of a model, and directories.
fn curious() -> ToolServer {
    served(|cx| {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let requests = ClientRequests::new()
            .with_question("who", "Who?", schema)
            .with_sampling("greeting", "Greet!", 10)
            .with_roots("where");
        let replies = ClientReplies::of(cx).ok_or_else(|| requests.to_pause())?;
        let name = replies.accepted("who").map(|it| it["name"].clone());
        let (greeting, roots) = (replies.sampled("greeting"), replies.roots("where"));
        Ok(ToolOutput::text(format!("{name:?} {greeting:?} {roots:?}")))
    })
}

fn replies() -> [(&'static str, Value); 3] {
    let text = json!({"type": "text", "text": "Hi"});
    [
        ("elicitation/create", json!({"action": "accept", "content": {"name": "Ada"}})),
        ("sampling/createMessage", json!({"role": "assistant", "content": text, "model": "m"})),
        ("roots/list", json!({"roots": [{"uri": "file:///here"}]})),
    ]
}

const ALL: &str = r#"Some(String("Ada")) Some("Hi") Some(["file:///here"])"#;

fn everything() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

fn text_of(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

#[tokio::test]
async fn a_tool_asks_a_client_with_a_handshake_while_it_runs() {
    let mut wire = Wire::of_2025(curious(), everything()).await;
    let (called, asked) = wire.ask("tools/call", json!({"name": "it"}), &replies()).await;
    assert_eq!((text_of(&called), asked.len()), (ALL, 3), "{asked:?}");
    let mut wire = Wire::of_2025(curious(), json!({"roots": {}})).await;
    let (called, asked) = wire.ask("tools/call", json!({"name": "it"}), &replies()).await;
    assert_eq!(text_of(&called), r#"None None Some(["file:///here"])"#);
    assert_eq!(asked.len(), 1, "{asked:?}");
}

#[tokio::test]
async fn a_client_without_a_handshake_calls_again_with_its_replies() {
    let mut wire = Wire::new(curious());
    let call = json!({"name": "it", "arguments": {}});
    let (asked, _) = wire.ask_2026("tools/call", call.clone(), everything()).await;
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let methods: Vec<&str> = ["who", "greeting", "where"]
        .map(|key| asked["inputRequests"][key]["method"].as_str().unwrap())
        .to_vec();
    assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);
    let [who, greeting, directories] = replies().map(|(_, it)| it);
    // What is missing or does not fit is asked again, and what was answered is kept.
    let mut again = call.clone();
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({"who": {"action": "accept", "content": {"name": 7}}, "greeting": greeting, "more": 1});
    let (asked, _) = wire.ask_2026("tools/call", again.clone(), everything()).await;
    let keys: Vec<&String> = asked["result"]["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["where", "who"], "{asked}");
    again["requestState"] = asked["result"]["requestState"].clone();
    again["inputResponses"] = json!({"who": who, "where": directories});
    let mut changed = again.clone();
    changed["requestState"] = json!(format!("{}x", again["requestState"].as_str().unwrap()));
    let (refused, _) = wire.ask_2026("tools/call", changed, everything()).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let (called, _) = wire.ask_2026("tools/call", again.clone(), everything()).await;
    assert_eq!(text_of(&called), ALL);
    let (repeated, _) = wire.ask_2026("tools/call", again, everything()).await;
    assert!(
        repeated["error"]["message"].as_str().unwrap().contains("no call is waiting"),
        "{repeated}"
    );
}

#[tokio::test]
async fn a_call_that_waits_is_not_continued_as_a_call_of_another_tool() {
    let tools = dice();
    let mut wire = Wire::new(ToolServer::from_agent(&curious().agent.with_tools(
        curious().agent.tools().iter().cloned().chain(tools.iter().cloned()).collect(),
    )));
    let (asked, _) = wire.ask_2026("tools/call", json!({"name": "it"}), everything()).await;
    let state = asked["result"]["requestState"].clone();
    let other = json!({"name": "roll_dice", "requestState": state, "inputResponses": {}});
    let (refused, _) = wire.ask_2026("tools/call", other, everything()).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn a_client_that_can_answer_nothing_hears_what_it_lacks() {
    let mut wire = Wire::new(curious());
    let (refused, _) = wire.ask_2026("tools/call", json!({"name": "it"}), json!({})).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    let needed = &refused["error"]["data"]["requiredCapabilities"];
    assert!(needed["sampling"].is_object() && needed["roots"].is_object(), "{refused}");
}

fn reporting() -> ToolServer {
    served(|cx| {
        for number in 0..50 {
            cx.events
                .emit(|| McpProgress::new("it", f64::from(number), "working").with_total(50.0));
        }
        cx.events.emit(|| McpToolLog::new(McpLogLevel::Debug, "detail"));
        cx.events.emit(|| McpToolLog::new(McpLogLevel::Error, "trouble").with_logger("it"));
        Ok(ToolOutput::text("done"))
    })
}

#[tokio::test]
async fn all_reports_of_a_call_arrive_before_its_result() {
    let mut wire = Wire::new(reporting());
    let call = json!({"name": "it", "_meta": {
        "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug",
    }});
    let (called, told) = wire.ask_2026("tools/call", call, json!({})).await;
    assert_eq!((text_of(&called), told.len()), ("done", 52));
    assert_eq!(
        told[49]["params"],
        json!({
            "progressToken": "p", "progress": 49.0, "total": 50.0, "message": "working",
        })
    );
    assert_eq!(told[51]["method"], "notifications/message");
    assert_eq!(told[51]["params"], json!({"level": "error", "logger": "it", "data": "trouble"}));
}

#[tokio::test]
async fn a_client_gets_the_log_messages_that_it_asks_for() {
    let levels = |told: &[Value]| -> Vec<String> {
        told.iter().map(|it| it["params"]["level"].as_str().unwrap().to_owned()).collect()
    };
    let mut wire = Wire::new(reporting());
    let (_, told) = wire.ask_2026("tools/call", json!({"name": "it"}), json!({})).await;
    assert_eq!(told, [Value::Null; 0]);
    let mut wire = Wire::of_2025(reporting(), json!({})).await;
    let (_, told) = wire.ask("tools/call", json!({"name": "it"}), &[]).await;
    assert_eq!(levels(&told), ["error"]);
    wire.ask("logging/setLevel", json!({"level": "debug"}), &[]).await;
    let (_, told) = wire.ask("tools/call", json!({"name": "it"}), &[]).await;
    assert_eq!(levels(&told), ["debug", "error"]);
    wire.ask("logging/setLevel", json!({"level": "emergency"}), &[]).await;
    let (_, told) = wire.ask("tools/call", json!({"name": "it"}), &[]).await;
    assert_eq!(told, [Value::Null; 0]);
}

#[tokio::test]
async fn documents_are_audio_or_embedded_resources() {
    let server = served(|_| {
        let document = |mime: &str, base64: &str, name: &str| {
            let source = MediaSource::Base64(base64.into());
            Part::new(Content::Document(Media {
                mime: mime.into(),
                source,
                name: Some(name.into()),
            }))
        };
        Ok(ToolOutput::from_parts(vec![
            document("audio/wav", "AAAA", "sound"),
            document("text/plain", "aGk=", "notes://1"),
            document("application/pdf", "aGk=", "a.pdf"),
        ]))
    });
    let mut wire = Wire::of_2025(server, json!({})).await;
    let (called, _) = wire.ask("tools/call", json!({"name": "it"}), &[]).await;
    assert_eq!(
        called["result"]["content"],
        json!([
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "notes://1", "mimeType": "text/plain", "text": "hi"}},
            {"type": "resource", "resource": {"uri": "attachment:a.pdf", "mimeType": "application/pdf", "blob": "aGk="}},
        ])
    );
}

/// A resource that changes when it is told to.
struct Changing(Mutex<Option<mpsc::UnboundedReceiver<()>>>);

#[async_trait]
impl ServedContent for Changing {
    async fn watch(&self, uri: &str) -> Option<BoxStream<'static, ()>> {
        let receiver = self.0.lock().unwrap().take().filter(|_| uri == "notes://1")?;
        let changes = futures_util::stream::unfold(receiver, async |mut receiver| {
            receiver.recv().await.map(|()| ((), receiver))
        });
        Some(changes.boxed())
    }

    async fn complete(&self, completion: &Completion) -> Result<Vec<String>, BoxError> {
        let many = (0..150).map(|it| format!("{}{it}", completion.value));
        Ok(many.collect())
    }
}

fn changing() -> (ToolServer, mpsc::UnboundedSender<()>, ServerChanges) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (content, changes) = (Changing(Mutex::new(Some(receiver))), ServerChanges::new());
    (
        ToolServer::new(dice()).with_content(Arc::new(content)).with_changes(&changes),
        sender,
        changes,
    )
}

#[tokio::test]
async fn a_client_with_a_handshake_hears_of_changes_until_it_unsubscribes() {
    let (server, sender, changes) = changing();
    let mut wire = Wire::of_2025(server, json!({})).await;
    wire.ask("resources/subscribe", json!({"uri": "notes://1"}), &[]).await;
    sender.send(()).unwrap();
    let told = wire.read().await;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"], json!({"uri": "notes://1"}));
    changes.tools();
    assert_eq!(wire.read().await["method"], "notifications/tools/list_changed");
    wire.ask("resources/unsubscribe", json!({"uri": "notes://1"}), &[]).await;
    // The stream of changes is dropped.
    sender.closed().await;
    let (unknown, _) = wire.ask("resources/subscribe", json!({"uri": "notes://2"}), &[]).await;
    assert!(
        unknown["error"]["message"].as_str().unwrap().contains("unknown resource"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_client_without_a_handshake_listens_to_what_it_names() {
    let (server, sender, changes) = changing();
    let mut wire = Wire::new(server);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let wanted = json!({"resourceSubscriptions": ["notes://1"], "promptsListChanged": true});
    let params = json!({"_meta": meta, "notifications": wanted});
    wire.write(
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}),
    )
    .await;
    assert_eq!(wire.read().await["method"], "notifications/subscriptions/acknowledged");
    sender.send(()).unwrap();
    assert_eq!(wire.read().await["method"], "notifications/resources/updated");
    changes.tools();
    changes.prompts();
    assert_eq!(wire.read().await["method"], "notifications/prompts/list_changed");
    wire.write(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "_meta": meta}})).await;
    sender.closed().await;
}

#[tokio::test]
async fn a_completion_has_at_most_a_hundred_values() {
    let (server, _changed, _changes) = changing();
    let mut wire = Wire::of_2025(server, json!({})).await;
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "file", "value": "a"},
    });
    let (completed, _) = wire.ask("completion/complete", params, &[]).await;
    let completion = &completed["result"]["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&completion["values"][7], &completion["total"], &completion["hasMore"]),
        (&json!("a7"), &json!(150), &json!(true))
    );
}
