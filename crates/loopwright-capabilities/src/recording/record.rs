//! Recording of requests and responses.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loopwright_core::{
    ChatModel, InferCx, ModelError, ModelErrorKind, ModelLayer,
    messages::{InferenceRequest, InferenceResponse, Message, TurnBody},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    private_file::appending,
    recording::identity::{Identified, Identities, Identity, settings},
};

/// What a recording begins with.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    format: String,
    version: u32,
}

impl Header {
    pub(super) fn own() -> Self {
        Self { format: "loopwright-inference".to_owned(), version: 1 }
    }
}

/// A question and its answer.
#[derive(Debug, Serialize)]
struct Exchange<'a> {
    identity: &'a Identity,
    request: Asked<'a>,
    response: &'a InferenceResponse,
}

/// A question, for people: what of it is new.
#[derive(Debug, Serialize)]
struct Asked<'a> {
    model: Option<Arc<str>>,
    system: Option<&'a str>,
    tools: Vec<&'a str>,
    settings: Value,
    /// How many turns of the conversation are in earlier lines.
    known: usize,
    turns: Vec<&'a TurnBody>,
    tail: &'a [Message],
}

/// Writes each exchange to a file when it has ended.
#[derive(Debug)]
pub(super) struct Recorder {
    identities: Identities,
    writing: Mutex<Writing>,
    secrets: Vec<String>,
}

#[derive(Debug)]
struct Writing {
    file: File,
    /// Why an exchange could not be written: the next request is not sent then.
    failure: Option<io::Error>,
}

impl Recorder {
    /// Opens a file, or makes one that only its owner may read.
    pub(super) fn open(path: &Path, secrets: &[String]) -> io::Result<Self> {
        let mut file = appending().read(true).open(path)?;
        if file.seek(SeekFrom::End(0))? == 0 {
            write_line(&mut file, &serde_json::to_string(&Header::own())?)?;
        } else if !begins_as_recording(&mut file)? {
            let text = "the file exists but is not a recording; choose another file";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        let writing = Mutex::new(Writing { file, failure: None });
        let quoted = secrets.iter().filter(|it| !it.is_empty()).map(|it| Value::from(&**it));
        let secrets = quoted.map(|it| it.to_string().trim_matches('"').to_owned()).collect();
        Ok(Self { identities: Identities::default(), writing, secrets })
    }

    /// Fails if something could not be recorded.
    fn check(&self) -> Result<(), ModelError> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        writing.failure.take().map_or(Ok(()), |error| {
            let text = "the recording cannot be written; free disk space, or turn recording off";
            Err(ModelError::new(ModelErrorKind::InvalidRequest, text).with_source(error))
        })
    }

    fn write(&self, exchange: &Exchange<'_>) {
        let line = serde_json::to_string(exchange).map_err(io::Error::from).map(|mut line| {
            for secret in &self.secrets {
                line = line.replace(secret, "[redacted]");
            }
            line
        });
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = line.and_then(|line| write_line(&mut writing.file, &line)) {
            writing.failure = Some(error);
        }
    }
}

#[async_trait]
impl ModelLayer for Recorder {
    async fn infer(
        &self,
        model: &dyn ChatModel,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        self.check()?;
        let response = model.infer(request, cx).await?;
        let Identified { identity, known } = self.identities.of(request);
        let asked = Asked {
            model: request.model.clone().or_else(|| model.model()),
            system: request.system.as_deref(),
            tools: request.tools.iter().map(|it| &*it.name).collect(),
            settings: settings(request),
            known,
            turns: request.prompt.turns.iter_from(known).map(|it| it.body()).collect(),
            tail: &request.prompt.tail,
        };
        self.write(&Exchange { identity: &identity, request: asked, response: &response });
        Ok(response)
    }
}

fn write_line(file: &mut File, line: &str) -> io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())
}

fn begins_as_recording(file: &mut File) -> io::Result<bool> {
    /// More than the first line of a recording.
    const HEAD: u64 = 256;
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(HEAD).read_to_end(&mut head)?;
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(serde_json::from_slice::<Header>(line).is_ok_and(|header| header == Header::own()))
}
