use std::sync::Mutex;

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, UseHook, UseTools};
use loopwright_core::{
    AgentState, ApprovalRequest, BoxError, Hook, HookCx, HookPoint, HookPoints, NoArgs, ToolCx,
    ToolDecision, ToolError, ToolHandler, ToolOptions, ToolOutput,
    messages::{Message, ToolCall},
    tool_fn,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorData, GetPromptRequestParams, Implementation,
    ReadResourceRequestParams,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::{ClientHandler, RoleClient, ServiceExt as _};
use serde_json::{Value, json};

use super::*;

#[cfg(feature = "http-server")]
mod over_http;
mod wire;

/// A client whose user answers like this; without an answer, it cannot ask.
#[derive(Clone, Default)]
struct User {
    answer: Option<Value>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let capabilities = match self.answer {
            Some(_) => ClientCapabilities::builder().enable_elicitation().build(),
            None => ClientCapabilities::default(),
        };
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::FormElicitationParams { message, .. } = request {
            self.asked.lock().unwrap().push(message);
        }
        let mut result = ElicitResult::new(ElicitationAction::Accept);
        result.content.clone_from(&self.answer);
        Ok(result)
    }
}

async fn connected(server: ToolServer, user: User) -> RunningService<RoleClient, User> {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(far);
    tokio::spawn(server.serve(input, output));
    user.serve(near).await.unwrap()
}

fn dice() -> ToolSet {
    let roll = |_: NoArgs| async { Ok::<_, BoxError>(json!({"eyes": 4})) };
    let fall = |_: NoArgs| async { Err::<Value, BoxError>("it fell off the table".into()) };
    ToolSet::new().with(tool_fn("roll_dice", "Rolls a die.", roll)).with(tool_fn(
        "drop_dice",
        "Drops a die.",
        fall,
    ))
}

async fn call(client: &RunningService<RoleClient, User>, tool: &'static str) -> CallToolResult {
    client.call_tool(CallToolRequestParams::new(tool)).await.unwrap()
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|it| it.as_text()).map(|it| it.text.clone()).collect()
}

