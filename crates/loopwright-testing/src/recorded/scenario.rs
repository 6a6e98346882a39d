//! Recordings, as they are stored.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use super::expectation::Expectation;

/// A recorded conversation with one provider, or with several.
#[derive(Clone, Debug, Deserialize)]
pub struct Recording {
    /// Its name, unique in its folder.
    pub name: String,
    /// The provider.
    #[serde(default)]
    pub provider: String,
    /// The wire's name; `mixed` if the exchanges name their own.
    pub api: String,
    /// Requests and their responses, oldest first.
    pub exchanges: Vec<RecordedExchange>,
}

/// A request and its response.
#[derive(Clone, Debug, Deserialize)]
pub struct RecordedExchange {
    /// The request.
    pub request: RecordedRequest,
    /// The response.
    pub response: RecordedResponse,
    /// Whether a streamed response was requested.
    #[serde(default)]
    pub streaming: bool,
    /// The wire's name, if it differs from that of the recording.
    #[serde(default)]
    pub api: Option<String>,
    /// The provider, if it differs from that of the recording.
    #[serde(default)]
    pub provider: Option<String>,
}

/// A request as a client sent it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RecordedRequest {
    /// The path, which may lack the beginning of the provider's address.
    #[serde(default)]
    pub path: Option<String>,
    /// The JSON of the body. `None` means that it was not recorded.
    #[serde(default)]
    pub body: Option<Value>,
}

/// A response as the provider sent it.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "StoredResponse")]
pub struct RecordedResponse {
    /// The status.
    pub status: u16,
    /// The headers, by lowercase names.
    pub headers: BTreeMap<String, String>,
    /// The bytes of the body.
    pub body: Arc<[u8]>,
}

#[derive(Deserialize)]
struct StoredResponse {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    #[serde(default, deserialize_with = "nothing_or")]
    body: String,
    #[serde(default)]
    body_encoding: Option<String>,
}

/// Reads null as nothing.
fn nothing_or<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl TryFrom<StoredResponse> for RecordedResponse {
    type Error = String;

    fn try_from(stored: StoredResponse) -> Result<Self, String> {
        let body = match stored.body_encoding.as_deref() {
            None => stored.body.into_bytes(),
            Some("base64") => {
                BASE64_STANDARD.decode(&stored.body).map_err(|error| error.to_string())?
            }
            Some(other) => return Err(format!("the encoding `{other}` of a body is unknown")),
        };
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let headers = stored.headers.into_iter();
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), text(value)));
        Ok(Self { status: stored.status, headers: headers.collect(), body: body.into() })
    }
}

impl RecordedResponse {
    /// Returns `true` if the status is a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns `true` if the body is a stream of server-sent events, whatever its content type says.
    pub fn is_event_stream(&self) -> bool {
        let body = self.body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&self.body).trim_ascii_start();
        let begins: [&[u8]; 5] = [b"data:", b"event:", b":", b"id:", b"retry:"];
        begins.iter().any(|begin| body.starts_with(begin))
    }

    /// Returns `true` if the body was sent piece by piece.
    pub fn is_stream(&self) -> bool {
        let content_type = self.headers.get("content-type").map_or("", String::as_str);
        let kinds = ["event-stream", "ndjson", "eventstream"];
        self.is_event_stream() || kinds.iter().any(|kind| content_type.contains(kind))
    }
}

impl Recording {
    /// Returns the name of the wire of an exchange.
    pub fn api<'a>(&'a self, exchange: &'a RecordedExchange) -> &'a str {
        exchange.api.as_deref().unwrap_or(&self.api)
    }

    /// Returns the provider of an exchange.
    pub fn provider<'a>(&'a self, exchange: &'a RecordedExchange) -> &'a str {
        let provider = exchange.provider.as_deref().unwrap_or(&self.provider);
        if provider.is_empty() { "recorded" } else { provider }
    }

    /// Returns a recording of one of the exchanges.
    #[must_use]
    pub fn only(&self, index: usize) -> Self {
        let exchanges = self.exchanges.iter().skip(index).take(1).cloned().collect();
        Self { exchanges, ..self.clone() }
    }
}

/// A recording with its meaning.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The recording.
    pub recording: Arc<Recording>,
    /// The meaning.
    pub expectation: Arc<Expectation>,
}

/// An error of a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// A file or the folder itself cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is invalid.
    #[error("{} is not a recording", path.display())]
    Format {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// A recording and its expectation have different numbers of exchanges.
    #[error("{} declares a different number of answers than it contains", path.display())]
    Count {
        /// The path.
        path: PathBuf,
    },
    /// The folder contains no recordings.
    #[error("{} contains no recordings", path.display())]
    Empty {
        /// The path.
        path: PathBuf,
    },
}

/// Reads the recordings of a folder and their expectations, in the order of their names.
///
/// # Errors
///
/// Returns an error if there are none, or one of them or its expectation is invalid.
pub fn read_folder(folder: &Path) -> Result<Vec<Scenario>, FolderError> {
    let unreadable = |source| FolderError::Read { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|it| it == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(FolderError::Empty { path: folder.to_owned() });
    }
    paths.iter().map(|path| read_scene(path)).collect()
}

fn read_scene(path: &Path) -> Result<Scenario, FolderError> {
    let recording: Recording = read_json(path)?;
    let name = path.file_name().unwrap_or_default();
    let expected = path.with_file_name("expected").join(name);
    let expectation: Expectation = read_json(&expected)?;
    if expectation.exchanges.len() != recording.exchanges.len() {
        return Err(FolderError::Count { path: expected });
    }
    Ok(Scenario { recording: Arc::new(recording), expectation: Arc::new(expectation) })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FolderError> {
    let read = |source| FolderError::Read { path: path.to_owned(), source };
    let bytes = fs::read(path).map_err(read)?;
    serde_json::from_slice(&bytes)
        .map_err(|source| FolderError::Format { path: path.to_owned(), source })
}
