//! The tools that a server lists, within limits.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::config::McpServer;
use crate::names;
use crate::text;

/// Tools of one server that are used.
const MAX_TOOLS: usize = 2_000;

/// Bytes of a schema.
const MAX_SCHEMA: usize = 128 << 10;

/// Bytes of all schemas of one server.
const MAX_SCHEMAS: usize = 8 << 20;

/// The tool that lists resources, and the one that reads one, for servers that have resources.
pub(crate) const LIST_RESOURCES: &str = "resources_list";
pub(crate) const READ_RESOURCE: &str = "resources_read";

/// A tool as described by its server. The description is sanitized and truncated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListedTool {
    /// The name in the server.
    pub name: String,
    /// The title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Arc<Value>,
    /// The schema of its structured output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Arc<Value>>,
    /// The server's hints about the effects of calls.
    #[serde(default)]
    pub hints: ToolHints,
}

/// A server's hints about the effects of a tool's calls. They may be wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolHints {
    /// The calls only read.
    #[serde(default)]
    pub read_only: bool,
    /// The calls can be repeated.
    #[serde(default)]
    pub idempotent: bool,
    /// The calls may destroy data.
    #[serde(default)]
    pub destructive: bool,
}

/// The tools of a server, and remarks about omitted ones.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// The enabled tools, in the order of the server.
    pub tools: Vec<ListedTool>,
    /// The omitted tools, with the reasons.
    pub notes: Vec<String>,
    /// The tools for the resources of the server, if it has any.
    pub(crate) resource_tools: Vec<ListedTool>,
    bytes: usize,
}

impl From<Tool> for ListedTool {
    fn from(tool: Tool) -> Self {
        let description = tool.description.unwrap_or_default();
        let title = tool.title.or_else(|| tool.annotations.as_ref()?.title.clone());
        Self {
            name: tool.name.into_owned(),
            title: title.map(|it| text::line(&it)),
            description: text::clean(&text::cut(&description, text::MAX_DESCRIPTION)),
            input_schema: Arc::new(Value::Object((*tool.input_schema).clone())),
            output_schema: tool.output_schema.map(|it| Arc::new(Value::Object((*it).clone()))),
            hints: tool.annotations.as_ref().map(hints).unwrap_or_default(),
        }
    }
}

fn hints(annotations: &ToolAnnotations) -> ToolHints {
    let read_only = annotations.read_only_hint.unwrap_or(false);
    ToolHints {
        read_only,
        idempotent: annotations.idempotent_hint.unwrap_or(false),
        destructive: !read_only && annotations.destructive_hint.unwrap_or(true),
    }
}

impl Listing {
    /// Adds tools that the configuration uses. Returns `false` once there is no room for more.
    pub(crate) fn extend(
        &mut self,
        server: &McpServer,
        tools: impl IntoIterator<Item = ListedTool>,
    ) -> bool {
        for mut tool in tools {
            if !server.uses(&tool.name) {
                continue;
            }
            if self.tools.len() >= MAX_TOOLS {
                self.notes.push(format!(
                    "the server lists more than {MAX_TOOLS} tools; the rest were omitted"
                ));
                return false;
            }
            match prepare(&mut tool) {
                Err(reason) => {
                    self.note(format!("tool `{}` was omitted: {reason}", text::line(&tool.name)));
                }
                Ok(bytes) => {
                    self.bytes += bytes;
                    if self.bytes > MAX_SCHEMAS {
                        self.notes.push(format!(
                            "the server's schemas exceed {} MiB; the remaining tools were omitted",
                            MAX_SCHEMAS >> 20
                        ));
                        return false;
                    }
                    self.tools.push(tool);
                }
            }
        }
        true
    }

    fn note(&mut self, note: String) {
        // A server with thousands of bad tools is described well enough by the first ones.
        if self.notes.len() < 20 {
            self.notes.push(note);
        }
    }

    /// Adds the tools for resources that the configuration uses.
    pub(crate) fn add_resource_tools(&mut self, server: &McpServer) {
        let tools = [
            resource_tool(
                LIST_RESOURCES,
                "Lists the resources of this server.",
                "query",
                "Words that the address, name or description of a resource must contain. Empty \
                    for all resources.",
                false,
            ),
            resource_tool(
                READ_RESOURCE,
                "Reads a resource of this server.",
                "uri",
                "The address, as listed. In a template, fill in the parts in braces.",
                true,
            ),
        ];
        self.resource_tools = tools.into_iter().filter(|it| server.uses(&it.name)).collect();
    }

    /// Returns the number of tools that agents have of the server.
    pub(crate) fn count(&self) -> usize {
        self.tools.len() + self.resource_tools.len()
    }

    /// Returns the tools with their names for models, those for resources last. Tools whose name is there already are left
    /// out.
    pub(crate) fn named<'a>(
        &'a self,
        server: &'a McpServer,
    ) -> impl Iterator<Item = (String, &'a ListedTool, ToolOwner)> {
        let owned = self.tools.iter().map(|it| (it, ToolOwner::Server));
        let all = owned.chain(self.resource_tools.iter().map(|it| (it, ToolOwner::Client)));
        let names = names::tool_names(&server.name, all.clone().map(|(it, _)| it.name.as_str()));
        names.into_iter().zip(all).filter_map(|(name, (tool, owner))| Some((name?, tool, owner)))
    }
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolOwner {
    /// The server, by `tools/call`.
    Server,
    /// The client, by requests about resources.
    Client,
}

