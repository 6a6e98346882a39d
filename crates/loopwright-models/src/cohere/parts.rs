//! Parts of user messages, and tool results that need one.

use std::borrow::Cow;

use loopwright_core::messages::{Content, MediaSource, Part, ToolResult};
use serde::Serialize;

use crate::result_text::result_text;

/// What stands in the place of a picture that cannot be shown.
pub(super) const NO_IMAGE: &str = "[image: omitted, because this provider does not accept it]";
/// What stands in the place of a file that cannot be shown.
pub(super) const NO_DOCUMENT: &str = "[document: omitted, because this provider does not accept \
    it]";
/// What a tool says that showed a picture.
const SHOWN_BELOW: &str = "[image: shown in the next message]";

/// A part of a user's message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WirePart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
pub(super) struct ImageUrl<'a> {
    url: Cow<'a, str>,
}

impl<'a> WirePart<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns a part as users say it; `None` for what only models say.
    ///
    /// Files go to this provider beside the conversation, not within it.
    pub(super) fn of(part: &'a Part) -> Option<Self> {
        match part.content() {
            Content::Text(text) => Some(Self::text(&**text)),
            Content::Image(_) => Some(Self::image(part).unwrap_or_else(|| Self::text(NO_IMAGE))),
            Content::Document(_) => Some(Self::text(NO_DOCUMENT)),
            _ => None,
        }
    }

    /// Returns a picture, if the part is one that can be shown.
    pub(super) fn image(part: &'a Part) -> Option<Self> {
        let Content::Image(media) = part.content() else { return None };
        let url = match &media.source {
            MediaSource::Base64(data) => format!("data:{};base64,{data}", media.mime).into(),
            MediaSource::Url(url) => Cow::Borrowed(&**url),
            _ => return None,
        };
        Some(Self::ImageUrl { image_url: ImageUrl { url } })
    }
}

/// Returns what a tool said in words; the wire lets tools say nothing else, so pictures follow as a
/// message of the user.
pub(super) fn tool_text(result: &ToolResult) -> String {
    let mut text = String::new();
    let mut is_after_media = false;
    for part in result.content.iter() {
        let (more, is_media) = match part.content() {
            Content::Text(text) => (&**text, false),
            Content::Image(_) if WirePart::image(part).is_some() => (SHOWN_BELOW, true),
            Content::Image(_) => (NO_IMAGE, true),
            Content::Document(_) => (NO_DOCUMENT, true),
            _ => continue,
        };
        if !text.is_empty() && (is_media || is_after_media) {
            text.push('\n');
        }
        text.push_str(more);
        is_after_media = is_media;
    }
    if text.is_empty() { result_text(result).into_owned() } else { text }
}
