//! The tool with which a model finds the tools of servers.

use std::sync::Arc;

use futures_util::future::join_all;
use loopwright_agent::ACTIVATED_TOOLS;
use loopwright_core::{BoxError, SideEffects, Tool, ToolCx, ToolOptions, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::client::McpClient;
use crate::text;
use crate::tools::{ListedTool, Listing};

/// The name of the tool.
pub(crate) const NAME: &str = "mcp_search";

/// Tools of one answer.
const MAX_FOUND: usize = 10;

/// Characters of a description in an answer. The whole description comes with the tool.
const MAX_SHOWN: usize = 200;

/// Finds the tools of servers and adds them to the next requests.
#[derive(Clone, Debug)]
pub(crate) struct SearchTool {
    clients: Vec<McpClient>,
    description: String,
}

/// What the model passes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchArgs {
    /// Words to search for in the names and descriptions of tools. Empty to list the servers and their first tools.
    query: String,
}

impl SearchTool {
    pub(crate) fn new(clients: Vec<McpClient>) -> Self {
        let names: Vec<String> =
            clients.iter().take(30).map(|it| text::line(&it.server().name)).collect();
        let more = if clients.len() > 30 { " and others" } else { "" };
        let description = format!(
            "Finds tools of the connected MCP servers ({}{more}). Starting with the next step, you can call the tools that it finds.",
            names.join(", ")
        );
        Self { clients, description }
    }
}

impl Tool for SearchTool {
    type Args = SearchArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &str {
        NAME
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { side_effects: SideEffects::ReadOnly, ..ToolOptions::default() }
    }

    async fn call(&self, args: SearchArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let listings =
            join_all(self.clients.iter().map(async |client| (client, client.tools().await)));
        let listings = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err("the search was cancelled".into()),
            listings = listings => listings,
        };
        let mut lines = Vec::new();
        let mut found = Vec::new();
        for (client, listing) in &listings {
            match listing {
                Ok(listing) => found.extend(matches(client, listing, &args.query)),
                Err(error) => lines.push(format!("[{error}]")),
            }
        }
        found.sort_by_key(|found| std::cmp::Reverse(found.score));
        let left_out = found.len().saturating_sub(MAX_FOUND);
        found.truncate(MAX_FOUND);
        // Two searches of one step do not see each other, so all words count that the step has searched for.
        let mut active = cx.state.get(&ACTIVATED_TOOLS).unwrap_or_default();
        for tool in earlier(cx, &listings).into_iter().chain(found.iter().map(|it| it.name.clone()))
        {
            let name: Arc<str> = tool.into();
            if !active.contains(&name) {
                active.push(name);
            }
        }
        lines.extend(found.iter().map(|it| format!("{}: {}", it.name, it.summary)));
        if found.is_empty() {
            lines.push("no tool matches; try other words".to_owned());
        }
        if left_out > 0 {
            lines.push(format!("[{left_out} more tools match; search for more specific words]"));
        }
        Ok(ToolOutput::text(lines.join("\n")).with_value(&ACTIVATED_TOOLS, &active)?)
    }
}

type Listed<'a> = (&'a McpClient, Result<Arc<Listing>, Arc<crate::error::McpError>>);

/// Returns what the searches before this one, in the same step, have found.
fn earlier(cx: &ToolCx<'_>, listings: &[Listed<'_>]) -> Vec<String> {
    let open = cx.state.execution().and_then(|it| it.open_step());
    let before = 0..cx.key.call.unwrap_or(0);
    let calls = before.filter_map(|index| open?.call(index)).filter(|call| &*call.name == NAME);
    let queries = calls
        .filter_map(|call| serde_json::from_value::<SearchArgs>(call.parse_arguments().ok()?).ok());
    let mut names = Vec::new();
    for SearchArgs { query } in queries {
        let mut found: Vec<Found> = listings
            .iter()
            .filter_map(|(client, listing)| Some(matches(client, listing.as_ref().ok()?, &query)))
            .flatten()
            .collect();
        found.sort_by_key(|found| std::cmp::Reverse(found.score));
        names.extend(found.into_iter().take(MAX_FOUND).map(|it| it.name));
    }
    names
}

/// A tool that matches.
struct Found {
    name: String,
    summary: String,
    score: usize,
}

fn matches(client: &McpClient, listing: &Listing, query: &str) -> Vec<Found> {
    let words: Vec<String> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let found = listing.named(client.server()).filter_map(|(name, tool, _)| {
        let score = score(&name, tool, &words);
        let summary = tool.description.lines().next().unwrap_or_default();
        let summary = text::cut(summary, MAX_SHOWN);
        (score > 0 || words.is_empty()).then_some(Found { name, summary, score })
    });
    found.collect()
}

/// Counts the words that a tool has in its name, three each, or its description, one each.
fn score(name: &str, tool: &ListedTool, words: &[String]) -> usize {
    let names = format!("{name} {} {}", tool.name, tool.title.as_deref().unwrap_or_default());
    let (names, description) = (names.to_lowercase(), tool.description.to_lowercase());
    let of_word = |word: &String| {
        3 * usize::from(names.contains(word.as_str()))
            + usize::from(description.contains(word.as_str()))
    };
    words.iter().map(of_word).sum()
}