#[tokio::test]
async fn a_client_lists_and_calls_tools() {
    let client = connected(ToolServer::new(dice()), User::default()).await;
    let tools = client.list_all_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["roll_dice", "drop_dice"]);
    assert_eq!(tools[0].input_schema["type"], "object");
    let rolled = call(&client, "roll_dice").await;
    assert_eq!((rolled.is_error, text(&rolled).as_str()), (Some(false), r#"{"eyes":4}"#));
    assert_eq!(rolled.structured_content, Some(json!({"eyes": 4})));
    let dropped = call(&client, "drop_dice").await;
    assert_eq!(dropped.is_error, Some(true));
    assert!(text(&dropped).contains("it fell off the table"), "{dropped:?}");
    let unknown = client.call_tool(CallToolRequestParams::new("steal_dice")).await;
    assert!(unknown.unwrap_err().to_string().contains("unknown tool `steal_dice`"));
}

/// Asks before every call.
struct AskFirst;

#[async_trait]
impl Hook for AskFirst {
    fn points(&self) -> HookPoints {
        HookPoint::BeforeTool.into()
    }

    async fn before_tool(
        &self,
        _: &ToolCall,
        _: &AgentState,
        _: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        let text = "May it roll?".to_owned();
        Ok(ToolDecision::Ask(ApprovalRequest::new(text, "test")))
    }
}

fn asking() -> ToolServer {
    let agent = AgentBuilder::base()
        .with_capability(UseTools::from(dice()))
        .with_capability(UseHook::new(AskFirst))
        .with_capability(loopwright_agent::UseDriver::new(super::driver::IdleDriver))
        .build();
    ToolServer::from_agent(&agent.unwrap())
}

#[tokio::test]
async fn a_hooks_approval_request_reaches_the_user() {
    let asked = |allow: Value| async {
        let user = User { answer: Some(allow), ..User::default() };
        let client = connected(asking(), user.clone()).await;
        let result = call(&client, "roll_dice").await;
        let questions = user.asked.lock().unwrap().clone();
        assert!(questions.len() == 1 && questions[0].contains("May it roll?"), "{questions:?}");
        result
    };
    assert_eq!(text(&asked(json!({"allow": true})).await), r#"{"eyes":4}"#);
    for refusal in [json!({"allow": false}), json!({}), json!({"allow": "true"})] {
        let refused = asked(refusal).await;
        assert_eq!(refused.is_error, Some(true));
        assert!(text(&refused).contains("the user denied the call"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_request_without_a_client_that_can_answer_is_refused() {
    let client = connected(asking(), User::default()).await;
    let refused = call(&client, "roll_dice").await;
    assert_eq!(refused.is_error, Some(true));
    assert!(text(&refused).contains("this client cannot ask its user"), "{refused:?}");
}

/// Waits until its call is cancelled, and says so.
struct Patient(Arc<tokio::sync::Notify>, Arc<tokio::sync::Notify>);

#[async_trait]
impl ToolHandler for Patient {
    async fn call(&self, _: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        self.0.notify_one();
        cx.cancel.cancelled().await;
        self.1.notify_one();
        Ok(ToolOutput::text("late"))
    }
}

#[tokio::test]
async fn a_call_that_the_client_cancels_ends() {
    let (begun, ended) = (Arc::default(), Arc::default());
    let spec = loopwright_core::messages::ToolSpec {
        name: "wait".into(),
        description: "Waits.".into(),
        parameters: Arc::new(json!({"type": "object"})),
    };
    let handler = Patient(Arc::clone(&begun), Arc::clone(&ended));
    let tool = loopwright_core::AnyTool::dynamic(spec, ToolOptions::default(), Arc::new(handler));
    let client = connected(ToolServer::new(ToolSet::new().with(tool)), User::default()).await;
    let request = rmcp::model::ClientRequest::CallToolRequest(rmcp::model::CallToolRequest::new(
        CallToolRequestParams::new("wait"),
    ));
    let options = rmcp::service::PeerRequestOptions::no_options();
    let handle = client.send_cancellable_request(request, options).await.unwrap();
    begun.notified().await;
    handle.cancel(None).await.unwrap();
    ended.notified().await;
}

struct Library;

#[async_trait]
impl ServedContent for Library {
    async fn resources(
        &self,
        cursor: Option<String>,
    ) -> Result<(Vec<ServedResource>, Option<String>), BoxError> {
        let page = |number: &str| ServedResource {
            uri: format!("page://{number}"),
            name: number.to_owned(),
            ..ServedResource::default()
        };
        Ok(match cursor {
            None => (vec![page("1")], Some("second".to_owned())),
            Some(_) => (vec![page("2")], None),
        })
    }

    async fn read(&self, uri: &str) -> Result<Option<ResourceBody>, BoxError> {
        let page = |it| ResourceBody::text("text/plain", format!("page {it}"));
        Ok(uri.strip_prefix("page://").map(page))
    }

    async fn prompts(&self) -> Result<Vec<ServedPrompt>, BoxError> {
        let description = "Reviews something.".to_owned();
        let name = "review".to_owned();
        let file = ServedArgument { name: "file".to_owned(), ..ServedArgument::default() };
        Ok(vec![ServedPrompt { name, description, arguments: vec![file] }])
    }

    async fn prompt(&self, call: &PromptCall) -> Result<Option<PromptReply>, BoxError> {
        let text = format!("Review {}.", call.argument("file"));
        Ok((call.name == "review").then(|| PromptReply::Messages(vec![Message::user(text)])))
    }
}

#[tokio::test]
async fn resources_and_prompts_are_served() {
    let server = ToolServer::new(dice()).with_content(Arc::new(Library));
    let client = connected(server, User::default()).await;
    let resources = client.list_all_resources().await.unwrap();
    let uris: Vec<&str> = resources.iter().map(|it| it.uri.as_str()).collect();
    assert_eq!(uris, ["page://1", "page://2"]);
    let read = client.read_resource(ReadResourceRequestParams::new("page://2")).await.unwrap();
    assert!(serde_json::to_string(&read).unwrap().contains("page 2"));
    assert!(client.read_resource(ReadResourceRequestParams::new("file:///a")).await.is_err());
    let prompts = client.list_all_prompts().await.unwrap();
    assert_eq!(prompts[0].name, "review");
    let arguments = json!({"file": "a.rs"}).as_object().cloned().unwrap();
    let asked = GetPromptRequestParams::new("review").with_arguments(arguments);
    let prompt = client.get_prompt(asked).await.unwrap();
    assert!(serde_json::to_string(&prompt).unwrap().contains("Review a.rs."));
    assert!(client.get_prompt(GetPromptRequestParams::new("none")).await.is_err());
}
