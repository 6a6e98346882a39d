//! What a server has: its tools, resources and prompts, what has changed, and its log.

use std::fmt::Write as _;

use loopwright_mcp::{ListedPrompt, ListedResource, tool_names};
use serde_json::json;

use super::{CommandError, Surroundings, in_json};
use crate::args::Cli;
use crate::args::mcp::{McpArgs, McpShowArgs};
use crate::console;
use crate::exit::ExitCode;
use crate::render::{count, sanitize_terminal, single_line};
use crate::report::SCHEMA_VERSION;
use crate::table::table;

pub(super) async fn show(
    cli: &Cli,
    args: &McpArgs,
    typed: &McpShowArgs,
) -> Result<ExitCode, CommandError> {
    let surroundings = Surroundings::load(cli, args)?;
    let client = surroundings.client(&typed.name)?;
    let connected = client.connect().await;
    let status = client.status();
    let listing = status.listing.clone().unwrap_or_default();
    let drift = client.drift().filter(|drift| !drift.is_covered());
    // A server that does not list them has none to show; its log says why.
    let (resources, prompts) = match &connected {
        Ok(_) => futures::future::join(client.resources(), client.prompts()).await,
        Err(_) => (Ok(Vec::new()), Ok(Vec::new())),
    };
    let (resources, prompts) = (resources.unwrap_or_default(), prompts.unwrap_or_default());
    let log = client.log().to_lines();
    client.close().await;
    if typed.json {
        let told = json!({
            "schema_version": SCHEMA_VERSION,
            "server": in_json(surroundings.find(&typed.name)?),
            "error": connected.as_ref().err().map(ToString::to_string),
            "protocol": connected.as_ref().ok().map(|info| &info.protocol),
            "implementation": connected.as_ref().ok().and_then(|info| info.implementation.as_ref()),
            "tools": listing.tools,
            "resources": resources,
            "prompts": prompts,
            "notes": listing.notes,
            "changes": drift.map(|drift| drift.to_lines()),
            "log": log,
        });
        let printed = console::print_json(&told);
        return Ok(if connected.is_ok() { printed } else { ExitCode::Internal });
    }
    let mut lines = client.server().describe();
    if let Ok(info) = &connected {
        let implementation = info.implementation.as_deref().unwrap_or("unnamed");
        lines.push(format!("program: {implementation}, protocol {}", info.protocol));
    }
    lines.extend(listing.notes.iter().map(|note| format!("note: {note}")));
    lines.push(format!("{}:", count(listing.tools.len() as u64, "tool")));
    let mut text = lines.join("\n") + "\n";
    let names = tool_names(&client.server().name, listing.tools.iter().map(|it| &*it.name));
    let rows: Vec<Vec<String>> = names
        .into_iter()
        .zip(&listing.tools)
        .map(|(name, tool)| {
            vec![format!("  {}", name.unwrap_or_default()), single_line(&tool.description, 80)]
        })
        .collect();
    text += &table(&rows);
    text += &content(&client.server().name, &resources, &prompts);
    if let Some(drift) = drift {
        text += "changes since the tools were approved:\n";
        text.extend(drift.to_lines().iter().map(|line| format!("  {line}\n")));
    }
    if !log.is_empty() {
        let hidden = log.len().saturating_sub(MAX_LOG);
        let more = if hidden > 0 {
            format!(" (the last {MAX_LOG} of {} lines; `--json` shows all)", log.len())
        } else {
            String::new()
        };
        writeln!(text, "server log{more}:").ok();
        text.extend(log.iter().skip(hidden).map(|line| format!("  {line}\n")));
    }
    let shown: Vec<String> = text.lines().map(sanitize_terminal).collect();
    let printed = console::print(format!("{}\n", shown.join("\n")).as_bytes());
    connected?;
    Ok(printed)
}

/// Lines of the log that are shown.
const MAX_LOG: usize = 30;

/// The most resources and prompts that are shown of a server.
const MAX_SHOWN: usize = 50;

/// Lists the resources and prompts of a server as users type them.
fn content(server: &str, resources: &[ListedResource], prompts: &[ListedPrompt]) -> String {
    let mut text = String::new();
    let about =
        |it: &Option<String>| it.as_deref().map(|it| single_line(it, 80)).unwrap_or_default();
    let mut list = |count: String, rows: Vec<Vec<String>>, all: usize| {
        if all > 0 {
            write!(text, "{count}:\n{}", table(&rows)).ok();
        }
        if all > MAX_SHOWN {
            writeln!(text, "  … {} more", all - MAX_SHOWN).ok();
        }
    };
    let shown = resources.iter().take(MAX_SHOWN);
    let rows = shown.map(|it| vec![format!("  @{server}:{}", it.uri), about(&it.description)]);
    list(count(resources.len() as u64, "resource"), rows.collect(), resources.len());
    let rows = prompts.iter().take(MAX_SHOWN).map(|it| {
        let names = it.arguments.iter().map(|it| &*it.name);
        let words: Vec<&str> = std::iter::once(&*it.name).chain(names).collect();
        vec![format!("  /{server}:{}", words.join(" ")), about(&it.description)]
    });
    list(count(prompts.len() as u64, "prompt"), rows.collect(), prompts.len());
    text
}
