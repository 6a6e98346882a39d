//! Replay of a recording, without a network.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use loopwright_core::ModelErrorKind;
use serde_json::Value;

use crate::{
    http::HttpError,
    record::{Exchange, Header, Request},
};

/// The longest recording that is read.
const MAX_BYTES: u64 = 256 << 20;

/// An error of a recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a recording, or has another version.
    Format {
        /// The file.
        path: PathBuf,
    },
    /// A line of the file is not an exchange.
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        source: serde_json::Error,
    },
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(f, "cannot use the recording {}", path.display()),
            Self::Format { path } => {
                write!(f, "{} is not a recording of this version; record it again", path.display())
            }
            Self::Line { path, line, .. } => {
                write!(f, "line {line} of the recording {} is damaged", path.display())
            }
        }
    }
}

impl std::error::Error for RecordingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Line { source, .. } => Some(source),
            Self::Format { .. } => None,
        }
    }
}

/// The request was not recorded. This is the source of the model's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayMiss {
    /// The method and path of the request.
    pub asked: String,
    /// The line of the most similar recorded request. `None` means that the recording has none.
    pub closest: Option<usize>,
    /// The difference between the two.
    pub difference: String,
}

impl fmt::Display for ReplayMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the recording has no response to {}: ", self.asked)?;
        match self.closest {
            Some(line) => write!(f, "the closest request, on line {line}, {}", self.difference),
            None => f.write_str(&self.difference),
        }
    }
}

impl std::error::Error for ReplayMiss {}

/// Reads a file that is no longer than a recording may be, whatever it says of its length.
fn read(path: &Path) -> io::Result<String> {
    read_at_most(File::open(path)?, MAX_BYTES)
}

fn read_at_most(file: impl io::Read, most: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("longer than {most} bytes")));
    }
    Ok(text)
}

/// The exchanges of a recording. Each answers one request.
#[derive(Debug)]
pub(crate) struct Replay(Mutex<Vec<Place>>);

#[derive(Debug)]
struct Place {
    line: usize,
    exchange: Exchange,
    is_used: bool,
}

impl Replay {
    /// Reads a recording. An incomplete last line is ignored: its writer was stopped.
    pub(crate) fn open(path: &Path) -> Result<Self, RecordingError> {
        let text =
            read(path).map_err(|source| RecordingError::File { path: path.into(), source })?;
        let mut lines = text.lines().enumerate();
        let header = lines.next().and_then(|(_, line)| serde_json::from_str::<Header>(line).ok());
        if !header.is_some_and(|header| header.is_own()) {
            return Err(RecordingError::Format { path: path.into() });
        }
        let mut places = Vec::new();
        for (index, line) in lines {
            match serde_json::from_str(line) {
                Ok(exchange) => places.push(Place { line: index + 1, exchange, is_used: false }),
                Err(_) if line.trim().is_empty() => {}
                // Whoever went on after a line that was cut off began another one.
                Err(source) if source.is_eof() => {}
                Err(source) => {
                    let (path, line) = (path.into(), index + 1);
                    return Err(RecordingError::Line { path, line, source });
                }
            }
        }
        Ok(Self(Mutex::new(places)))
    }

    /// Takes the first exchange of this request that did not answer yet.
    pub(crate) fn take(&self, request: &Request) -> Result<Exchange, HttpError> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |place: &&mut Place| !place.is_used && place.is_for(request);
        if let Some(place) = places.iter_mut().find(fits) {
            place.is_used = true;
            return Ok(place.exchange.clone());
        }
        let miss = miss(&places, request);
        Err(HttpError {
            kind: ModelErrorKind::InvalidRequest,
            message: miss.to_string(),
            source: Some(miss.into()),
            is_unsent: true,
        })
    }
}

impl Place {
    fn is_for(&self, request: &Request) -> bool {
        self.is_beneath(request) && self.exchange.request.body == request.body
    }

