//! The languages that providers speak.

use std::{fmt, sync::Arc};

use loopwright_core::messages::{InferenceRequest, Message, Origin, ResponseFormat, Turn};
use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::{
    anthropic, cohere,
    continuation::Continuation,
    decoder::{Framing, Reading},
    error::ErrorContext,
    gemini,
    json::List,
    ollama, openai_chat, openai_responses,
    quirks::Quirks,
    secret::KeySource,
    signer::Signer,
};

/// The language that a provider speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
#[non_exhaustive]
pub enum Wire {
    /// Chat completions, which nearly everyone understands.
    #[default]
    OpenAiChat,
    /// Anthropic's Messages API.
    Anthropic,
    /// Amazon Bedrock's Converse API.
    #[cfg(feature = "bedrock")]
    BedrockConverse,
    /// The Responses interface, used without the provider's memory.
    OpenAiResponses,
    /// Version 2 of Cohere's chat.
    Cohere,
    /// Gemini's `generateContent`, of the Gemini API and Vertex AI. The request's own `tools`, such as
    /// `{"googleSearch": {}}`, are offered beside the functions.
    Gemini,
    /// Ollama's own chat. A prompt that does not fit the context is an error here, where Ollama would
    /// drop its beginning without a word; the context is as large as `num_ctx` in the request's own
    /// `options` says, and rather small if nothing does.
    Ollama,
}

impl Wire {
    /// The wires that this program speaks.
    pub const ALL: &[Self] = &[
        Self::OpenAiChat,
        Self::Anthropic,
        Self::OpenAiResponses,
        #[cfg(feature = "bedrock")]
        Self::BedrockConverse,
        Self::Cohere,
        Self::Gemini,
        Self::Ollama,
    ];

    /// Returns the name under which it is known in configuration and in the origin of messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
            Self::Anthropic => "anthropic-messages",
            #[cfg(feature = "bedrock")]
            Self::BedrockConverse => "bedrock-converse",
            Self::OpenAiResponses => "openai-responses",
            Self::Cohere => "cohere-chat",
            Self::Gemini => "gemini-generate",
            Self::Ollama => "ollama-chat",
        }
    }

    /// Finds a wire by its name; nothing if this program does not speak it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|wire| wire.name() == name)
    }

    pub(crate) fn protocol(self) -> &'static dyn Protocol {
        match self {
            Self::OpenAiChat => &openai_chat::OpenAiChat,
            Self::Anthropic => &anthropic::Anthropic,
            #[cfg(feature = "bedrock")]
            Self::BedrockConverse => &crate::bedrock::Bedrock,
            Self::OpenAiResponses => &openai_responses::OpenAiResponses,
            Self::Cohere => &cohere::Cohere,
            Self::Gemini => &gemini::Gemini,
            Self::Ollama => &ollama::Ollama,
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Wire> for &'static str {
    fn from(wire: Wire) -> Self {
        wire.name()
    }
}

impl TryFrom<String> for Wire {
    type Error = UnknownWire;

    fn try_from(name: String) -> Result<Self, UnknownWire> {
        Self::named(&name).ok_or(UnknownWire(name))
    }
}

/// A wire was named that this program does not speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWire(String);

impl fmt::Display for UnknownWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Wire::ALL.iter().map(|wire| wire.name()).collect();
        write!(f, "there is no wire `{}`; known are {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownWire {}

/// What a wire knows: where to ask, how to write a request, how to read an answer.
pub(crate) trait Protocol: Send + Sync {
    /// Returns the segments of the path beneath the provider's address.
    fn path(&self, model: &str, streams: bool) -> Vec<String>;

    /// Returns the query of the address, if there is one.
    fn query(&self, _streams: bool) -> Option<&'static str> {
        None
    }

    /// Returns the header in which the key is shown; a bearer token if there is none.
    fn key_header(&self) -> Option<&'static str> {
        None
    }

    /// Returns the headers that every request has.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Writes the address as the provider wants it.
    fn finish_url(&self, _url: &mut Url) {}

    /// Returns what signs requests, on wires whose requests are signed, if its keys are among these
    /// variables.
    fn signer(&self, _variables: &dyn KeySource, _url: &Url) -> Option<Arc<dyn Signer>> {
        None
    }

    /// Returns how the events of a stream are told apart.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// Returns the body of a request. The array that grows with the conversation comes last.
    fn encode(&self, question: &Question<'_>) -> Vec<u8>;

    /// Begins to read an answer.
    fn read(&self, origin: Arc<Origin>, context: ErrorContext) -> Box<dyn Reading>;
}

/// A request and whom it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) quirks: Quirks,
    pub(crate) request: &'a InferenceRequest,
    /// The last request, where it is known.
    pub(crate) continuation: Option<&'a Continuation>,
}

impl Question<'_> {
    pub(crate) fn model(&self) -> &str {
        &self.origin.model
    }

    /// Tells whether the answer is streamed.
    pub(crate) fn streams(&self) -> bool {
        self.request.options.stream.unwrap_or(true)
    }

    /// Asks for the form of the answer in words, where the wire has no field for it.
    pub(crate) fn format_in_words(&self) -> Option<String> {
        match self.request.response_format.as_ref()? {
            ResponseFormat::JsonObject => {
                Some("Answer with one JSON object and nothing else.".to_owned())
            }
            ResponseFormat::JsonSchema { schema, strict, .. }
                if !strict || !self.quirks.json_schema =>
            {
                Some(format!("Answer with JSON of this schema and nothing else:\n{schema}"))
            }
            _ => None,
        }
    }

    /// Tells whether a message came from the very model that is asked now, so that the opaque
    /// payloads of its parts are sent back verbatim.
    pub(crate) fn is_own(&self, message: &Message) -> bool {
        message.origin().is_some_and(|origin| **origin == *self.origin)
    }

    /// Names the form that a turn is given here: the key of the bytes kept beside it.
    pub(crate) fn cache_key(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        let Origin { wire, provider, model } = self.origin;
        (wire, provider, model, self.request.prompt.dialect, self.quirks).hash(&mut hasher);
        hasher.finish()
    }

    /// Writes the turns of the conversation: those that were sent with the last request as they were,
    /// the others as they were encoded when they were first sent.
    pub(crate) fn write_turns(&self, list: &mut List<'_>, encode: impl Fn(&Turn) -> Vec<u8>) {
        self.write_turns_after(0, list, encode);
    }

    /// Writes the turns but for so many of the prompt's head, which have been said elsewhere.
    pub(crate) fn write_turns_after(
        &self,
        said: usize,
        list: &mut List<'_>,
        encode: impl Fn(&Turn) -> Vec<u8>,
    ) {
        let (key, prompt) = (self.cache_key(), &self.request.prompt);
        let begin = list.written().len();
        let sent = self.continuation.and_then(|it| it.go_on(key, prompt, list));
        let head = sent.is_none().then(|| prompt.head.iter_from(said)).into_iter().flatten();
        let encode = |turn: &Arc<Turn>| turn.encoded().get_or_encode(key, || encode(turn));
        let new = head.chain(prompt.turns.iter_from(sent.unwrap_or(0)));
        let new: Vec<Arc<[u8]>> = new.map(encode).collect();
        list.reserve(new.iter().map(|turn| turn.len() + 1).sum());
        for turn in &new {
            list.raw(turn);
        }
        if let Some(continuation) = self.continuation {
            continuation.note(key, prompt, begin, list);
        }
    }
}
