//! Results of servers as outputs of tools.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use loopwright_core::messages::{Content, Media, MediaSource, Part, Picture};
use loopwright_core::{ToolOutput, violation_of};
use rmcp::model::{CallToolResult, ContentBlock, PromptMessage, Resource, ResourceContents, Role};
use serde_json::Value;

use crate::text;

/// Characters of all texts of a result that the model is shown.
const MAX_TEXT: usize = 400_000;

/// Base64 characters of a picture that the model is shown: 5 MiB.
const MAX_IMAGE: usize = 7 << 20;

/// Pictures, files and recordings of one result.
const MAX_IMAGES: usize = 20;

/// The types of recordings that some wire sends.
const RECORDINGS: [&str; 6] =
    ["audio/wav", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/flac", "audio/aac"];

/// The output of a call, or the text of its failure.
pub(crate) fn output(
    result: CallToolResult,
    output_schema: Option<&Value>,
) -> Result<ToolOutput, String> {
    let mut writer = Writer::default();
    for block in result.content {
        writer.block(block);
    }
    if result.is_error == Some(true) {
        let message = writer.text_only();
        let fallback = || result.structured_content.as_ref().map(ToString::to_string);
        let message =
            if message.trim().is_empty() { fallback().unwrap_or_default() } else { message };
        return Err(if message.is_empty() {
            "the tool failed without a message".to_owned()
        } else {
            message
        });
    }
    if let Some(value) = &result.structured_content
        && writer.parts.is_empty()
    {
        writer.text(&value.to_string());
    }
    let mut value = result.structured_content;
    if let Some(schema) = output_schema
        && let Some(violation) = violation(schema, value.as_ref())
    {
        writer.text(&format!(
            "[the server's structured output does not match the output schema: {violation}]"
        ));
        value = None;
    }
    if writer.parts.is_empty() {
        writer.text("[the tool returned nothing]");
    }
    let mut output = ToolOutput::from_parts(writer.parts);
    output.value = value.map(Arc::new);
    Ok(output)
}

/// The parts of blocks of content.
pub(crate) fn parts(blocks: impl IntoIterator<Item = ContentBlock>) -> Vec<Part> {
    let mut writer = Writer::default();
    for block in blocks {
        writer.block(block);
    }
    writer.parts
}

/// The contents of a resource.
pub(crate) fn resource_parts(contents: Vec<ResourceContents>) -> Vec<Part> {
    let mut writer = Writer::default();
    for resource in contents {
        writer.resource(resource);
    }
    if writer.parts.is_empty() {
        writer.text("[the resource is empty]");
    }
    writer.parts
}

/// The messages of a prompt, as one message.
pub(crate) fn prompt_parts(messages: Vec<PromptMessage>) -> Vec<Part> {
    let mut writer = Writer::default();
    for message in messages {
        if message.role == Role::Assistant {
            writer.text("[the assistant says:]");
        }
        writer.block(message.content);
    }
    writer.parts
}

/// Returns what is wrong with structured output, or `None` if it fits its schema. A schema that is
/// itself broken lets everything pass.
fn violation(schema: &Value, value: Option<&Value>) -> Option<String> {
    let Some(value) = value else {
        return Some("it is missing".to_owned());
    };
    violation_of(&Arc::new(schema.clone()), value).map(|it| text::line(&it))
}

/// Collects parts within bounds.
#[derive(Default)]
struct Writer {
    parts: Vec<Part>,
    chars: usize,
    images: usize,
}

impl Writer {
    fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(content) => self.text(&content.text),
            ContentBlock::Image(image) => self.image(&image.mime_type, image.data),
            ContentBlock::Audio(audio) => self.file("audio", &audio.mime_type, audio.data, None),
            ContentBlock::Resource(embedded) => self.resource(embedded.resource),
            ContentBlock::ResourceLink(link) => self.link(&link),
            _ => self.text("[content of an unknown kind was omitted]"),
        }
    }

    fn text(&mut self, text: &str) {
        let room = MAX_TEXT.saturating_sub(self.chars);
        if room > 0 {
            // The text of a result may hold escapes, as that of a command may; what shows it to people cleans it.
            let text = text::cut(text, room);
            self.chars += text.chars().count();
            self.parts.push(Part::text(text));
        }
    }

    /// Adds a picture under the type that it has, whatever the server says.
    fn image(&mut self, mime: &str, data: String) {
        if data.len() > MAX_IMAGE || self.images >= MAX_IMAGES || !is_base64(&data) {
            return self.omitted("image", mime, &data);
        }
        let picture = BASE64_STANDARD.decode(&data).map_err(|error| error.to_string());
        let picture = picture.and_then(|it| Picture::of(&it).map_err(|error| error.to_string()));
        match picture {
            Ok(Picture { pixels: Some((width, height)), .. })
                if width.max(height) > Picture::MAX_EDGE =>
            {
                let reason = format!("an image of {width}×{height} pixels is too large");
                self.omitted_because("image", mime, &data, &reason);
            }
            Ok(picture) => {
                self.images += 1;
                self.parts.push(Part::image(picture.mime, data));
            }
            Err(reason) => self.omitted_because("image", mime, &data, &reason),
        }
    }

    /// Adds a file or a recording, which the wire of a provider sends or names in words.
    fn file(&mut self, kind: &str, mime: &str, data: String, uri: Option<&str>) {
        let is_carried = mime == "application/pdf" || RECORDINGS.contains(&mime);
        if !is_carried || data.len() > MAX_IMAGE || self.images >= MAX_IMAGES || !is_base64(&data) {
            return self.omitted(kind, mime, &data);
        }
        self.images += 1;
        let name = uri.map(|uri| uri.rsplit('/').next().unwrap_or(uri)).filter(|it| !it.is_empty());
        let source = MediaSource::Base64(data.into());
        let media = Media { mime: mime.into(), source, name: name.map(Into::into) };
        self.parts.push(Part::new(Content::Document(media)));
    }

    fn omitted(&mut self, kind: &str, mime: &str, base64: &str) {
        let bytes = base64.len() / 4 * 3;
        self.text(&format!("[{kind} of type {}, {bytes} bytes, was omitted]", text::line(mime)));
    }

    fn omitted_because(&mut self, kind: &str, mime: &str, base64: &str, reason: &str) {
        let bytes = base64.len() / 4 * 3;
        let mime = text::line(mime);
        self.text(&format!("[{kind} of type {mime}, {bytes} bytes, was omitted: {reason}]"));
    }

    fn link(&mut self, link: &Resource) {
        let mut shown = format!("[resource {}: {}", text::line(&link.name), text::line(&link.uri));
        for detail in [&link.mime_type, &link.description].into_iter().flatten() {
            shown.push_str(", ");
            shown.push_str(&text::line(detail));
        }
        shown.push(']');
        self.text(&shown);
    }

    fn resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.text(&format!("[resource {}]\n{text}", crate::text::line(&uri)));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime = mime_type.unwrap_or_default();
                let uri = text::line(&uri);
                if mime.starts_with("image/") {
                    self.image(&mime, blob);
                } else if let Some(decoded) = decoded(&mime, &blob) {
                    self.text(&format!("[resource {uri}]\n{decoded}"));
                } else {
                    self.file(&format!("resource {uri}"), &mime, blob, Some(&uri));
                }
            }
            _ => self.text("[a resource of an unknown kind was omitted]"),
        }
    }

    fn text_only(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the text of a resource that a server sends as if it were none.
fn decoded(mime: &str, blob: &str) -> Option<String> {
    let (mime, _) = mime.split_once(';').unwrap_or((mime, ""));
    let is_text = mime.starts_with("text/")
        || ["application/json", "application/xml", "application/yaml"].contains(&mime.trim())
        || mime.trim().ends_with("+json")
        || mime.trim().ends_with("+xml");
    if !is_text || blob.len() > MAX_TEXT * 2 {
        return None;
    }
    String::from_utf8(BASE64_STANDARD.decode(blob).ok()?).ok()
}

fn is_base64(data: &str) -> bool {
    let body = data.trim_end_matches('=');
    data.len().is_multiple_of(4)
        && data.len() - body.len() <= 2
        && body.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'+' || it == b'/')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A PNG of one pixel.
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";

    #[test]
    fn a_picture_that_no_provider_accepts_is_omitted_with_the_reason() {
        let text = BASE64_STANDARD.encode("no picture");
        let truncated = BASE64_STANDARD.encode(&BASE64_STANDARD.decode(PNG).unwrap()[..40]);
        let mut huge = BASE64_STANDARD.decode(PNG).unwrap();
        huge[17] = 1;
        let huge = BASE64_STANDARD.encode(huge);
        let image = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
        let content = json!({"content": [image(&text), image(&truncated), image(&huge)]});
        let output = output(result(content), None).unwrap();
        let texts: Vec<_> = output.content.iter().map(|it| it.as_text().unwrap()).collect();
        let expect = [
            "[image of type image/png, 12 bytes, was omitted: the data is not a PNG, JPEG, GIF or WebP image]",
            "[image of type image/png, 42 bytes, was omitted: the PNG image is truncated: its end is missing]",
            "[image of type image/png, 69 bytes, was omitted: an image of 65537×1 pixels is too large]",
        ];
        assert_eq!(texts, expect);
    }

    fn result(value: Value) -> CallToolResult {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn every_kind_of_content_reaches_the_model() {
        let result = result(json!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": PNG, "mimeType": "image/jpeg"},
            {"type": "image", "data": "not base64", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "body"}},
            {"type": "resource", "resource": {"uri": "file:///c.pdf", "blob": "aGk=", "mimeType": "application/pdf"}},
            {"type": "resource", "resource": {"uri": "file:///d", "blob": "aGk=", "mimeType": "application/json"}},
            {"type": "resource", "resource": {"uri": "file:///e", "blob": "aGk=", "mimeType": "application/zip"}},
            {"type": "audio", "data": "not base64", "mimeType": "audio/wav"},
        ]}));
        let output = output(result, None).unwrap();
        assert_eq!(output.content.len(), 10);
        let media = |mime: &str, name: Option<&str>| {
            let source = MediaSource::Base64("aGk=".into());
            let (mime, name) = (mime.into(), name.map(Into::into));
            Part::new(Content::Document(Media { mime, source, name }))
        };
        assert_eq!(output.content[1], Part::image("image/png", PNG));
        assert_eq!(output.content[3], media("audio/wav", None));
        assert_eq!(output.content[6], media("application/pdf", Some("c.pdf")));
        let text = output.to_text();
        for expected in [
            "hello",
            "[image of type image/png",
            "[audio of type audio/wav",
            "[resource a: file:///a, text/plain]",
            "[resource file:///b]\nbody",
            "[resource file:///d]\nhi",
            "[resource file:///e of type application/zip, 3 bytes, was omitted]",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn structured_output_is_the_value_if_it_fits_its_schema() {
        let schema =
            json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        let good = result(json!({"content": [], "structuredContent": {"n": 1}}));
        let good = output(good, Some(&schema)).unwrap();
        assert_eq!(
            (good.to_text().as_str(), good.value.as_deref()),
            ("{\"n\":1}", Some(&json!({"n": 1})))
        );
        for bad in [json!({"content": [], "structuredContent": {"n": "x"}}), json!({"content": []})]
        {
            let output = output(result(bad), Some(&schema)).unwrap();
            assert_eq!(output.value, None);
            assert!(
                output.to_text().contains("does not match the output schema"),
                "{}",
                output.to_text()
            );
        }
    }

    #[test]
    fn failures_are_errors_with_their_text() {
        let failed =
            result(json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        assert_eq!(output(failed, None).unwrap_err(), "no such file");
        let silent = result(json!({"content": [], "isError": true}));
        assert_eq!(output(silent, None).unwrap_err(), "the tool failed without a message");
    }

    #[test]
    fn a_flood_of_text_is_cut() {
        let block = json!({"type": "text", "text": "x".repeat(300_000)});
        let result = result(json!({"content": [block, block, block]}));
        let text = output(result, None).unwrap().to_text();
        assert!(text.len() < 410_000 && text.contains("truncated after"), "{}", text.len());
    }
}