    fn is_beneath(&self, request: &Request) -> bool {
        let own = &self.exchange.request;
        (&own.method, &own.path, &own.query) == (&request.method, &request.path, &request.query)
    }
}

fn miss(places: &[Place], request: &Request) -> ReplayMiss {
    let asked = format!("{} {}", request.method, request.path);
    if let Some(place) = places.iter().find(|place| place.is_for(request)) {
        let difference = "is identical, but was already replayed".to_owned();
        return ReplayMiss { asked, closest: Some(place.line), difference };
    }
    let beneath = places.iter().filter(|place| place.is_beneath(request));
    let closest = beneath.max_by_key(|place| {
        let shared = shared(&place.exchange.request.body, &request.body);
        (shared, !place.is_used, std::cmp::Reverse(place.line))
    });
    if let Some(place) = closest {
        let difference = difference("body", &place.exchange.request.body, &request.body);
        return ReplayMiss { asked, closest: Some(place.line), difference };
    }
    let mut paths: Vec<_> = places.iter().map(|it| it.exchange.request.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    let difference = if paths.is_empty() {
        "the recording is empty".to_owned()
    } else {
        format!("only these paths were recorded: {}", paths.join(", "))
    };
    ReplayMiss { asked, closest: None, difference }
}

/// Counts the values that two JSON texts have in the same places.
fn shared(a: &Value, b: &Value) -> usize {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().filter_map(|(name, a)| Some(shared(a, b.get(name)?))).sum()
        }
        (Value::Array(a), Value::Array(b)) => a.iter().zip(b).map(|(a, b)| shared(a, b)).sum(),
        (a, b) => usize::from(a == b),
    }
}

/// Says where two JSON texts differ first.
fn difference(place: &str, recorded: &Value, asked: &Value) -> String {
    match (recorded, asked) {
        (Value::Object(recorded), Value::Object(asked)) => {
            for (name, recorded) in recorded {
                match asked.get(name) {
                    Some(asked) if asked == recorded => {}
                    Some(asked) => return difference(&format!("{place}.{name}"), recorded, asked),
                    None => return format!("has `{place}.{name}`, which this request lacks"),
                }
            }
            let more = asked.keys().find(|name| !recorded.contains_key(*name));
            format!("lacks `{place}.{}`, which this request has", more.map_or("", String::as_str))
        }
        (Value::Array(recorded), Value::Array(asked)) => {
            let mut both = recorded.iter().zip(asked).enumerate();
            match both.find(|(_, (recorded, asked))| recorded != asked) {
                Some((index, (recorded, asked))) => {
                    difference(&format!("{place}[{index}]"), recorded, asked)
                }
                None => format!(
                    "has {} items in `{place}`; this request has {}",
                    recorded.len(),
                    asked.len()
                ),
            }
        }
        (recorded, asked) => format!(
            "has {} at `{place}`; this request has {}",
            excerpt(recorded, asked),
            excerpt(asked, recorded)
        ),
    }
}

/// Shows a value from a little before the place where it begins to differ from another.
fn excerpt(value: &Value, other: &Value) -> String {
    const BEFORE: usize = 10;
    const SHOWN: usize = 60;
    let (text, other) = (value.to_string(), other.to_string());
    let same = text.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let begin = if text.chars().count() > SHOWN { same.saturating_sub(BEFORE) } else { 0 };
    let shown: String = text.chars().skip(begin).take(SHOWN).collect();
    let is_cut = text.chars().count() > begin + SHOWN;
    format!("{}{shown}{}", if begin > 0 { "…" } else { "" }, if is_cut { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_does_not_end_is_not_read_to_its_end() {
        assert_eq!(read_at_most(&b"12345"[..], 5).unwrap(), "12345");
        let error = read_at_most(io::repeat(b'1'), 5).unwrap_err();
        assert_eq!(error.to_string(), "longer than 5 bytes");
    }
}
