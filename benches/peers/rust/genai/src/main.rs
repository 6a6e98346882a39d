//! A loop over the client of genai, which has no agents: every request is made from a clone of the
//! conversation, because the client takes it by value.

use std::sync::{Arc, OnceLock};

use futures::StreamExt as _;
use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{
        ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, MessageContent, Tool, ToolResponse,
    },
    resolver::{AuthData, Endpoint, ServiceTargetResolver},
};
use peer_work::{DESCRIPTION, Done, Failure, SYSTEM, TOOL, Work, drive, schema};

static CLIENT: OnceLock<Client> = OnceLock::new();

fn main() -> Result<(), Failure> {
    drive(run)
}

async fn run(work: Arc<Work>) -> Result<Done, Failure> {
    let client = client(&work)?;
    let tool = Tool::new(TOOL).with_description(DESCRIPTION).with_schema(schema());
    let mut request = ChatRequest::new(vec![ChatMessage::user(work.prompt())])
        .with_system(SYSTEM)
        .with_tools(vec![tool]);
    let mut calls = 0;
    loop {
        let content = ask(client, request.clone(), work.streams).await?;
        let called: Vec<_> = content.tool_calls().into_iter().cloned().collect();
        if called.is_empty() {
            return Ok(Done { text: content.first_text().unwrap_or_default().to_owned(), calls });
        }
        request = request.append_message(ChatMessage::assistant(content));
        for call in called {
            let argument = |name: &str| call.fn_arguments[name].as_i64().ok_or("no number");
            let sum = work.sum(argument("a")?, argument("b")?);
            calls += 1;
            request = request.append_message(ToolResponse::new(call.call_id, sum));
        }
    }
}

fn client(work: &Work) -> Result<&'static Client, Failure> {
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    let base_url = format!("{}/", work.base_url);
    let resolver = ServiceTargetResolver::from_resolver_fn(
        move |target: ServiceTarget| -> Result<ServiceTarget, genai::resolver::Error> {
            Ok(ServiceTarget {
                endpoint: Endpoint::from_owned(base_url.clone()),
                auth: AuthData::from_single("sk-mock"),
                model: ModelIden::new(AdapterKind::OpenAI, target.model.model_name),
            })
        },
    );
    let client = Client::builder().with_service_target_resolver(resolver).build()?;
    Ok(CLIENT.get_or_init(|| client))
}

async fn ask(
    client: &Client,
    request: ChatRequest,
    streams: bool,
) -> Result<MessageContent, Failure> {
    let options = ChatOptions::default().with_capture_tool_calls(true).with_capture_content(true);
    if !streams {
        return Ok(client.exec_chat("mock", request, Some(&options)).await?.content);
    }
    let mut stream = client.exec_chat_stream("mock", request, Some(&options)).await?.stream;
    let mut content = None;
    while let Some(event) = stream.next().await {
        if let ChatStreamEvent::End(end) = event? {
            content = end.captured_content;
        }
    }
    Ok(content.ok_or("a stream without an end")?)
}
