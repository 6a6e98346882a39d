//! Tools that run elsewhere.

use std::{fmt, sync::Arc};

use loopwright_messages::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::tool::{AnyTool, IntoTool, SideEffects, ToolApproval, ToolOptions};

/// A tool that runs elsewhere: in a browser, on a phone, by another team.
///
/// Its calls run nothing here. Each waits as a [pending](crate::AgentState::pending) request of the
/// kind [`RequestKind::External`](crate::RequestKind::External), like a call that needs approval,
/// until its result or an error is recorded. Any process can record it and resume the run.
///
/// ```
/// use loopwright_core::{AgentState, ApprovalDecision, ExternalTool, RequestKind};
/// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
/// use serde_json::json;
///
/// let locate = ExternalTool::new("locate", "Returns the position of the phone.")
///     .with_result_schema(json!({ "type": "string" }));
/// let steps = [ScenarioStep::tool_call("locate", json!({})), "You are in Bern.".into()];
/// let agent = test_loop(FakeDriver::steps(steps)).with_tool(locate);
///
/// let state = block_on(agent.execute(AgentState::new().with_user_message("Where am I?")));
/// let waiting = state.pending()[0];
/// assert!(matches!(waiting.kind, RequestKind::External { .. }));
///
/// let address = waiting.address();
/// assert!(agent.decide(&state, &address, ApprovalDecision::Reply(json!(7))).is_err());
/// let state = agent.decide(&state, &address, ApprovalDecision::Reply(json!("46.9, 7.4")))?;
/// assert_eq!(block_on(agent.execute(state)).text(), "You are in Bern.");
/// # Ok::<_, loopwright_core::BoxError>(())
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use = "a tool does nothing until it is added to an agent"]
pub struct ExternalTool {
    name: Arc<str>,
    #[serde(default)]
    description: Arc<str>,
    /// The JSON Schema of the arguments.
    #[serde(default = "any_object")]
    parameters: Arc<Value>,
    /// The JSON Schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Arc<Value>>,
    /// The question to the user if calls need approval before the result is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval: Option<Arc<str>>,
    /// Whether a call only reads, so that modes that forbid changes allow it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
}

fn any_object() -> Arc<Value> {
    Arc::new(json!({ "type": "object", "properties": {} }))
}

impl ExternalTool {
    /// Creates a tool that takes any object and returns any JSON value.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: any_object(),
            result: None,
            approval: None,
            read_only: false,
        }
    }

    /// Sets the JSON Schema of the arguments, an object.
    pub fn with_parameters(self, schema: impl Into<Arc<Value>>) -> Self {
        Self { parameters: schema.into(), ..self }
    }

    /// Sets the JSON Schema of the result. A result that does not match is refused, and the call
    /// still waits.
    pub fn with_result_schema(self, schema: impl Into<Arc<Value>>) -> Self {
        Self { result: Some(schema.into()), ..self }
    }

    /// Makes calls need approval before the result is asked for, with a question to the user.
    pub fn with_approval(self, question: impl Into<Arc<str>>) -> Self {
        Self { approval: Some(question.into()), ..self }
    }

    /// Declares that a call only reads, so that modes that forbid changes allow it.
    pub fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}

impl IntoTool for ExternalTool {
    fn into_tool(self) -> AnyTool {
        let Self { name, description, parameters, result, approval, read_only } = self;
        let spec = ToolSpec { name, description, parameters };
        let options = ToolOptions {
            // Nothing runs here: a call that was interrupted asks for its result again.
            side_effects: if read_only { SideEffects::ReadOnly } else { SideEffects::Resumable },
            approval: approval.map_or(ToolApproval::Never, ToolApproval::Always),
            ..ToolOptions::default()
        };
        AnyTool::external(spec, options, result)
    }
}

impl fmt::Debug for ExternalTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExternalTool").field(&self.name).finish()
    }
}
