//! Decisions of a model in a thought-action loop, parsed from its text.

use loopwright_core::{
    ToolSet,
    messages::{FinishReason, Message, Part, ToolCall},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A decision of the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    Call { thought: String, tool: String, arguments: Map<String, Value> },
    Answer { thought: String, answer: String },
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Written {
    thought: String,
    #[serde(rename = "type")]
    kind: String,
    tool: Option<String>,
    args: Value,
    answer: Option<String>,
}

/// Returns the schema of a decision, for the model.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "thought": {"type": "string", "description": "Your thought, in one or two sentences."},
            "type": {"type": "string", "enum": ["call_tool", "final_answer"]},
            "tool": {"type": ["string", "null"], "description": "The tool to call."},
            "args": {"type": ["object", "null"], "description": "The tool's arguments by name."},
            "answer": {"type": ["string", "null"], "description": "The final answer."}
        },
        "required": ["thought", "type"]
    })
}

/// Finds the JSON object in a model's text: the whole text, a fenced block, or the outermost braces.
pub(super) fn extract(text: &str) -> Result<Value, String> {
    let fenced = || {
        let inside = text.split("```").nth(1)?;
        Some(inside.strip_prefix("json").unwrap_or(inside))
    };
    let braced = || text.get(text.find('{')?..=text.rfind('}')?);
    let candidates = [Some(text), fenced(), braced()];
    let mut first_error = None;
    for candidate in candidates.into_iter().flatten() {
        match serde_json::from_str::<Value>(candidate.trim()) {
            Ok(value) if value.is_object() => return Ok(value),
            Ok(_) => first_error.get_or_insert("not a JSON object".to_owned()),
            Err(error) => first_error.get_or_insert(format!("not JSON: {error}")),
        };
    }
    Err(first_error.unwrap_or_else(|| "empty".to_owned()))
}

impl Decision {
    /// Checks a decision against the available tools.
    pub(super) fn check(value: Value, tools: &ToolSet) -> Result<Self, String> {
        let written: Written = serde_json::from_value(value)
            .map_err(|error| format!("the object does not match the schema: {error}"))?;
        match written.kind.as_str() {
            "call_tool" => Self::call(written, tools),
            "final_answer" => match written.answer.filter(|it| !it.trim().is_empty()) {
                Some(answer) => Ok(Self::Answer { thought: written.thought, answer }),
                None => {
                    Err("a decision of type `final_answer` needs a non-empty `answer`".to_owned())
                }
            },
            other => Err(format!("`type` must be `call_tool` or `final_answer`, not `{other}`")),
        }
    }

    fn call(written: Written, tools: &ToolSet) -> Result<Self, String> {
        let name = written
            .tool
            .filter(|it| !it.is_empty())
            .ok_or("a decision of type `call_tool` needs a `tool`")?;
        let known = || tools.names().join(", ");
        let tool = tools
            .get(&name)
            .ok_or_else(|| format!("unknown tool `{name}`; available: {}", known()))?;
        let arguments = match written.args {
            Value::Object(arguments) => arguments,
            Value::Null => Map::new(),
            _ => return Err("`args` must be an object keyed by the tool's parameters".to_owned()),
        };
        let arguments = Value::Object(arguments);
        if let Some(violation) = tool.violation(&arguments) {
            return Err(format!("`args` do not match the schema of `{name}`: {violation}"));
        }
        let Value::Object(arguments) = arguments else {
            return Err("`args` must be an object".to_owned());
        };
        Ok(Self::Call { thought: written.thought, tool: name, arguments })
    }

    /// Converts the decision into the message of a model with native tool calls.
    pub(super) fn into_message(self, step: u32) -> (Message, FinishReason) {
        match self {
            Self::Call { thought, tool, arguments } => {
                let id = format!("react_{step}");
                let call = ToolCall::new(id, tool, Value::Object(arguments).to_string());
                let call = Part::new(loopwright_core::messages::Content::ToolCall(call));
                let thought = Some(Part::text(thought)).filter(|it| !it.is_empty());
                let parts: Vec<Part> = thought.into_iter().chain([call]).collect();
                let role = loopwright_core::messages::Role::Assistant;
                (Message::new(role, parts), FinishReason::ToolCalls)
            }
            Self::Answer { answer, .. } => (Message::assistant(answer), FinishReason::Stop),
        }
    }
}
