//! What the user says, from the content blocks of a prompt.

use std::sync::Arc;

use loopwright_core::messages::{Content, Media, MediaSource, Message, Part, Role};
use serde_json::{Value, json};

use super::error::RpcError;
use crate::file_url;
use crate::render::fence;

/// Makes a message of the content blocks of a prompt.
///
/// # Errors
///
/// Returns an error if a block is malformed or of a kind that was not offered.
pub(super) fn message(blocks: &Value) -> Result<Message, RpcError> {
    let blocks = blocks.as_array().ok_or_else(|| invalid("`prompt` must be a list"))?;
    let parts = blocks.iter().map(part).collect::<Result<Vec<_>, _>>()?;
    Ok(Message::new(Role::User, joined(parts)))
}

/// Joins texts that follow each other: editors split a message where something is mentioned.
fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        if let (Some(text), Some(last)) = (part.as_text(), joined.last_mut())
            && let Some(before) = last.as_text()
        {
            *last = Part::text(format!("{before}{text}"));
        } else {
            joined.push(part);
        }
    }
    joined
}

fn part(block: &Value) -> Result<Part, RpcError> {
    let text = |value: &Value, name: &str| {
        let text = value[name].as_str().map(str::to_owned);
        text.ok_or_else(|| invalid(&format!("a content block lacks `{name}`")))
    };
    match block["type"].as_str() {
        Some("text") => Ok(Part::text(text(block, "text")?)),
        Some("image") => Ok(Part::image(text(block, "mimeType")?, text(block, "data")?)),
        Some("resource_link") => {
            let (name, uri) = (text(block, "name")?, text(block, "uri")?);
            Ok(Part::text(mention(&name, &uri)))
        }
        Some("resource") => resource(&block["resource"]),
        Some("audio") => Err(invalid("audio is not supported")),
        _ => Err(invalid("a content block has an unknown `type`")),
    }
}

/// Names a file by its path, which the agent's tools understand; anything else by its address.
fn mention(name: &str, uri: &str) -> String {
    match file_url::path(uri) {
        Some(path) => format!("`{path}`"),
        None => format!("[{name}]({uri})"),
    }
}

fn resource(resource: &Value) -> Result<Part, RpcError> {
    let uri = resource["uri"].as_str().ok_or_else(|| invalid("a resource lacks `uri`"))?;
    let name = file_url::path(uri).unwrap_or_else(|| uri.to_owned());
    if let Some(text) = resource["text"].as_str() {
        let fence = fence(text);
        return Ok(Part::text(format!("\n`{name}`:\n{fence}\n{text}\n{fence}\n")));
    }
    let data = resource["blob"].as_str().ok_or_else(|| invalid("a resource has no content"))?;
    let mime = resource["mimeType"].as_str().unwrap_or("application/octet-stream");
    if mime.starts_with("image/") {
        return Ok(Part::image(mime, data));
    }
    let source = MediaSource::Base64(data.into());
    Ok(Part::new(Content::Document(Media {
        mime: mime.into(),
        source,
        name: Some(Arc::from(name)),
    })))
}

/// Returns the content block of a part; `None` for parts that are no content.
pub(super) fn block(part: &Part) -> Option<Value> {
    match part.content() {
        Content::Text(text) | Content::Refusal(text) | Content::Reasoning(text) => {
            (!text.is_empty()).then(|| json!({"type": "text", "text": text}))
        }
        Content::Image(Media { mime, source: MediaSource::Base64(data), .. }) => {
            Some(json!({"type": "image", "mimeType": mime, "data": data}))
        }
        Content::Document(Media { mime, source: MediaSource::Base64(data), name }) => {
            let uri = name.as_deref().unwrap_or("document");
            let resource = json!({"uri": uri, "mimeType": mime, "blob": data});
            Some(json!({"type": "resource", "resource": resource}))
        }
        Content::Image(media) | Content::Document(media) => {
            let name = media.name.as_deref().unwrap_or("attachment");
            match &media.source {
                MediaSource::Url(url) => {
                    Some(json!({"type": "resource_link", "name": name, "uri": url}))
                }
                _ => Some(json!({"type": "text", "text": format!("[{name}]")})),
            }
        }
        _ => None,
    }
}

fn invalid(message: &str) -> RpcError {
    RpcError::invalid_params(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_mentions_are_one_text_as_they_were_typed() {
        let said = message(&json!([
            {"type": "text", "text": "Look at "},
            {"type": "resource_link", "name": "a b.rs", "uri": "file:///w/a%20b.rs"},
            {"type": "text", "text": " and "},
            {"type": "resource_link", "name": "the page", "uri": "https://a.example/"},
        ]));
        let said = said.unwrap();
        assert_eq!(said.parts().len(), 1);
        assert_eq!(said.text(), "Look at `/w/a b.rs` and [the page](https://a.example/)");
    }

    #[test]
    fn embedded_files_keep_their_text_whatever_is_in_it() {
        let resource = json!({"uri": "file:///w/a.md", "text": "```\nx\n```"});
        let said = message(&json!([{"type": "resource", "resource": resource}])).unwrap();
        assert_eq!(said.text(), "\n`/w/a.md`:\n````\n```\nx\n```\n````\n");
    }

    #[test]
    fn pictures_and_documents_are_parts_of_their_own() {
        let blob = json!({"uri": "file:///w/a.pdf", "mimeType": "application/pdf", "blob": "QQ=="});
        let picture = json!({"type": "image", "mimeType": "image/png", "data": "QQ=="});
        let blocks = json!([
            {"type": "text", "text": "What is this?"}, picture,
            {"type": "resource", "resource": blob},
        ]);
        let said = message(&blocks).unwrap();
        let blocks: Vec<Value> = said.parts().iter().filter_map(block).collect();
        assert_eq!(blocks[1], picture);
        assert_eq!(blocks[2]["resource"]["blob"], "QQ==");
    }

    #[test]
    fn content_types_that_were_not_offered_are_refused() {
        for block in [
            json!({"type": "audio", "data": "", "mimeType": ""}),
            json!({"type": "text"}),
            json!(7),
        ] {
            assert!(message(&json!([block])).is_err(), "{block}");
        }
        assert!(message(&json!("text")).is_err());
    }
}
