//! The tools with which a model lists and reads the resources of a server.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_capabilities::llm_query::as_model_takes;
use loopwright_core::{
    AnyTool, SideEffects, ToolCx, ToolError, ToolHandler, ToolOptions, ToolOutput, ToolVisibility,
    messages::ToolSpec,
};
use serde_json::Value;

use crate::client::McpClient;
use crate::resources::ListedResource;
use crate::text;
use crate::tools::{LIST_RESOURCES, ListedTool};

/// Resources of one answer.
const MAX_SHOWN: usize = 100;

/// Makes the tool of an agent.
pub(crate) fn tool(
    client: &McpClient,
    name: String,
    listed: &ListedTool,
    visibility: ToolVisibility,
) -> AnyTool {
    let server = client.server();
    let side_effects =
        if server.trust_annotations { SideEffects::ReadOnly } else { SideEffects::AtMostOnce };
    let options = ToolOptions {
        side_effects,
        namespace: Some(server.name.as_str().into()),
        visibility,
        ..ToolOptions::default()
    };
    let spec = ToolSpec {
        name: name.into(),
        description: listed.description.as_str().into(),
        parameters: Arc::clone(&listed.input_schema),
    };
    let lists = listed.name == LIST_RESOURCES;
    AnyTool::dynamic(spec, options, Arc::new(Handler { client: client.clone(), lists }))
}

struct Handler {
    client: McpClient,
    lists: bool,
}

#[async_trait]
impl ToolHandler for Handler {
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let of = |name: &str| arguments[name].as_str().unwrap_or_default().trim().to_owned();
        if self.lists {
            let listed = self.client.resources_unless(cx.cancel).await;
            let listed = listed.map_err(|error| ToolError::Failed(error.into()))?;
            return Ok(ToolOutput::text(lines(&listed, &of("query"))));
        }
        let uri = of("uri");
        if uri.is_empty() {
            return Err(ToolError::Failed("`uri` is missing".into()));
        }
        let parts = self.client.read_resource_unless(&uri, cx.cancel).await;
        let parts = parts.map_err(|error| ToolError::Failed(error.into()))?;
        Ok(ToolOutput::from_parts(as_model_takes(parts, cx.state, cx.agent)))
    }
}

/// Lists what has all words of a query in its address, name or description.
fn lines(listed: &[ListedResource], query: &str) -> String {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let matches = |it: &&ListedResource| {
        let description = it.description.as_deref().unwrap_or_default();
        let all = format!("{} {} {description}", it.uri, it.name).to_lowercase();
        words.iter().all(|word| all.contains(word.as_str()))
    };
    let found: Vec<&ListedResource> = listed.iter().filter(matches).collect();
    if found.is_empty() {
        return "no resource matches".to_owned();
    }
    let mut shown = String::new();
    for resource in found.iter().take(MAX_SHOWN) {
        let kind = if resource.is_template { " (template)" } else { "" };
        // An address is needed as it is; one that cannot be shown cannot be read by a model either.
        let uri = text::clean(&resource.uri).replace(['\n', '\t'], " ");
        // Writing to a string does not fail.
        write!(shown, "{uri}{kind}: {}", resource.name).ok();
        for detail in [&resource.mime_type, &resource.description].into_iter().flatten() {
            write!(shown, ", {detail}").ok();
        }
        shown.push('\n');
    }
    if found.len() > MAX_SHOWN {
        let more = found.len() - MAX_SHOWN;
        writeln!(shown, "[{more} more resources match; pass a query with more words]").ok();
    }
    shown.trim_end().to_owned()
}
