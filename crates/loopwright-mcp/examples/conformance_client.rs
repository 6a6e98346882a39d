//! The client of the official conformance suite: it connects to the server of a scenario and uses what is there.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_mcp::{
    AnswerElicitations, Elicitation, ElicitationReply, HttpServer, LoginFolder, LoginOptions,
    McpClient, McpError, McpHost, McpServer, ProtocolChoice,
};
use serde_json::{Map, Value, json};

/// Logins of one scenario.
const MAX_LOGINS: usize = 3;

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
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let folder = tempfile::tempdir()?;
    let host = host.with_logins(LoginFolder::new(folder.path()));
    let mut client = McpClient::new(server.clone(), host.clone());
    for _ in 0..MAX_LOGINS {
        match client.connect().await {
            Ok(_) => break,
            Err(error) => log_in(&client, &error, &context).await?,
        }
    }
    let calls: Vec<(String, Map<String, Value>)> =
        if let Some(calls) = context["toolCalls"].as_array() {
            calls.iter().filter_map(named).collect()
        } else {
            let tools = client.tools().await?;
            tools.tools.iter().map(|tool| (tool.name.clone(), sample(&tool.input_schema))).collect()
        };
    for (tool, arguments) in calls {
        for _ in 0..MAX_LOGINS {
            match client.call_tool(&tool, arguments.clone()).await {
                Ok(result) => {
                    report(&format!("{tool}: {result}"));
                    break;
                }
                Err(error) if matches!(*error, McpError::LoginRequired { .. }) => {
                    // Another login, for more scopes: a new connection uses its token.
                    log_in(&client, &error, &context).await?;
                    client.close().await;
                    client = McpClient::new(server.clone(), host.clone());
                }
                Err(error) => {
                    report(&format!("{tool}: {error}"));
                    break;
                }
            }
        }
    }
    client.close().await;
    Ok(())
}

/// Logs in as a browser does that is redirected at once; returns any other error.
async fn log_in(
    client: &McpClient,
    error: &Arc<McpError>,
    context: &Value,
) -> Result<(), Box<dyn std::error::Error>> {
    let McpError::LoginRequired { challenge, .. } = &**error else {
        return Err(error.to_string().into());
    };
    let mut options = LoginOptions::new("http://127.0.0.1:8797/callback")
        .with_challenge(challenge.clone())
        .with_client_metadata_url("https://conformance-test.local/client-metadata.json");
    if let Some(id) = context["client_id"].as_str() {
        options = options.with_client(id, context["client_secret"].as_str().map(ToOwned::to_owned));
    }
    let login = client.start_login(options).await?;
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let answer = browser.get(login.url()).send().await?;
    let redirected = answer.headers().get("location").ok_or("the page redirects nowhere")?;
    login.complete(redirected.to_str()?).await?;
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
