//! The content of a message: text and images.

use std::borrow::Cow;

use loopwright_core::messages::{Content, MediaSource, Part, ToolResult};

/// The words and the pictures of a message.
pub(super) struct Words<'a> {
    pub(super) text: Cow<'a, str>,
    /// In base64.
    pub(super) images: Vec<&'a str>,
}

impl<'a> Words<'a> {
    /// Collects what parts say; words stand in the place of what cannot be shown.
    pub(super) fn of(parts: impl IntoIterator<Item = &'a Part>) -> Self {
        let (mut text, mut images) = (Cow::Borrowed(""), Vec::new());
        for part in parts {
            match part.content() {
                Content::Text(more) | Content::Refusal(more) => add(&mut text, more),
                Content::Image(media) => match &media.source {
                    MediaSource::Base64(data) => images.push(&**data),
                    _ => add(
                        &mut text,
                        "[image: omitted, because this provider does not accept \
                        it]",
                    ),
                },
                Content::Document(_) => {
                    add(&mut text, "[document: omitted, because this provider does not accept it]");
                }
                _ => {}
            }
        }
        Self { text, images }
    }
}

fn add<'a>(text: &mut Cow<'a, str>, more: &'a str) {
    if text.is_empty() {
        *text = Cow::Borrowed(more);
    } else {
        text.to_mut().push_str(more);
    }
}

/// Returns `true` if a tool returned anything but words.
pub(super) fn shows_media(result: &ToolResult) -> bool {
    result.content.iter().any(is_media)
}

pub(super) fn is_media(part: &Part) -> bool {
    matches!(part.content(), Content::Image(_) | Content::Document(_))
}
