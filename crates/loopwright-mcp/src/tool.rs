//! A tool of a server as a tool of an agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use loopwright_core::{
    AnyTool, SideEffects, ToolCx, ToolError, ToolHandler, ToolOptions, ToolOutput, ToolVisibility,
    messages::ToolSpec,
};
use rmcp::model::{CallToolRequestParams, CallToolResult, ServerResult};
use serde_json::Value;

use crate::client::McpClient;
use crate::content;
use crate::elicitation::ElicitationReply;
use crate::event::{McpProgress, McpServerConnected};
use crate::input::InputRound;
use crate::text;
use crate::tools::ListedTool;

/// Makes the tool of an agent.
pub(crate) fn tool(
    client: &McpClient,
    name: String,
    listed: &ListedTool,
    visibility: ToolVisibility,
    announced: &Arc<AtomicU64>,
) -> AnyTool {
    let server = client.server();
    let side_effects = match listed.hints {
        hints if server.trust_annotations && hints.read_only => SideEffects::ReadOnly,
        hints if server.trust_annotations && hints.idempotent => SideEffects::Idempotent,
        _ => SideEffects::AtMostOnce,
    };
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
    let handler = Handler {
        client: client.clone(),
        tool: listed.name.clone(),
        output_schema: listed.output_schema.clone(),
        announced: Arc::clone(announced),
    };
    AnyTool::dynamic(spec, options, Arc::new(handler))
}

struct Handler {
    client: McpClient,
    tool: String,
    output_schema: Option<Arc<Value>>,
    /// The start of the server that listeners know of.
    announced: Arc<AtomicU64>,
}

#[async_trait]
impl ToolHandler for Handler {
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let server = &self.client.server().name;
        let mut params = CallToolRequestParams::new(self.tool.clone());
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments);
        }
        let report = |progress: crate::handler::Progress| {
            cx.events.emit(|| McpProgress {
                server: server.clone(),
                tool: cx.call.name.to_string(),
                call_id: cx.call.id.as_deref().map(ToOwned::to_owned),
                progress: progress.done,
                total: progress.total,
                message: progress.message.as_deref().map(text::line),
            });
        };
        let mut round = 0;
        if let Some(kept) = cx.resume_value() {
            let mut input: InputRound = serde_json::from_value(kept.clone())
                .map_err(|error| ToolError::Failed(error.into()))?;
            let answer = cx.answer().cloned().unwrap_or_default();
            input.reply(match answer {
                Value::Bool(false) => ElicitationReply::Decline,
                answer => ElicitationReply::Accept(answer),
            });
            if let Some(pause) = input.to_pause() {
                return Err(pause.into());
            }
            round = input.round;
            params.input_responses = Some(input.responses);
            params.request_state = input.request_state;
        }
        loop {
            let called = self.client.call(params.clone(), cx.cancel, report).await;
            let (connection, result) = called.map_err(|error| ToolError::Failed(error.into()))?;
            self.announce(&connection.info, cx);
            let result = match result {
                ServerResult::CallToolResult(result) => result,
                ServerResult::EmptyResult(_) => CallToolResult::default(),
                ServerResult::InputRequiredResult(required) => {
                    let input = self.client.input(round, required);
                    let mut input = input.map_err(|reason| ToolError::Failed(reason.into()))?;
                    if !self.client.answer(&mut input).await
                        && let Some(pause) = input.to_pause()
                    {
                        return Err(pause.into());
                    }
                    round = input.round;
                    params.input_responses = Some(input.responses);
                    params.request_state = input.request_state;
                    continue;
                }
                _ => return Err(ToolError::Failed(connection.unexpected("tools/call").into())),
            };
            return content::output(result, self.output_schema.as_deref())
                .map_err(|message| ToolError::Failed(message.into()));
        }
    }
}

impl Handler {
    fn announce(&self, info: &crate::connection::ConnectionInfo, cx: &ToolCx<'_>) {
        let start = self.client.status().starts;
        if self.announced.swap(start, Ordering::AcqRel) != start {
            let server = self.client.server();
            cx.events.emit(|| McpServerConnected {
                server: server.name.clone(),
                protocol: info.protocol.clone(),
                implementation: info.implementation.clone(),
                is_confined: server.is_confined(),
            });
        }
    }
}
