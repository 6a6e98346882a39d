//! The results of calls for clients.

use loopwright_core::{
    AgentState, ToolOutcome, ToolOutput,
    messages::{Content, Media, MediaSource, Part},
};
use rmcp::model::{CallToolResult, ContentBlock};

/// Returns the result of the only call of a run.
pub(super) fn result(state: &AgentState) -> CallToolResult {
    let outcome = state.steps().find_map(|step| step.tool_executions().next());
    match outcome {
        Some((_, ToolOutcome::Returned(output))) => returned(output),
        Some((_, failed)) => error(failed.error_message()),
        None => {
            let errors: Vec<String> = state.errors().collect();
            let reason = state.stop_signal().map(|it| it.message.clone());
            let reason = errors.into_iter().next_back().or(reason);
            error(reason.unwrap_or_else(|| "the call did not run".to_owned()))
        }
    }
}

/// Makes the result of a call that failed; the client's model reads why.
pub(super) fn error(reason: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(reason)])
}

fn returned(output: &ToolOutput) -> CallToolResult {
    let mut result = CallToolResult::success(output.content.iter().filter_map(block).collect());
    let structured = output.value.as_deref().filter(|it| it.is_object());
    result.structured_content = structured.cloned();
    result
}

fn block(part: &Part) -> Option<ContentBlock> {
    match part.content() {
        Content::Text(text) | Content::Refusal(text) => Some(ContentBlock::text(&**text)),
        Content::Image(Media { mime, source: MediaSource::Base64(data), .. }) => {
            Some(ContentBlock::image(&**data, &**mime))
        }
        Content::Image(media) | Content::Document(media) => {
            let name = media.name.as_deref().unwrap_or("content");
            Some(ContentBlock::text(format!("[{name} of type {} was omitted]", media.mime)))
        }
        _ => None,
    }
}