fn resource_tool(
    name: &str,
    description: &str,
    argument: &str,
    about: &str,
    is_required: bool,
) -> ListedTool {
    let required = if is_required { json!([argument]) } else { json!([]) };
    let schema = json!({
        "type": "object",
        "properties": { argument: { "type": "string", "description": about } },
        "required": required,
        "additionalProperties": false,
    });
    ListedTool {
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        input_schema: Arc::new(schema),
        output_schema: None,
        hints: ToolHints { read_only: true, idempotent: true, destructive: false },
    }
}

/// Makes the schemas fit for every provider, and returns their bytes.
fn prepare(tool: &mut ListedTool) -> Result<usize, String> {
    if tool.name.is_empty() {
        return Err("the tool has no name".to_owned());
    }
    let mut bytes = check_schema(&tool.input_schema)?;
    if let Some(schema) = &tool.output_schema {
        bytes += check_schema(schema)?;
    }
    let Some(schema) = Arc::make_mut(&mut tool.input_schema).as_object_mut() else {
        return Err("the schema is not an object".to_owned());
    };
    let kind = schema.entry("type").or_insert_with(|| json!("object"));
    if *kind != json!("object") {
        return Err("the arguments are not an object".to_owned());
    }
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    Ok(bytes)
}

fn check_schema(schema: &Value) -> Result<usize, String> {
    if let Some(reference) = foreign_reference(schema, 0)? {
        return Err(format!(
            "the schema refers to `{}`, outside the schema",
            text::line(reference)
        ));
    }
    let bytes = serde_json::to_string(schema).map_or(usize::MAX, |text| text.len());
    if bytes > MAX_SCHEMA {
        return Err(format!("the schema is larger than {} KiB", MAX_SCHEMA >> 10));
    }
    Ok(bytes)
}

/// Finds a reference that leads out of the schema: to a file or into a network.
fn foreign_reference(value: &Value, depth: usize) -> Result<Option<&str>, String> {
    if depth > 64 {
        return Err("the schema is nested too deeply".to_owned());
    }
    match value {
        Value::Object(map) => {
            for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
                if let Some(Value::String(reference)) = map.get(key)
                    && !reference.starts_with('#')
                {
                    return Ok(Some(reference));
                }
            }
            first(map.values(), depth)
        }
        Value::Array(values) => first(values, depth),
        _ => Ok(None),
    }
}

fn first<'a>(
    values: impl IntoIterator<Item = &'a Value>,
    depth: usize,
) -> Result<Option<&'a str>, String> {
    for value in values {
        if let Some(found) = foreign_reference(value, depth + 1)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StdioServer;

    fn tool(name: &str, schema: Value) -> ListedTool {
        ListedTool {
            name: name.to_owned(),
            title: None,
            description: String::new(),
            input_schema: Arc::new(schema),
            output_schema: None,
            hints: ToolHints::default(),
        }
    }

    fn list(tools: impl IntoIterator<Item = ListedTool>) -> Listing {
        let mut listing = Listing::default();
        let server = McpServer::stdio("s", StdioServer::new("s"));
        listing.extend(&server, tools);
        listing
    }

    #[test]
    fn schemas_become_objects_with_properties() {
        let listing = list([tool("a", json!({}))]);
        assert_eq!(*listing.tools[0].input_schema, json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn references_out_of_the_schema_and_other_bad_schemas_are_left_out() {
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "properties": { "a": inner } }));
        let cases = [
            (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "file:///etc/passwd"),
            (json!({"allOf": [{"$ref": "https://example.com/x"}]}), "https://example.com/x"),
            (json!({"type": "array"}), "not an object"),
            (deep, "too deeply"),
            (json!({"description": "x".repeat(MAX_SCHEMA)}), "128 KiB"),
        ];
        for (schema, reason) in cases {
            let listing = list([tool("bad", schema), tool("good", json!({}))]);
            assert_eq!(listing.tools.len(), 1, "{reason}");
            assert!(listing.notes[0].contains(reason), "{:?}", listing.notes);
        }
        let recursive = json!({"$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"});
        assert_eq!(list([tool("tree", recursive)]).tools.len(), 1);
    }

    #[test]
    fn lists_are_bounded_and_say_so() {
        let many = list((0..10_000).map(|number| tool(&format!("t{number}"), json!({}))));
        assert_eq!(many.tools.len(), MAX_TOOLS);
        assert!(many.notes[0].contains("2000 tools"));
        let large =
            |number| tool(&format!("t{number}"), json!({"description": "x".repeat(100 << 10)}));
        let large = list((0..200).map(large));
        assert!(large.tools.len() < 100 && large.notes[0].contains("8 MiB"), "{:?}", large.notes);
    }
}
