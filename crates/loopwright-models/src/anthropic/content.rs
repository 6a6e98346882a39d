//! Content blocks of users and tools.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use loopwright_core::messages::{Content, Media, MediaSource, Part, ToolResult};
use serde::Serialize;

/// A block of a user's message, or of what a tool returned.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WireBlock<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<WireBlock<'a>>,
        #[serde(skip_serializing_if = "is_false")]
        is_error: bool,
    },
}

/// Where a picture or a document is.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Text { media_type: &'static str, data: String },
    Url { url: &'a str },
    File { file_id: &'a str },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
pub(super) fn is_false(it: &bool) -> bool {
    !it
}

impl<'a> WireBlock<'a> {
    /// Makes a block of words; nothing of blanks, which the wire refuses.
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        (!text.trim().is_empty()).then_some(Self::Text { text })
    }

    /// Returns a part as users say it; `None` for what only models say.
    pub(super) fn of(part: &'a Part) -> Option<Self> {
        match part.content() {
            Content::Text(text) | Content::Refusal(text) => Self::text(&**text),
            Content::Image(media) => Some(match image(media) {
                Some(source) => Self::Image { source },
                None => not_shown("image"),
            }),
            Content::Document(media) => Some(match document(media) {
                Some(source) => Self::Document { source, title: media.name.as_deref() },
                None => not_shown("document"),
            }),
            _ => None,
        }
    }

    /// Returns what a tool said, and what it showed that cannot stand there: the wire lets failures
    /// have words only.
    pub(super) fn of_result(id: &'a str, result: &'a ToolResult) -> (Self, Vec<Self>) {
        let is_error = result.is_error;
        let blocks = result.content.iter().filter_map(Self::of);
        let (mut content, shown): (Vec<_>, Vec<_>) =
            blocks.partition(|it| !is_error || matches!(it, Self::Text { .. }));
        if is_error && content.is_empty() {
            content.push(Self::Text { text: "The call failed.".into() });
        }
        (Self::ToolResult { tool_use_id: id, content, is_error }, shown)
    }
}

/// Stands in the place of what cannot be sent.
pub(super) fn not_shown<'a>(what: &str) -> WireBlock<'a> {
    let text = format!("[{what}: omitted, because this provider does not accept it]");
    WireBlock::Text { text: text.into() }
}

fn image(media: &Media) -> Option<Source<'_>> {
    let source = source(media)?;
    match source {
        Source::Base64 { media_type, .. } => {
            let is_known =
                ["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&media_type);
            is_known.then_some(source)
        }
        other => Some(other),
    }
}

fn document(media: &Media) -> Option<Source<'_>> {
    match source(media)? {
        Source::Base64 { media_type: "application/pdf", data } => {
            Some(Source::Base64 { media_type: "application/pdf", data })
        }
        // Of texts, the wire takes the words.
        Source::Base64 { data, .. } => {
            let text = String::from_utf8(BASE64_STANDARD.decode(data).ok()?).ok()?;
            Some(Source::Text { media_type: "text/plain", data: text })
        }
        other => Some(other),
    }
}

fn source(media: &Media) -> Option<Source<'_>> {
    match &media.source {
        MediaSource::Base64(data) => Some(Source::Base64 { media_type: &media.mime, data }),
        MediaSource::Url(url) => match url.strip_prefix("data:") {
            Some(inline) => {
                let (media_type, data) = inline.split_once(";base64,")?;
                Some(Source::Base64 { media_type, data })
            }
            None => Some(Source::Url { url }),
        },
        // Other providers' ids look different.
        MediaSource::File(id) => id.starts_with("file_").then_some(Source::File { file_id: id }),
        _ => None,
    }
}
