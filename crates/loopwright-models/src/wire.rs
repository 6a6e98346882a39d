//! The languages that providers speak.

use std::{fmt, sync::Arc};

use loopwright_core::messages::{InferenceRequest, Message, Origin, Turn};
use serde::{Deserialize, Serialize};

use crate::{
    decoder::{Framing, Reading},
    error::ErrorContext,
    json::List,
    openai_chat,
    quirks::Quirks,
};

/// The language that a provider speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
#[non_exhaustive]
pub enum Wire {
    /// Chat completions, which nearly everyone understands.
    #[default]
    OpenAiChat,
}

impl Wire {
    /// The wires that this program speaks.
    pub const ALL: &[Self] = &[Self::OpenAiChat];

    /// Returns the name under which it is known in configuration and in the origin of messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
        }
    }

    /// Finds a wire by its name; nothing if this program does not speak it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|wire| wire.name() == name)
    }

    pub(crate) fn protocol(self) -> &'static dyn Protocol {
        match self {
            Self::OpenAiChat => &openai_chat::OpenAiChat,
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
}

impl Question<'_> {
    pub(crate) fn model(&self) -> &str {
        &self.origin.model
    }

    /// Tells whether the answer is streamed.
    pub(crate) fn streams(&self) -> bool {
        self.request.options.stream.unwrap_or(true)
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

    /// Writes the turns of the conversation, each as it was encoded when it was first sent.
    pub(crate) fn write_turns(&self, list: &mut List<'_>, encode: impl Fn(&Turn) -> Vec<u8>) {
        let key = self.cache_key();
        let encode = |turn: &Arc<Turn>| turn.encoded().get_or_encode(key, || encode(turn));
        let turns: Vec<Arc<[u8]>> = self.request.prompt.stable().map(encode).collect();
        // The body is allocated once, and nothing is copied twice.
        list.reserve(turns.iter().map(|turn| turn.len() + 1).sum());
        for turn in &turns {
            list.raw(turn);
        }
    }
}
