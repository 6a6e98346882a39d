//! The client of the official conformance suite: it connects to the server of a scenario and uses what is there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_mcp::{
    AnswerElicitations, Elicitation, ElicitationReply, HttpServer, McpClient, McpHost, McpServer,
    ProtocolChoice,
};
use serde_json::{Map, Value, json};

/// A user who agrees to everything and types nothing.
#[derive(Debug)]
struct Agreeable;

#[async_trait]
impl AnswerElicitations for Agreeable {
    async fn answer(&self, elicitation: &Elicitation) -> ElicitationReply {
        let properties = elicitation.schema.as_ref().and_then(|it| it["properties"].as_object());
        let confirmed = properties
            .into_iter()
            .flatten()
            .filter(|(_, schema)| schema["type"] == "boolean" && schema.get("default").is_none());
        let answer: Map<String, Value> =
            confirmed.map(|(name, _)| (name.clone(), json!(true))).collect();
        ElicitationReply::Accept(Value::Object(answer))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().next_back().unwrap_or_default();
    let protocol = match std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").as_deref() {
        Ok("2026-07-28") => ProtocolChoice::V2026_07_28,
        Ok(_) => ProtocolChoice::V2025_11_25,
        Err(_) => ProtocolChoice::Auto,
    };
    let server = McpServer::http("conformance", HttpServer::new(url))
        .with_protocol(protocol)
        .with_call_timeout(Duration::from_secs(20));
    let host = McpHost::in_dir(".").with_answers(Arc::new(Agreeable));
    let client = McpClient::new(server, host);
    client.connect().await?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let calls: Vec<(String, Map<String, Value>)> = match context["toolCalls"].as_array() {
        Some(calls) => calls.iter().filter_map(named).collect(),
        None => {
            let tools = client.tools().await?;
            tools.tools.iter().map(|tool| (tool.name.clone(), sample(&tool.input_schema))).collect()
        }
    };
    for (tool, arguments) in calls {
        match client.call_tool(&tool, arguments).await {
            Ok(result) => report(&format!("{tool}: {result}")),
            Err(error) => report(&format!("{tool}: {error}")),
        }
    }
    client.close().await;
    Ok(())
}

fn named(call: &Value) -> Option<(String, Map<String, Value>)> {
    Some((call["name"].as_str()?.to_owned(), call["arguments"].as_object()?.clone()))
}

/// Arguments that fit a schema.
fn sample(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let wanted = properties.filter(|(name, _)| required.contains(&name.as_str()));
    wanted
        .map(|(name, schema)| {
            let value = match schema["type"].as_str() {
                Some("number" | "integer") => json!(5),
                Some("boolean") => json!(true),
                Some("array") => json!([]),
                Some("object") => json!({}),
                _ => json!("text"),
            };
            (name.clone(), value)
        })
        .collect()
}

#[expect(clippy::print_stderr, reason = "the suite keeps the output of its clients")]
fn report(line: &str) {
    eprintln!("{line}");
}
