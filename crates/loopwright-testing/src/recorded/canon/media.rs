//! Images and documents in the wire formats.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use loopwright_core::messages::{Media, MediaSource};
use serde_json::Value;

/// Reads a picture or a document. Returns `None` if it is neither.
pub(super) fn media(kind: &str, value: &Value) -> Option<Media> {
    if !matches!(kind, "image" | "document") {
        return None;
    }
    let places = [value, &value["file"], &value["source"]];
    let find = |names: &[&str]| {
        places.iter().find_map(|place| names.iter().find_map(|name| place[*name].as_str()))
    };
    let name = find(&["filename", "title", "name"]).map(Into::into);
    let mime = find(&["media_type", "mimeType", "mime_type"]);
    let mime = mime.map_or_else(|| default_mime(kind, value), str::to_owned);
    let of = |mime: &str, source| Some(Media { mime: mime.into(), source, name: name.clone() });
    if value["type"] == "text" {
        let data = BASE64_STANDARD.encode(find(&["data"])?);
        return of("text/plain", MediaSource::Base64(data.into()));
    }
    if let Some(data) = find(&["data", "bytes"]) {
        return of(&mime, MediaSource::Base64(data.into()));
    }
    if let Some(id) = find(&["file_id"]) {
        return of(&mime, MediaSource::File(id.into()));
    }
    let stored = value["source"]["s3Location"]["uri"].as_str();
    let address = value.as_str().or(stored);
    let address =
        address.or_else(|| find(&["url", "fileUri", "file_uri", "file_url", "file_data"]))?;
    match address.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((mime, data)) => of(mime, MediaSource::Base64(data.into())),
        None => of(&mime, MediaSource::Url(address.into())),
    }
}

fn default_mime(kind: &str, value: &Value) -> String {
    match (value["format"].as_str(), kind) {
        (Some(format), "image") => format!("image/{format}"),
        (Some("txt"), _) => "text/plain".to_owned(),
        (Some("md"), _) => "text/markdown".to_owned(),
        (Some(format @ ("csv" | "html")), _) => format!("text/{format}"),
        (Some(format), _) => format!("application/{format}"),
        (None, "image") => "image/jpeg".to_owned(),
        (None, _) => "application/pdf".to_owned(),
    }
}
