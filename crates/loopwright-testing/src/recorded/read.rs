//! Decodes recorded responses in memory.

use std::sync::Arc;

use loopwright_core::{
    Delta, ModelError, Timestamp,
    messages::{InferenceResponse, ModelOrigin},
};
use loopwright_models::{ErrorContext, ResponseDecoder, WireApi};

use super::{
    expectation::ExpectedAnswer,
    scenario::{RecordedExchange, RecordedResponse, Scenario},
};

/// One exchange of a scene, on a wire of this build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) scene: &'a Scenario,
    pub(crate) index: usize,
    pub(crate) wire: WireApi,
    pub(crate) exchange: &'a RecordedExchange,
    pub(crate) expected: &'a ExpectedAnswer,
}

impl<'a> Subject<'a> {
    /// Returns the exchanges of a scene; the name of a wire that this build does not have, if they
    /// need one.
    pub(crate) fn all(scene: &'a Scenario) -> Result<Vec<Self>, String> {
        let pairs = scene.recording.exchanges.iter().zip(&scene.expectation.exchanges);
        pairs
            .enumerate()
            .map(|(index, (exchange, expected))| {
                let api = scene.recording.api(exchange);
                let wire = WireApi::named(api).ok_or_else(|| api.to_owned())?;
                Ok(Self { scene, index, wire, exchange, expected })
            })
            .collect()
    }

    pub(crate) fn response(&self) -> &'a RecordedResponse {
        &self.exchange.response
    }

    pub(crate) fn body(&self) -> &'a [u8] {
        &self.exchange.response.body
    }

    /// Returns the model that was asked, as far as the recording tells.
    pub(crate) fn model(&self) -> String {
        let request = &self.exchange.request;
        let in_body = request.body.as_ref().and_then(|body| body["model"].as_str());
        let path = request.path.as_deref().unwrap_or_default();
        let in_path = ["/models/", "/model/"].iter().find_map(|before| path.split_once(before));
        let in_path = in_path.and_then(|(_, rest)| rest.split(['/', ':']).next());
        in_body.or(in_path).unwrap_or("recorded").replace("%3A", ":")
    }

    pub(crate) fn origin(&self) -> Arc<ModelOrigin> {
        let provider = self.scene.recording.provider(self.exchange).into();
        Arc::new(ModelOrigin {
            wire: self.wire.name().into(),
            provider,
            model: self.model().into(),
        })
    }

    /// Begins to read the answer; `None` for one whose status is an error.
    pub(crate) fn decoder(&self) -> Option<ResponseDecoder> {
        let context = self.context();
        let decoder =
            || ResponseDecoder::new(self.wire, self.origin(), context, self.exchange.streaming);
        self.response().is_success().then(decoder)
    }

    fn context(&self) -> ErrorContext {
        let RecordedResponse { status, headers, .. } = self.response();
        let head = |name: &str| headers.get(name).map(String::as_str);
        ErrorContext::new(self.scene.recording.provider(self.exchange)).with_head(
            *status,
            head,
            Timestamp::default(),
        )
    }

    /// Reads the answer from pieces.
    pub(crate) fn read<'p>(&self, pieces: impl IntoIterator<Item = &'p [u8]>) -> Outcome {
        let mut fragments = Fragments::default();
        let answer = if let Some(decoder) = self.decoder() {
            read_with(decoder, pieces, &mut fragments)
        } else {
            let body: Vec<u8> = pieces.into_iter().flatten().copied().collect();
            Err(self.context().of_body(&body))
        };
        Outcome { answer, fragments }
    }
}

fn read_with<'p>(
    mut decoder: ResponseDecoder,
    pieces: impl IntoIterator<Item = &'p [u8]>,
    fragments: &mut Fragments,
) -> Result<InferenceResponse, ModelError> {
    let mut take = |delta: Delta<'_>| fragments.take(delta);
    for piece in pieces {
        decoder.push(piece, &mut take)?;
        if decoder.is_done() {
            break;
        }
    }
    decoder.finish(&mut take)
}

/// What came of an answer.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Result<InferenceResponse, ModelError>,
    pub(crate) fragments: Fragments,
}

/// What was passed on of an answer while it arrived.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Fragments {
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<(String, String)>,
    pub(crate) ends: usize,
    /// What must not have come as it came.
    pub(crate) problems: Vec<String>,
}

impl Fragments {
    pub(crate) fn take(&mut self, delta: Delta<'_>) {
        if self.ends > 0 {
            self.problems.push(format!("a fragment came after the end: {delta:?}"));
        }
        match delta {
            Delta::Text(text) => self.text += text,
            Delta::Reasoning(text) => self.reasoning += text,
            Delta::ToolCall { index, name, .. } => {
                if usize::from(index) != self.calls.len() {
                    self.problems.push(format!("call {index} came out of turn"));
                }
                self.calls.push((name.to_owned(), String::new()));
            }
            Delta::ToolArguments { index, fragment } => {
                match self.calls.get_mut(usize::from(index)) {
                    Some(call) => call.1 += fragment,
                    None => self.problems.push(format!("arguments of unknown call {index}")),
                }
            }
            Delta::End => self.ends += 1,
            _ => {}
        }
    }
}
