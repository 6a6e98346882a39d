//! An agent that pays through a server of the Model Context Protocol, which asks the user before one payment.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{BufRead as _, Write as _},
    path::Path,
    sync::Arc,
};

use loopwright_agent::{AgentBuilder, AgentDefinition, BuildError, LoopFactory, UseLlmConfig};
use loopwright_core::{
    AgentLoop,
    messages::{InferenceRequest, TurnBody},
};
use loopwright_mcp::{
    FileCatalogs, McpClient, McpHost, McpServer, ProtocolChoice, ServerSandbox, StdioServer, UseMcp,
};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::{Value, json};

use crate::{Failure, ledger::Entry};

/// The first argument of the program that is the server.
pub const SERVER: &str = "bank";

/// The sums that are paid: one at once, one after the user has agreed, and another one at once.
pub const SUMS: [u64; 3] = [0, 1, 2];

/// An agent that pays.
#[derive(Clone)]
pub struct Bank(McpClient);

impl fmt::Debug for Bank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bank").finish_non_exhaustive()
    }
}

impl Bank {
    /// Starts the server, which notes payments in a ledger.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub async fn open(ledger: &Path) -> Result<Self, Failure> {
        let folder = ledger.parent().ok_or("the ledger is in no folder")?;
        let program = std::env::current_exe()?;
        let arguments = [SERVER.to_owned(), ledger.display().to_string()];
        let stdio = StdioServer::new(program.to_string_lossy()).with_args(arguments);
        let server = McpServer::stdio("bank", stdio)
            .with_protocol(ProtocolChoice::V2026_07_28)
            .with_sandbox(ServerSandbox::off());
        let catalogs = Arc::new(FileCatalogs::new(folder.join("catalogs")));
        let client = McpClient::with_catalogs(server, McpHost::in_dir(folder), catalogs);
        client.tools().await?;
        Ok(Self(client))
    }
}

impl LoopFactory for Bank {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let model = FakeModel::from_fn(|request| answer(request).to_response());
        AgentBuilder::base()
            .with(UseLlmConfig::model(model))
            .with(UseMcp::new([self.0.clone()]))
            .build()
    }
}

/// Answers as a function of what was said and done: asked again, it answers the same.
fn answer(request: &InferenceRequest) -> ScenarioStep {
    let turns = request.prompt.turns.iter();
    match turns.filter(|it| matches!(it.body(), TurnBody::ToolExchange(_))).count() {
        0 => ScenarioStep::tool_calls([
            ("mcp__bank__pay", json!({ "sum": 0 })),
            ("mcp__bank__pay_agreed", json!({ "sum": 1 })),
        ]),
        1 => ScenarioStep::tool_call("mcp__bank__pay", json!({ "sum": 2 })),
        _ => ScenarioStep::final_answer("go is done"),
    }
}

/// Is the server, until its client is gone.
///
/// # Errors
///
/// If the client writes no messages, or the ledger cannot be written.
pub fn serve(ledger: &Path) -> Result<(), Failure> {
    let ledger = File::options().append(true).open(ledger)?;
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str() {
            Some("server/discover") => Some(json!({
                "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "ttlMs": 0, "cacheScope": "private",
            })),
            Some("tools/list") => Some(json!({
                "tools": tools(), "ttlMs": 0, "cacheScope": "private",
            })),
            Some("tools/call") => Some(call(&message["params"], &ledger)?),
            _ => None,
        };
        let mut reply = json!({ "jsonrpc": "2.0", "id": id });
        match result {
            Some(mut result) => {
                let kind = &mut result["resultType"];
                if kind.is_null() {
                    *kind = json!("complete");
                }
                reply["result"] = result;
            }
            None => reply["error"] = json!({ "code": -32601, "message": "unknown method" }),
        }
        writeln!(output, "{reply}")?;
        output.flush()?;
    }
    Ok(())
}

fn tools() -> Vec<Value> {
    let names = ["pay", "pay_agreed"];
    let tool =
        |name| json!({ "name": name, "description": "Pays.", "inputSchema": { "type": "object" } });
    names.map(tool).to_vec()
}

fn call(params: &Value, ledger: &File) -> Result<Value, Failure> {
    let replies = &params["inputResponses"];
    let sum = match params["name"].as_str() {
        Some("pay") => params["arguments"]["sum"].as_u64(),
        _ => match &replies["agreed"] {
            Value::Null => {
                let schema =
                    json!({ "type": "object", "properties": { "agreed": { "type": "boolean" } } });
                let asked = json!({ "mode": "form", "message": "Pay?", "requestedSchema": schema });
                return Ok(required("agreed", "elicitation/create", &asked));
            }
            reply if reply["content"]["agreed"] == true => params["arguments"]["sum"].as_u64(),
            _ => None,
        },
    };
    let Some(sum) = sum else {
        let text = json!([{ "type": "text", "text": format!("not paid: {replies}") }]);
        return Ok(json!({ "content": text, "isError": true }));
    };
    let line = serde_json::to_string(&Entry::Paid { sum })?;
    // A worker may have been killed within a line.
    (&*ledger).write_all(format!("\n{line}\n").as_bytes())?;
    Ok(json!({ "content": [{ "type": "text", "text": "paid" }] }))
}

fn required(key: &str, method: &str, params: &Value) -> Value {
    let requests = BTreeMap::from([(key, json!({ "method": method, "params": params }))]);
    json!({ "resultType": "input_required", "requestState": "open", "inputRequests": requests })
}
