//! An agent that pays through a server of the Model Context Protocol, which asks the user before one payment, and the
//! model of the agent, which the user allows, before another.

use std::{
    fmt,
    fs::File,
    io::{BufRead as _, Write as _},
    path::{Path, PathBuf},
    process,
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
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Failure,
    ledger::{Entry, Ledger},
    task::Side,
};

/// The first argument of the program that is the server.
pub const SERVER: &str = "bank";

/// The sums that are paid: one at once, one after the user has agreed, and one that the model names.
pub const SUMS: [u64; 3] = [0, 1, 2];

/// Returns the sum that a call of this tool pays.
pub fn sum_of(tool: &str) -> Option<u64> {
    let names = ["mcp__bank__pay", "mcp__bank__pay_agreed", "mcp__bank__pay_named"];
    let at = names.iter().position(|name| *name == tool)?;
    SUMS.get(at).copied()
}

/// A request at which the server kills its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillAtCall {
    /// The call, counted from one.
    pub call: u64,
    /// Before the server does anything, or after all but the response.
    pub side: Side,
}

/// What the server is told: its only other argument, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ServerTask {
    ledger: PathBuf,
    client: u32,
    kill: Option<KillAtCall>,
}

/// An agent that pays.
#[derive(Clone)]
pub struct Bank {
    client: McpClient,
    ledger: Ledger,
}

impl fmt::Debug for Bank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bank").finish_non_exhaustive()
    }
}

impl Bank {
    /// Starts the server, which notes payments in the ledger that is at a path.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub async fn open(
        ledger: &Ledger,
        path: &Path,
        kill: Option<KillAtCall>,
    ) -> Result<Self, Failure> {
        let folder = path.parent().ok_or("the ledger is in no folder")?;
        let program = std::env::current_exe()?;
        let task = ServerTask { ledger: path.to_owned(), client: process::id(), kill };
        let arguments = [SERVER.to_owned(), serde_json::to_string(&task)?];
        let stdio = StdioServer::new(program.to_string_lossy()).with_args(arguments);
        let server = McpServer::stdio("bank", stdio)
            .with_protocol(ProtocolChoice::V2026_07_28)
            .with_sandbox(ServerSandbox::off());
        let catalogs = Arc::new(FileCatalogs::new(folder.join("catalogs")));
        let client = McpClient::with_catalogs(server, McpHost::in_dir(folder), catalogs);
        client.tools().await?;
        Ok(Self { client, ledger: ledger.clone() })
    }
}

impl LoopFactory for Bank {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let ledger = self.ledger.clone();
        let model = FakeModel::from_fn(move |request| answer(request, &ledger).to_response());
        AgentBuilder::base()
            .with(UseLlmConfig::model(model))
            .with(UseMcp::new([self.client.clone()]))
            .build()
    }
}

/// Answers as a function of what was said and done: asked again, it answers the same.
fn answer(request: &InferenceRequest, ledger: &Ledger) -> ScenarioStep {
    let said = request.prompt.stable().next().map(|it| it.message().text()).unwrap_or_default();
    if said == WHICH {
        ledger.note(&Entry::Named);
        return ScenarioStep::final_answer(SUMS[2].to_string());
    }
    let turns = request.prompt.turns.iter();
    match turns.filter(|it| matches!(it.body(), TurnBody::ToolExchange(_))).count() {
        0 => ScenarioStep::tool_calls([
            ("mcp__bank__pay", json!({})),
            ("mcp__bank__pay_agreed", json!({})),
        ]),
        1 => ScenarioStep::tool_call("mcp__bank__pay_named", json!({})),
        _ => ScenarioStep::final_answer("go is done"),
    }
}

/// What the server asks the model.
const WHICH: &str = "Which sum?";

/// Is the server, until its client is gone.
///
/// # Errors
///
/// If the task makes no sense, the client writes no messages, or the ledger cannot be written.
pub fn serve(task: &str) -> Result<(), Failure> {
    let task: ServerTask = serde_json::from_str(task)?;
    let ledger = File::options().append(true).open(&task.ledger)?;
    // Whoever reads the ledger waits for servers whose client was killed.
    ledger.lock_shared()?;
    let mut calls = 0;
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
            Some("tools/call") => {
                calls += 1;
                let kills = |side| task.kill == Some(KillAtCall { call: calls, side });
                if kills(Side::Before) {
                    return kill(task.client);
                }
                let result = call(&message["params"], &ledger)?;
                if kills(Side::After) {
                    return kill(task.client);
                }
                Some(result)
            }
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

/// Ends the client as if the machine had stopped.
fn kill(client: u32) -> Result<(), Failure> {
    let client = Pid::from_raw(client.try_into()?).ok_or("there is no such process")?;
    Ok(kill_process(client, Signal::KILL)?)
}

fn tools() -> Vec<Value> {
    let names = ["pay", "pay_agreed", "pay_named"];
    let tool =
        |name| json!({ "name": name, "description": "Pays.", "inputSchema": { "type": "object" } });
    names.map(tool).to_vec()
}

fn call(params: &Value, ledger: &File) -> Result<Value, Failure> {
    let reply = &params["inputResponses"]["it"];
    let sum = match params["name"].as_str() {
        Some("pay") => Some(SUMS[0]),
        Some("pay_agreed") if reply.is_null() => {
            let agreed = json!({ "agreed": { "type": "boolean" } });
            let schema = json!({ "type": "object", "properties": agreed });
            let asked = json!({ "mode": "form", "message": "Pay?", "requestedSchema": schema });
            return required("elicitation/create", &asked, ledger);
        }
        Some("pay_agreed") => (reply["content"]["agreed"] == true).then_some(SUMS[1]),
        _ if reply.is_null() => {
            let text = json!({ "type": "text", "text": WHICH });
            let asked =
                json!({ "messages": [{ "role": "user", "content": text }], "maxTokens": 10 });
            return required("sampling/createMessage", &asked, ledger);
        }
        _ => reply["content"]["text"].as_str().and_then(|it| it.parse().ok()),
    };
    // The state is that of the question whose answer this is.
    let is_open = reply.is_null() || params["requestState"] == STATE;
    let Some(sum) = sum.filter(|_| is_open) else {
        let text = json!([{ "type": "text", "text": format!("not paid: {params}") }]);
        return Ok(json!({ "content": text, "isError": true }));
    };
    note(ledger, &Entry::Paid { sum })?;
    Ok(json!({ "content": [{ "type": "text", "text": "paid" }] }))
}

/// What the client keeps between a question and its answer.
const STATE: &str = "open";

fn required(method: &str, params: &Value, ledger: &File) -> Result<Value, Failure> {
    note(ledger, &Entry::Required { method: method.to_owned() })?;
    let requests = json!({ "it": { "method": method, "params": params } });
    Ok(json!({
        "resultType": "input_required", "requestState": STATE, "inputRequests": requests,
    }))
}

fn note(mut ledger: &File, entry: &Entry) -> Result<(), Failure> {
    let line = serde_json::to_string(entry)?;
    // A worker may have been killed within a line.
    Ok(ledger.write_all(format!("\n{line}\n").as_bytes())?)
}
