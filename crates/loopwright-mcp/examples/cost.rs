//! What servers cost that are not used, and what a call costs.
//!
//! `cargo run --release -p loopwright-mcp --example cost` starts servers with the default sandbox. Time is CPU time of this
//! process for calls, and wall time for runs. Numbers of a machine that does something else are no figures.
#![expect(clippy::print_stdout, reason = "an example that prints figures")]

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_core::{AgentLoop, AgentState, messages::InferenceRequest};
use loopwright_mcp::{FileCatalogs, McpClient, McpHost, McpServer, StdioServer, UseMcp};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::{Map, Value, json};

const SERVERS: usize = 20;
const TOOLS: usize = 50;
const CALLS: u32 = 20_000;
const RUNS: usize = 50;

/// Fewer bytes than any tokenizer needs for a token of JSON on average.
const BYTES_PER_TOKEN: usize = 3;

/// Clock ticks of the kernel in a second, in which it reports CPU time.
const TICKS: f64 = 100.0;

fn main() -> Result<(), Box<dyn Error>> {
    loopwright_sandbox::init();
    if std::env::args().nth(1).as_deref() == Some("server") {
        return serve();
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(measure())
}

/// A server with many tools, each of which returns what it is given.
fn serve() -> Result<(), Box<dyn Error>> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": { "tools": {} },
                "serverInfo": { "name": "cost", "version": "1" },
            }),
            Some("tools/list") => json!({ "tools": (0..TOOLS).map(tool).collect::<Vec<_>>() }),
            Some("tools/call") => {
                json!({ "content": [{ "type": "text", "text": message["params"]["arguments"]["text"] }] })
            }
            _ => {
                let error = json!({ "code": -32601, "message": "unknown method" });
                writeln!(output, "{}", json!({ "jsonrpc": "2.0", "id": id, "error": error }))?;
                output.flush()?;
                continue;
            }
        };
        writeln!(output, "{}", json!({ "jsonrpc": "2.0", "id": id, "result": result }))?;
        output.flush()?;
    }
    Ok(())
}

fn tool(number: usize) -> Value {
    let text = json!({ "type": "string", "description": "The text that comes back" });
    json!({
        "name": format!("tool{number}"), "description": format!("Returns a text in the way of number {number}."),
        "inputSchema": { "type": "object", "properties": { "text": text }, "required": ["text"] },
    })
}

fn clients(folder: &Path) -> Result<Vec<McpClient>, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let catalogs = Arc::new(FileCatalogs::new(folder.join("catalogs")));
    let mut clients = Vec::new();
    for number in 0..SERVERS {
        let stdio = StdioServer::new(program.to_string_lossy()).with_args(["server"]);
        let mut server = McpServer::stdio(format!("server{number}"), stdio);
        server.sandbox = server.sandbox.with_read(program.parent().unwrap_or(folder));
        clients.push(McpClient::with_catalogs(server, McpHost::in_dir(folder), catalogs.clone()));
    }
    Ok(clients)
}

fn agent(model: &FakeModel, clients: &[McpClient]) -> Result<AgentLoop, Box<dyn Error>> {
    let agent = AgentBuilder::base().with(UseLlmConfig::model(model.clone()));
    let agent =
        if clients.is_empty() { agent } else { agent.with(UseMcp::new(clients.iter().cloned())) };
    Ok(agent.build()?)
}

/// Sets an agent up and runs it for one answer; returns how long that takes, and the request.
async fn first_request(
    clients: &[McpClient],
) -> Result<(Duration, InferenceRequest), Box<dyn Error>> {
    let model = FakeModel::script(["done"]);
    let began = Instant::now();
    agent(&model, clients)?.execute(AgentState::new().with_user_message("go")).await;
    let took = began.elapsed();
    let request = model.requests().first().cloned().ok_or("the model was not called")?;
    Ok((took, request))
}

async fn measure() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    for client in clients(folder.path())? {
        // The first list of tools is approved and kept.
        client.tools().await?;
    }
    // Every run has clients of its own, which read what is kept.
    let (mut without, mut with, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        without.push(first_request(&[]).await?.0);
        let clients = clients(folder.path())?;
        let (took, request) = first_request(&clients).await?;
        with.push(took);
        texts.push(text(&request));
        if clients.iter().any(|it| it.status().starts > 0) {
            return Err("a server was started".into());
        }
    }
    let bytes = texts[0].len() - text(&first_request(&[]).await?.1).len();
    println!("{SERVERS} servers of {TOOLS} tools, none used:");
    println!(
        "  first request: {bytes} bytes more, at most {} tokens",
        bytes.div_ceil(BYTES_PER_TOKEN)
    );
    println!("  the same bytes in {RUNS} runs: {}", texts.iter().all(|it| *it == texts[0]));
    println!(
        "  a run of one answer: {:?} in the median, {:?} without servers",
        median(with),
        median(without)
    );
    println!(
        "  the prefix stays while tools are found and used: {}",
        prefix_stays(folder.path()).await?
    );
    let client = clients(folder.path())?.swap_remove(0);
    let arguments = Map::from_iter([("text".to_owned(), json!("hello"))]);
    client.call_tool("tool0", arguments.clone()).await?;
    let (began, used) = (Instant::now(), cpu_time()?);
    for _ in 0..CALLS {
        client.call_tool("tool0", arguments.clone()).await?;
    }
    let (took, used) = (began.elapsed() / CALLS, cpu_time()?.saturating_sub(used) / CALLS);
    println!("a call over pipes: {used:?} of our CPU, {took:?} in all, over {CALLS} calls");
    Ok(())
}

/// Returns what a request sends before the conversation.
fn text(request: &InferenceRequest) -> String {
    let tools = serde_json::to_string(&request.tools.to_vec()).unwrap_or_default();
    format!("{tools}{:?}", request.system)
}

/// Searches for tools and uses one, and returns `true` if each request begins with the tools of the one before.
async fn prefix_stays(folder: &Path) -> Result<bool, Box<dyn Error>> {
    let model = FakeModel::script([
        ScenarioStep::tool_call("mcp_search", json!({ "query": "number 7" })),
        ScenarioStep::tool_call("mcp__server3__tool7", json!({ "text": "hello" })),
        ScenarioStep::tool_call("mcp_search", json!({ "query": "number 42" })),
        "done".into(),
    ]);
    agent(&model, &clients(folder)?)?.execute(AgentState::new().with_user_message("go")).await;
    let requests = model.requests();
    let tools = |it: &InferenceRequest| -> Vec<String> {
        it.tools.iter().map(|tool| serde_json::to_string(tool).unwrap_or_default()).collect()
    };
    let stays = requests.windows(2).all(|pair| tools(&pair[1]).starts_with(&tools(&pair[0])));
    Ok(stays && requests.len() == 4)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns the CPU time of this process, without that of its children.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(") ").ok_or("unexpected form of /proc/self/stat")?.1;
    let ticks = |index| fields.split(' ').nth(index).and_then(|it: &str| it.parse::<f64>().ok());
    let (user, system) = (ticks(11).ok_or("no user time")?, ticks(12).ok_or("no system time")?);
    Ok(Duration::from_secs_f64((user + system) / TICKS))
}
