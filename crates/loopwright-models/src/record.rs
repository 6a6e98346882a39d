//! Recording of exchanges with providers to a file.
//!
//! A recording consists of JSON lines. The first line is a [`Header`]; every other one is an
//! [`Exchange`], written when it ends. It contains no keys: only headers on an allow-list are kept,
//! and the values of secret headers are redacted everywhere else. It contains requests and
//! responses, so it needs the same protection as the conversation itself.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::{http::HttpError, secret::Secret};

/// What a recording begins with.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    format: String,
    version: u32,
}

impl Header {
    /// The version that is written here, and the only one that is read.
    const VERSION: u32 = 1;
    const FORMAT: &str = "loopwright-http";

    fn own() -> Self {
        Self { format: Self::FORMAT.to_owned(), version: Self::VERSION }
    }

    pub(crate) fn is_own(&self) -> bool {
        *self == Self::own()
    }
}

/// A request, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    pub(crate) request: Request,
    /// The answer. `None` means that none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) response: Option<Response>,
    pub(crate) end: ExchangeEnd,
}

/// A request without its secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) query: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Null if there is none; a text if it is not JSON.
    #[serde(default)]
    pub(crate) body: Value,
}

/// An answer without the secrets of its request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) body: Body,
}

/// The bytes of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Body {
    /// As they are.
    #[serde(rename = "body")]
    Text(String),
    /// What is not text, in base64.
    #[serde(rename = "body_base64")]
    Base64(String),
}

impl Body {
    fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64(BASE64.encode(error.as_bytes())),
        }
    }

    /// Returns the bytes, or `None` if this is not base64.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Base64(text) => BASE64.decode(text).ok(),
        }
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExchangeEnd {
    /// With everything that was wanted.
    Complete,
    /// Before that: the connection broke, or the request was given up.
    Aborted,
    /// Nothing came in time.
    TimedOut,
}

/// Headers that are kept.
const KEPT: [&str; 12] = [
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "openai-beta",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-amzn-errortype",
    "x-amzn-requestid",
    "x-request-id",
    "mistral-correlation-id",
];

/// What headers that are kept may begin with.
const KEPT_PREFIXES: [&str; 3] = ["x-ratelimit-", "anthropic-ratelimit-", "ratelimit-"];

fn kept(headers: &HeaderMap) -> BTreeMap<String, String> {
    let is_kept = |name: &str| {
        KEPT.contains(&name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let headers =
        headers.iter().filter(|(name, value)| is_kept(name.as_str()) && !value.is_sensitive());
    headers
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect()
}

/// Returns the values of secret headers, and what of them is the key itself.
fn secrets(headers: &HeaderMap) -> Vec<Secret> {
    let values = headers.values().filter(|value| value.is_sensitive());
    let values = values.filter_map(|value| value.to_str().ok());
    values.map(|value| Secret::new(value.strip_prefix("Bearer ").unwrap_or(value))).collect()
}

impl Request {
    pub(crate) fn of(method: &str, url: &Url, headers: &HeaderMap, body: &[u8]) -> Self {
        let secrets = secrets(headers);
        let mut text = String::from_utf8_lossy(body).into_owned();
        let mut query = url.query().map(str::to_owned);
        for secret in &secrets {
            secret.redact(&mut text);
            if let Some(query) = &mut query {
                secret.redact(query);
            }
        }
        let body = if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        Self {
            method: method.to_owned(),
            path: url.path().to_owned(),
            query: query.as_deref().map(without_secrets),
            headers: kept(headers),
            body,
        }
    }
}

/// Blackens the parts of a query that carry keys by their names.
fn without_secrets(query: &str) -> String {
    let part = |part: &str| {
        let name = part.split('=').next().unwrap_or_default().to_ascii_lowercase();
        let is_secret = ["key", "token", "sig", "secret"].iter().any(|word| name.contains(word));
        if is_secret { format!("{name}=[redacted]") } else { part.to_owned() }
    };
    query.split('&').map(part).collect::<Vec<_>>().join("&")
}

/// Writes exchanges to a file.
#[derive(Debug)]
pub(crate) struct Recorder(Mutex<Writing>);

#[derive(Debug)]
struct Writing {
    file: File,
    /// Why an exchange could not be written: the next request is not sent then.
    failure: Option<io::Error>,
}

impl Recorder {
    /// Opens a file, or makes one that only its owner may read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        if file.seek(SeekFrom::End(0))? == 0 {
            write_line(&mut file, &Header::own())?;
        } else if !begins_as_recording(&mut file)? {
            let text = "the file exists but is not a recording; choose another file";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        } else if !ends_with_line(&mut file)? {
            // Somebody stopped in the middle of a line.
            file.write_all(b"\n")?;
        }
        Ok(Self(Mutex::new(Writing { file, failure: None })))
    }

    /// Fails if something could not be recorded.
    pub(crate) fn check(&self) -> Result<(), HttpError> {
        let mut writing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match writing.failure.take() {
            None => Ok(()),
            Some(error) => Err(HttpError::recording(error)),
        }
    }

    fn write(&self, exchange: &Exchange) {
        let mut writing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = write_line(&mut writing.file, exchange) {
            writing.failure = Some(error);
        }
    }
}

fn write_line(file: &mut File, content: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(content)?;
    line.push(b'\n');
    file.write_all(&line)
}

fn begins_as_recording(file: &mut File) -> io::Result<bool> {
    /// More than the first line of a recording.
    const HEAD: u64 = 256;
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(HEAD).read_to_end(&mut head)?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(serde_json::from_slice::<Header>(line).is_ok_and(|header| header.is_own()))
}

fn ends_with_line(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// An exchange that is going on. It is written when it is dropped.
#[derive(Debug)]
pub(crate) struct ExchangeRecorder {
    recorder: Arc<Recorder>,
    request: Request,
    secrets: Vec<Secret>,
    head: Option<(u16, BTreeMap<String, String>)>,
    body: Vec<u8>,
    pub(crate) end: ExchangeEnd,
}

impl ExchangeRecorder {
    pub(crate) fn new(
        recorder: &Arc<Recorder>,
        method: &str,
        url: &Url,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Self {
        Self {
            recorder: Arc::clone(recorder),
            request: Request::of(method, url, headers, body),
            secrets: secrets(headers),
            head: None,
            body: Vec::new(),
            end: ExchangeEnd::Aborted,
        }
    }

    pub(crate) fn head(&mut self, status: u16, headers: &HeaderMap) {
        self.head = Some((status, kept(headers)));
    }

    pub(crate) fn chunk(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    fn blackened(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            secret.redact(&mut text);
        }
        text
    }
}

impl Drop for ExchangeRecorder {
    fn drop(&mut self) {
        let body = match Body::of(std::mem::take(&mut self.body)) {
            Body::Text(text) => Body::Text(self.blackened(&text)),
            binary @ Body::Base64(_) => binary,
        };
        let response = self.head.take().map(|(status, headers)| {
            let headers = headers.into_iter().map(|(name, value)| (name, self.blackened(&value)));
            Response { status, headers: headers.collect(), body }
        });
        let exchange = Exchange { request: self.request.clone(), response, end: self.end };
        self.recorder.write(&exchange);
    }
}
