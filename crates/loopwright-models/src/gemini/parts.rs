//! Parts of user messages.

use std::borrow::Cow;

use loopwright_core::messages::{Content, Media, MediaSource, Part, ToolResult};
use serde::Serialize;

/// The address beneath which the Gemini API keeps files.
const FILES: &str = "https://generativelanguage.googleapis.com/v1beta/";

/// A part of a content.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum WirePart<'a> {
    Text(Cow<'a, str>),
    InlineData(InlineData<'a>),
    FileData(FileData<'a>),
}

impl<'a> WirePart<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileData<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    mime_type: &'a str,
    file_uri: Cow<'a, str>,
}

/// Returns a part as users say it; `None` for what they do not say.
pub(super) fn wire_part(part: &Part) -> Option<WirePart<'_>> {
    match part.content() {
        Content::Text(text) | Content::Refusal(text) => Some(WirePart::text(&**text)),
        Content::Image(media) => Some(wire_media(media, "image")),
        Content::Document(media) => Some(wire_media(media, "document")),
        _ => None,
    }
}

/// Returns a picture or a file, or words in its place if it is with another provider.
fn wire_media<'a>(media: &'a Media, what: &str) -> WirePart<'a> {
    let mime_type = &*media.mime;
    let address = match &media.source {
        MediaSource::Base64(data) => {
            return WirePart::InlineData(InlineData { mime_type, data });
        }
        MediaSource::Url(url) => Some(Cow::Borrowed(&**url)),
        MediaSource::File(id) if id.starts_with("https://") || id.starts_with("gs://") => {
            Some(Cow::Borrowed(&**id))
        }
        MediaSource::File(id) if id.starts_with("files/") => {
            Some(Cow::Owned(format!("{FILES}{id}")))
        }
        _ => None,
    };
    match address {
        Some(file_uri) => WirePart::FileData(FileData { mime_type, file_uri }),
        None => WirePart::text(format!(
            "[{what}: omitted, because this provider does not accept \
            it]"
        )),
    }
}

/// Returns the pictures and files among what a tool returned.
pub(super) fn media_of(result: &ToolResult) -> impl Iterator<Item = &Part> {
    let is_media =
        |part: &&Part| matches!(part.content(), Content::Image(_) | Content::Document(_));
    result.content.iter().filter(is_media)
}

/// Returns `true` if the result of a tool can hold a part, where results hold parts at all.
pub(super) fn fits_within(part: &Part) -> bool {
    const TYPES: [&str; 5] =
        ["image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"];
    match part.content() {
        Content::Image(media) | Content::Document(media) => {
            matches!(media.source, MediaSource::Base64(_)) && TYPES.contains(&&*media.mime)
        }
        _ => false,
    }
}
