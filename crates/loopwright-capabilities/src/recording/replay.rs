//! Replay of a recording.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use loopwright_core::{
    ChatModel, Delta, DeltaSink, InferCx, ModelError, ModelErrorKind, ModelLayer,
    messages::{Content, InferenceRequest, InferenceResponse},
};
use serde::Deserialize;

use crate::recording::{
    identity::{Identities, Identity},
    record::Header,
};

/// Answers requests that were recorded, each answer once; no model is asked.
#[derive(Debug)]
pub(super) struct Replay {
    identities: Identities,
    left: Mutex<VecDeque<Exchange>>,
}

#[derive(Debug, Deserialize)]
struct Exchange {
    identity: Identity,
    response: InferenceResponse,
}

impl Replay {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let header = lines.next().and_then(|line| serde_json::from_str::<Header>(line).ok());
        if header != Some(Header::own()) {
            let text = "the file is not a recording of this version; record it again";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let left = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(Self { identities: Identities::default(), left: Mutex::new(left) })
    }

    fn take(&self, identity: &Identity) -> Result<InferenceResponse, ModelError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = left.iter().position(|it| it.identity == *identity)
            && let Some(exchange) = left.remove(at)
        {
            return Ok(exchange.response);
        }
        let text = match left.front() {
            None => "the recording contains no more responses; record it again".to_owned(),
            Some(next) => {
                let difference = next.identity.difference(identity).join(", ");
                format!(
                    "the recording has no response to this request; the next recorded request differs in: {difference}"
                )
            }
        };
        Err(ModelError::new(ModelErrorKind::InvalidRequest, text))
    }
}

#[async_trait]
impl ModelLayer for Replay {
    async fn infer(
        &self,
        _model: &dyn ChatModel,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let response = self.take(&self.identities.of(request).identity)?;
        tell(&response, cx.deltas);
        Ok(response)
    }
}

/// Tells an answer as if it came in pieces.
fn tell(response: &InferenceResponse, deltas: &mut dyn DeltaSink) {
    let mut index = 0;
    for part in response.message.parts() {
        match part.content() {
            Content::Text(text) => deltas.push(Delta::Text(text)),
            Content::Reasoning(text) => deltas.push(Delta::Reasoning(text)),
            Content::ToolCall(call) => {
                deltas.push(Delta::ToolCall { index, id: call.id.as_deref(), name: &call.name });
                deltas.push(Delta::ToolArguments { index, fragment: &call.arguments });
                index += 1;
            }
            _ => (),
        }
    }
    deltas.push(Delta::Usage(response.usage));
    deltas.push(Delta::End);
}
