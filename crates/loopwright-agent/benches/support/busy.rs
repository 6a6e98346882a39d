//! A model that calls a tool in every answer, and its tool.

use async_trait::async_trait;
use loopwright_core::{
    AnyTool, BoxError, ChatModel, InferCx, IntoTool as _, ModelError,
    messages::{
        Content, InferenceRequest, InferenceResponse, Message, Part, Role, ToolCall, Usage,
    },
    tool_fn,
};

/// Calls a tool in every answer.
pub(crate) struct Busy;

#[async_trait]
impl ChatModel for Busy {
    async fn infer(
        &self,
        _request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let call = ToolCall::new("call_1", "add", r#"{"a":1,"b":2}"#);
        let message = Message::new(Role::Assistant, [Part::new(Content::ToolCall(call))]);
        Ok(InferenceResponse::new(message, Usage::new(100, 10)))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

pub(crate) fn add() -> AnyTool {
    let add = |args: Add| async move { Ok::<_, BoxError>(args.a + args.b) };
    tool_fn("add", "Adds two numbers.", add).into_tool()
}
