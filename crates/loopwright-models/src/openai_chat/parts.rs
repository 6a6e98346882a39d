//! Parts of user messages, and tool results that need one.

use std::{borrow::Cow, fmt::Write as _};

use loopwright_core::messages::{Content, Media, MediaSource, Part, ToolResult};
use serde::Serialize;

use crate::result_text::{NO_AUDIO, is_audio, result_text};

/// Returns what a tool said in words; the wire lets tools say nothing else, so media are announced
/// here and follow as a message of the user.
pub(super) fn tool_text(result: &ToolResult) -> String {
    let mut text = result_text(result).into_owned();
    for (_, media) in media_of(result) {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = write!(text, "See file {}", label(media));
    }
    text
}

/// Returns the pictures and files among what a tool returned.
pub(super) fn media_of(result: &ToolResult) -> impl Iterator<Item = (&Part, &Media)> {
    result.content.iter().filter_map(|part| match part.content() {
        Content::Image(media) | Content::Document(media) => Some((part, media)),
        _ => None,
    })
}

/// Returns what a tool showed, each thing after its announcement.
pub(super) fn announced_media(result: &ToolResult) -> impl Iterator<Item = WirePart<'_>> {
    media_of(result)
        .filter_map(|(part, media)| Some((wire_part(part)?, media)))
        .flat_map(|(part, media)| [WirePart::text(format!("This is file {}:", label(media))), part])
}

/// Names a file after what is in it, so that its name is the same every time (FNV-1a).
fn label(media: &Media) -> String {
    let (MediaSource::Base64(text) | MediaSource::Url(text) | MediaSource::File(text)) =
        &media.source
    else {
        return "unknown".to_owned();
    };
    let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    format!("{:06x}", hash >> 40)
}

/// A part of a user's message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WirePart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    File { file: File<'a> },
}

impl<'a> WirePart<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }
}

#[derive(Serialize)]
pub(super) struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
pub(super) struct File<'a> {
    #[serde(rename = "filename", skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(rename = "file_data", skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(rename = "file_id", skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

/// Returns a part as users say it; `None` for what they cannot say.
pub(super) fn wire_part(part: &Part) -> Option<WirePart<'_>> {
    match part.content() {
        Content::Text(text) => Some(WirePart::text(&**text)),
        Content::Image(media) => {
            let url = address(media)?;
            Some(WirePart::ImageUrl { image_url: ImageUrl { url } })
        }
        // Models of this wire that hear take it in another form, and the others refuse the request.
        Content::Document(media) if is_audio(media) => Some(WirePart::text(NO_AUDIO)),
        Content::Document(media) => {
            let id = match &media.source {
                MediaSource::File(id) => Some(&**id),
                _ => None,
            };
            // A name is required beside data.
            let name = media.name.as_deref().or(id.is_none().then_some("document"));
            Some(WirePart::File { file: File { name, data: address(media), id } })
        }
        _ => None,
    }
}

fn address(media: &Media) -> Option<String> {
    match &media.source {
        MediaSource::Base64(data) => Some(format!("data:{};base64,{data}", media.mime)),
        MediaSource::Url(url) => Some(url.to_string()),
        _ => None,
    }
}
