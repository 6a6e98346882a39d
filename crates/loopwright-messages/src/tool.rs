//! Tools in a conversation: specifications, calls, results.

use std::{ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{part::Part, shared};

/// A call as the model wrote it, even if malformed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's ID. It can be missing, and it can repeat: results belong to calls by
    /// position.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shared::opt_str"
    )]
    pub id: Option<Arc<str>>,
    /// The tool's name.
    #[serde(deserialize_with = "shared::text")]
    pub name: Arc<str>,
    /// The arguments: JSON, byte for byte as written by the model.
    #[serde(deserialize_with = "shared::text")]
    pub arguments: Arc<str>,
}

impl ToolCall {
    /// Creates a call.
    pub fn new(
        id: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        arguments: impl Into<Arc<str>>,
    ) -> Self {
        Self { id: Some(id.into()), name: name.into(), arguments: arguments.into() }
    }

    /// Parses the arguments. Empty text and `null` mean an empty object.
    pub fn parse_arguments(&self) -> Result<Value, serde_json::Error> {
        parse_arguments(&self.arguments)
    }
}

pub(crate) fn parse_arguments(text: &str) -> Result<Value, serde_json::Error> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    Ok(match serde_json::from_str(text)? {
        Value::Null => Value::Object(serde_json::Map::new()),
        value => value,
    })
}

/// The result of a call, for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Text and images.
    pub content: Arc<[Part]>,
    /// Whether the call failed, was blocked or did not run.
    #[serde(default)]
    pub is_error: bool,
}

impl ToolResult {
    /// Creates a successful result.
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self { content: Arc::new([Part::text(text)]), is_error: false }
    }

    /// Creates an error result.
    pub fn error(text: impl Into<Arc<str>>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Returns the text of the result, joined.
    pub fn to_text(&self) -> String {
        self.content.iter().filter_map(Part::as_text).collect()
    }
}

/// A tool as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name, unique within a request.
    pub name: Arc<str>,
    /// The description, written for the model.
    pub description: Arc<str>,
    /// The JSON Schema of the arguments: an object.
    pub parameters: Arc<Value>,
}

/// The tools of a request, shared: two requests that offer the same tools hold the same list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolSpecs(Arc<[ToolSpec]>);

impl ToolSpecs {
    /// Returns `true` if both are one list in memory.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.is_empty() && other.is_empty())
    }
}

impl FromIterator<ToolSpec> for ToolSpecs {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(specs: I) -> Self {
        Self(specs.into_iter().collect())
    }
}

impl Deref for ToolSpecs {
    type Target = [ToolSpec];

    fn deref(&self) -> &[ToolSpec] {
        &self.0
    }
}
