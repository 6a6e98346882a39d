//! The results of calls for clients.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use loopwright_core::{
    AgentState, ToolOutcome, ToolOutput,
    messages::{self, Content, Media, MediaSource, Message, Part},
};
use rmcp::model::{
    AudioContent, CallToolResult, ContentBlock, PromptMessage, Resource, ResourceContents, Role,
};

use super::{ResourceBody, ResourceData};

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
        Content::Image(media) => {
            Some(media_block(media, |data| ContentBlock::image(data, &*media.mime)))
        }
        Content::Document(media) if media.mime.starts_with("audio/") => {
            let audio = |data: &str| ContentBlock::Audio(AudioContent::new(data, &*media.mime));
            Some(media_block(media, audio))
        }
        Content::Document(media) => {
            Some(media_block(media, |data| ContentBlock::resource(embedded(media, data))))
        }
        _ => None,
    }
}

/// Content that is at hand, or a link to it.
fn media_block(media: &Media, inline: impl FnOnce(&str) -> ContentBlock) -> ContentBlock {
    let name = media.name.as_deref();
    match &media.source {
        MediaSource::Base64(data) => inline(data),
        MediaSource::Url(url) => {
            let link = Resource::new(&**url, name.unwrap_or(url)).with_mime_type(&*media.mime);
            ContentBlock::ResourceLink(link)
        }
        _ => {
            let name = name.unwrap_or("content");
            ContentBlock::text(format!("[{name} of type {} was omitted]", media.mime))
        }
    }
}

/// A document as a resource. Its name is its address if it is one.
fn embedded(media: &Media, base64: &str) -> ResourceContents {
    let name = media.name.as_deref().unwrap_or("document");
    let uri = if name.contains("://") { name.to_owned() } else { format!("attachment:{name}") };
    let text = BASE64.decode(base64).ok().filter(|_| is_text(&media.mime));
    let contents = match text.and_then(|it| String::from_utf8(it).ok()) {
        Some(text) => ResourceContents::text(text, uri),
        None => ResourceContents::blob(base64, uri),
    };
    contents.with_mime_type(&*media.mime)
}

fn is_text(mime: &str) -> bool {
    mime.starts_with("text/")
        || mime.ends_with("json")
        || mime.ends_with("xml")
        || mime.ends_with("yaml")
}

/// Returns the content of a resource.
pub(super) fn resource(body: ResourceBody, uri: String) -> ResourceContents {
    let contents = match body.data {
        ResourceData::Text(text) => ResourceContents::text(text, uri),
        ResourceData::Bytes(bytes) => ResourceContents::blob(BASE64.encode(bytes), uri),
    };
    match body.mime_type {
        Some(mime_type) => contents.with_mime_type(mime_type),
        None => contents,
    }
}

/// Returns the messages of a prompt, one for each part.
pub(super) fn prompt_messages(messages: &[Message]) -> Vec<PromptMessage> {
    let blocks = messages.iter().flat_map(|message| {
        let role = match message.role() {
            messages::Role::Assistant => Role::Assistant,
            _ => Role::User,
        };
        message.parts().iter().filter_map(block).map(move |it| PromptMessage::new(role.clone(), it))
    });
    blocks.collect()
}
