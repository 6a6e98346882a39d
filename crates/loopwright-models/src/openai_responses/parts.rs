//! Parts of user messages and tool results.

use std::borrow::Cow;

use loopwright_core::messages::{Content, Media, MediaSource, Part};
use serde::Serialize;

use crate::result_text::{NO_AUDIO, is_audio};

/// A part of what is said to the model.
#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum WirePart<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image {
        #[serde(skip_serializing_if = "Option::is_none")]
        image_url: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<&'a str>,
    },
    #[serde(rename = "input_file")]
    File {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<&'a str>,
    },
}

impl<'a> WirePart<'a> {
    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns a part as users say it; `None` for what only models say.
    pub(super) fn of(part: &'a Part) -> Option<Self> {
        match part.content() {
            Content::Text(text) => Some(Self::text(&**text)),
            Content::Image(media) => Some(image(media)),
            Content::Document(media) if is_audio(media) => Some(Self::text(NO_AUDIO)),
            Content::Document(media) => Some(document(media)),
            _ => None,
        }
    }
}

/// What stands in the place of a picture that cannot be shown.
pub(super) const NO_IMAGE: &str = "[image: omitted, because this provider does not accept it]";
/// What stands in the place of a file that cannot be shown.
pub(super) const NO_DOCUMENT: &str = "[document: omitted, because this provider does not accept \
    it]";

fn image(media: &Media) -> WirePart<'_> {
    let (image_url, file_id) = match &media.source {
        MediaSource::Base64(data) => (Some(address(media, data).into()), None),
        MediaSource::Url(url) => (Some(Cow::Borrowed(&**url)), None),
        MediaSource::File(id) => (None, Some(&**id)),
        _ => return WirePart::text(NO_IMAGE),
    };
    WirePart::Image { image_url, file_id }
}

fn document(media: &Media) -> WirePart<'_> {
    let name = media.name.as_deref();
    let (filename, file_data, file_url, file_id) = match &media.source {
        // A name is required beside data, and refused beside anything else.
        MediaSource::Base64(data) => {
            (Some(name.unwrap_or("document")), Some(address(media, data)), None, None)
        }
        MediaSource::Url(url) => (None, None, Some(&**url), None),
        MediaSource::File(id) => (None, None, None, Some(&**id)),
        _ => return WirePart::text(NO_DOCUMENT),
    };
    WirePart::File { filename, file_data, file_url, file_id }
}

/// Returns base64 text as an address.
pub(super) fn address(media: &Media, data: &str) -> String {
    format!("data:{};base64,{data}", media.mime)
}
