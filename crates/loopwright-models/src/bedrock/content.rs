//! Content blocks of users and tools.

use std::borrow::Cow;

use loopwright_core::messages::{Content, Media, MediaSource, Part, ToolResult};
use serde::Serialize;

/// A block of a user's message, or of what a tool returned.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum WireBlock<'a> {
    Text(Cow<'a, str>),
    Image {
        format: &'static str,
        source: Source<'a>,
    },
    Document {
        format: &'static str,
        name: String,
        source: Source<'a>,
    },
    #[serde(rename_all = "camelCase")]
    ReasoningContent {
        reasoning_text: ReasoningText<'a>,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_use_id: &'a str,
        content: Vec<WireBlock<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
}

/// Reasoning without a signature.
#[derive(Serialize)]
pub(super) struct ReasoningText<'a> {
    pub(super) text: &'a str,
}

/// Where a picture or a document is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Source<'a> {
    Bytes(&'a str),
    S3Location { uri: &'a str },
}

impl<'a> WireBlock<'a> {
    /// Makes a block of words; nothing of blanks, which the wire refuses.
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        (!text.trim().is_empty()).then_some(Self::Text(text))
    }

    /// Returns a part as users say it; `None` for what only models say.
    pub(super) fn of(part: &'a Part) -> Option<Self> {
        match part.content() {
            Content::Text(text) | Content::Refusal(text) => Self::text(&**text),
            Content::Image(media) => Some(image(media).unwrap_or_else(|| not_shown("image"))),
            Content::Document(media) => {
                Some(document(media).unwrap_or_else(|| not_shown("document")))
            }
            _ => None,
        }
    }

    /// Returns what a tool said. The wire wants something to be said.
    pub(super) fn of_result(id: &'a str, result: &'a ToolResult) -> Self {
        let mut content: Vec<_> = result.content.iter().filter_map(Self::of).collect();
        if content.is_empty() {
            let words = if result.is_error { "The call failed." } else { "The call is done." };
            content.push(Self::Text(words.into()));
        }
        let status = result.is_error.then_some("error");
        Self::ToolResult { tool_use_id: id, content, status }
    }
}

/// Stands in the place of what cannot be sent.
pub(super) fn not_shown<'a>(what: &str) -> WireBlock<'a> {
    WireBlock::Text(format!("[{what}: omitted, because this provider does not accept it]").into())
}

fn image(media: &Media) -> Option<WireBlock<'_>> {
    let (mime, source) = source(media)?;
    let format = match mime {
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return None,
    };
    Some(WireBlock::Image { format, source })
}

fn document(media: &Media) -> Option<WireBlock<'_>> {
    let (mime, source) = source(media)?;
    let format = match mime {
        "application/pdf" => "pdf",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/markdown" => "md",
        "application/msword" => "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        mime if mime.starts_with("text/") => "txt",
        _ => return None,
    };
    let name = media.name.as_deref().map(file_name).filter(|it| !it.is_empty());
    Some(WireBlock::Document {
        format,
        name: name.unwrap_or_else(|| "document".to_owned()),
        source,
    })
}

/// Returns a name of the characters that the wire allows: letters, digits, hyphens, brackets, and
/// single blanks.
fn file_name(name: &str) -> String {
    let is_fine = |it: char| it.is_ascii_alphanumeric() || "-()[]".contains(it);
    let words = name.split(|it| !is_fine(it)).filter(|it| !it.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

fn source(media: &Media) -> Option<(&str, Source<'_>)> {
    match &media.source {
        MediaSource::Base64(data) => Some((&media.mime, Source::Bytes(data))),
        MediaSource::Url(url) if url.starts_with("s3://") => {
            Some((&media.mime, Source::S3Location { uri: url }))
        }
        MediaSource::Url(url) => {
            let (mime, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
            Some((mime, Source::Bytes(data)))
        }
        _ => None,
    }
}
