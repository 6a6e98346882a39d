//! A wire of the program that uses the crate.

use std::sync::Arc;

use loopwright_core::{
    Delta, DeltaSink, DiscardDeltas, InferCx, LlmConfig, ModelCache, ModelError, ModelErrorKind,
    ModelProvider as _, SystemClock,
    messages::{
        FinishReason, InferenceRequest, InferenceResponse, Message, ModelOrigin, Prompt,
        ToolCallFormat, ToolExchange, Transcript, TurnMeta, Usage,
    },
};
use loopwright_models::{
    ErrorContext, ProviderConfig, Providers, Quirks, RequestEncoder, RetryPolicy, SecretRef,
    sse::Event,
    wire_protocol::{
        EncodeInput, Framing, JsonList, ResponseReader, TurnOrder, TurnWriter, WireProtocol,
        object_with_list,
    },
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::server::{Reply, Server};

/// A language of lines: `{"word": …}` for each fragment, and `{"end": true}`.
struct Lines;

impl TurnWriter for Lines {
    fn format(&self) -> ToolCallFormat {
        ToolCallFormat::Text
    }

    fn write_message(&self, list: &mut JsonList<'_>, message: &Message) {
        list.push(&json!({ "from": message.role(), "text": message.text() }));
    }

    fn write_exchange(&self, list: &mut JsonList<'_>, exchange: &ToolExchange, _: &TurnMeta) {
        self.write_exchange_as_text(list, exchange);
    }
}

impl WireProtocol for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn path(&self, _: &str, _: bool) -> Vec<String> {
        vec!["talk".to_owned()]
    }

    fn key_header(&self) -> Option<&'static str> {
        Some("x-lines-key")
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn encode(&self, input: &EncodeInput<'_>) -> Vec<u8> {
        let fields = Map::from_iter([("model".to_owned(), json!(input.model()))]);
        object_with_list(&fields, "lines", |list| {
            input.write_turns(list, self, TurnOrder::UserAtEnds);
        })
    }

    fn read(&self, origin: Arc<ModelOrigin>, context: ErrorContext) -> Box<dyn ResponseReader> {
        Box::new(Reading { origin, context, text: String::new(), is_done: false })
    }

    fn read_error(&self, context: &ErrorContext, body: &[u8]) -> ModelError {
        context.error(ModelErrorKind::Quota, String::from_utf8_lossy(body))
    }
}

#[derive(Debug)]
struct Reading {
    origin: Arc<ModelOrigin>,
    context: ErrorContext,
    text: String,
    is_done: bool,
}

impl ResponseReader for Reading {
    fn event(&mut self, event: Event<'_>, deltas: &mut dyn DeltaSink) -> Result<(), ModelError> {
        let line: Value = serde_json::from_slice(event.data)
            .map_err(|error| self.context.error(ModelErrorKind::Protocol, error.to_string()))?;
        if let Some(word) = line["word"].as_str() {
            deltas.push(Delta::Text(word));
            self.text += word;
        }
        self.is_done = line["end"] == true;
        Ok(())
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        self.event(Event { kind: "message", data: body, terminated: true }, &mut DiscardDeltas)
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn usage(&self) -> Option<Usage> {
        None
    }

    fn end(self: Box<Self>) -> Result<InferenceResponse, ModelError> {
        if !self.is_done {
            return Err(self.context.error(ModelErrorKind::Protocol, "the response was cut off"));
        }
        let message = Message::assistant(self.text).with_origin(self.origin);
        let response = InferenceResponse::new(message, Usage::default());
        Ok(InferenceResponse { finish_reason: FinishReason::Stop, ..response })
    }
}

fn request(messages: &[Message]) -> InferenceRequest {
    let mut turns = Transcript::new();
    for message in messages {
        turns.push_message(message.clone()).unwrap();
    }
    InferenceRequest { prompt: Prompt::of(turns), ..InferenceRequest::default() }
}

async fn ask(server: &Server) -> Result<InferenceResponse, ModelError> {
    let house = ProviderConfig {
        base_url: Some(server.address.as_str().into()),
        key: Some(SecretRef::env("LINES_KEY")),
        ..ProviderConfig::default()
    };
    let providers = Providers::empty()
        .with_provider("house", house)
        .with_keys(|name: &str| (name == "LINES_KEY").then(|| "k-1".to_owned()))
        .with_retry(RetryPolicy::none())
        .with_wire("house", Lines);
    let model = providers.resolve(Some(&LlmConfig::named("house/small")))?;
    let cx = InferCx {
        deltas: &mut DiscardDeltas,
        cancel: &CancellationToken::new(),
        deadline: None,
        clock: &SystemClock::default(),
        memory: &mut ModelCache::default(),
    };
    model.infer(&request(&[Message::user("Hello.")]), cx).await
}

#[tokio::test]
async fn provider_with_its_own_wire_is_asked_in_its_language() {
    let lines = ["{\"word\":\"Good \"}\n", "{\"word\":\"day.\"}\n", "{\"end\":true}\n"];
    let server = Server::start([Reply::Stream(lines.map(str::to_owned).to_vec())]).await;
    let response = ask(&server).await.unwrap();
    let origin = response.message.origin().unwrap();
    assert_eq!(
        (response.message.text(), &*origin.wire, &*origin.provider, &*origin.model),
        ("Good day.".to_owned(), "lines", "house", "small")
    );
    let received = &server.received()[0];
    assert!(received.head.starts_with("POST /talk "), "{}", received.head);
    assert_eq!(received.header("x-lines-key"), Some("k-1"));
    assert_eq!(
        received.json(),
        json!({ "model": "small", "lines": [{ "from": "user", "text": "Hello." }] })
    );
}

#[tokio::test]
async fn wire_reads_the_errors_of_its_provider() {
    let body = "no coins left".to_owned();
    let reply = Reply::Whole { status: 400, headers: String::new(), body };
    let error = ask(&Server::start([reply]).await).await.unwrap_err();
    assert_eq!(
        (error.kind, error.status, error.message.as_str()),
        (ModelErrorKind::Quota, Some(400), "house: no coins left")
    );
}

#[tokio::test]
async fn stream_of_a_custom_wire_that_is_cut_off_is_an_error() {
    let server = Server::start([Reply::Stream(vec!["{\"word\":\"Good \"}\n".to_owned()])]).await;
    let error = ask(&server).await.unwrap_err();
    assert_eq!(error.message, "house: the response was cut off");
}

#[test]
fn request_of_a_custom_wire_starts_with_the_bytes_of_the_one_before() {
    let origin = ModelOrigin { wire: "lines".into(), provider: "p".into(), model: "m".into() };
    let encoder = RequestEncoder::from_protocol(Arc::new(Lines), origin.into(), Quirks::default());
    let mut messages = vec![Message::user("One.")];
    let first = encoder.encode(&request(&messages));
    messages.extend([Message::assistant("Two."), Message::user("Three.")]);
    let second = encoder.encode(&request(&messages));
    let begin = first.strip_suffix(b"]}").unwrap();
    assert!(second.starts_with(begin), "{}", String::from_utf8_lossy(&second));
}
