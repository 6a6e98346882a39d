//! The wire APIs of providers.

use std::{fmt, sync::Arc};

use loopwright_core::{
    ModelError, Timestamp,
    messages::{
        InferenceRequest, Message, ModelOrigin, ResponseFormat, Role, ToolCallFormat, ToolExchange,
        Turn, TurnBody, TurnMeta,
    },
};
use serde::{Deserialize, Serialize};

use crate::{
    call_ids::{Whose, call_ids},
    dialect::react_text,
    error::ErrorContext,
    json::List,
    prefix_reuse::PrefixReuse,
    quirks::Quirks,
    reader::{Framing, ResponseReader},
};

/// The wire API of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
#[non_exhaustive]
pub enum WireApi {
    /// Chat completions, which nearly every provider supports.
    #[default]
    OpenAiChat,
    /// Anthropic's Messages API.
    Anthropic,
    /// Amazon Bedrock's Converse API.
    #[cfg(feature = "bedrock")]
    BedrockConverse,
    /// The Responses API, used without the provider's storage.
    OpenAiResponses,
    /// Version 2 of Cohere's chat.
    Cohere,
    /// Gemini's `generateContent`, of the Gemini API and Vertex AI. The request's own `tools`, such
    /// as `{"googleSearch": {}}`, are added to the functions.
    Gemini,
    /// Ollama's own chat API. A prompt that does not fit the context is an error, whereas Ollama by
    /// default drops its beginning silently. `num_ctx` in the request's own `options` sets the size
    /// of the context, which is small by default.
    Ollama,
}

impl WireApi {
    /// All wire APIs.
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

    /// Returns the name in configuration and in the origin of messages.
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

    /// Parses the name of a wire API. Returns `None` if it is unknown.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|wire| wire.name() == name)
    }
}

impl fmt::Display for WireApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<WireApi> for &'static str {
    fn from(wire: WireApi) -> Self {
        wire.name()
    }
}

impl TryFrom<String> for WireApi {
    type Error = UnknownWire;

    fn try_from(name: String) -> Result<Self, UnknownWire> {
        Self::named(&name).ok_or(UnknownWire(name))
    }
}

/// The error of an unknown wire API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWire(String);

impl fmt::Display for UnknownWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = WireApi::ALL.iter().map(|wire| wire.name()).collect();
        write!(f, "unknown wire API `{}`; available: {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownWire {}

/// A wire protocol of a provider: the paths of its models, and the encoding of requests and
/// responses.
///
/// Implement it for a provider that supports none of the [`WireApi`]s.
/// [`RemoteModel`](crate::RemoteModel) does the rest: transport, attempts, deadline, rate limit,
/// cost. See [`wire_protocol`](crate::wire_protocol).
pub trait WireProtocol: Send + Sync + 'static {
    /// Returns the name of the wire, which is stored with each response. It must differ from the names of other
    /// wires: encoded turns are shared by all wires of one name.
    fn name(&self) -> &str;

    /// Returns the segments of the path, relative to the base URL of the provider.
    fn path(&self, model: &str, streams: bool) -> Vec<String>;

    /// Returns the query of the URL. Returns `None` if there is none.
    fn query(&self, _streams: bool) -> Option<&'static str> {
        None
    }

    /// Returns the header for the key. Returns `None` if the key is a bearer token.
    fn key_header(&self) -> Option<&'static str> {
        None
    }

    /// Returns the headers that every request has.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns how a streamed response is split into events.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// Returns the body of a request.
    ///
    /// Equal requests must have equal bytes. The list that grows with the conversation comes last,
    /// so that each request starts with the bytes of the previous one: use
    /// [`object_with_list`](crate::wire_protocol::object_with_list) and
    /// [`EncodeInput::write_turns`].
    fn encode(&self, question: &EncodeInput<'_>) -> Vec<u8>;

    /// Creates the reader of one response. `origin` belongs to the message of the response, and `context` creates
    /// its errors.
    fn read(&self, origin: Arc<ModelOrigin>, context: ErrorContext) -> Box<dyn ResponseReader>;

    /// Reads the body of a response whose status is not a success.
    ///
    /// The default understands the envelopes of most providers and plain text.
    fn read_error(&self, context: &ErrorContext, body: &[u8]) -> ModelError {
        context.of_body(body)
    }
}

/// A request, and the model that it is for.
#[derive(Clone, Copy, Debug)]
pub struct EncodeInput<'a> {
    pub(crate) origin: &'a ModelOrigin,
    pub(crate) quirks: Quirks,
    pub(crate) request: &'a InferenceRequest,
    /// The time, if it is known.
    pub(crate) now: Option<Timestamp>,
    /// The last request, where it is known.
    pub(crate) continuation: Option<&'a PrefixReuse>,
}

/// The parts of a custom wire.
impl<'a> EncodeInput<'a> {
    /// Returns the request.
    pub fn request(&self) -> &'a InferenceRequest {
        self.request
    }

    /// Returns the settings for the provider.
    pub fn quirks(&self) -> Quirks {
        self.quirks
    }

    /// Returns an ID for each call of an exchange. IDs from models are kept. Missing ones are
    /// derived from the position of the call, so that they are the same in each request.
    pub fn call_ids(&self, exchange: &ToolExchange, meta: &TurnMeta) -> Vec<String> {
        call_ids(exchange, meta, self.quirks.call_ids.into(), Whose::Own)
    }

    /// Writes the conversation into the list of a body: the turns of the prompt, then its tail.
    ///
    /// Each turn is encoded once. Turns of the previous request keep their bytes.
    pub fn write_turns(&self, list: &mut List<'_>, writer: &impl TurnWriter, order: TurnOrder) {
        let fillers = match order {
            TurnOrder::Any => no_fillers,
            TurnOrder::UserAtEnds => user_speaks,
            TurnOrder::ModelAfterTools => model_answers_tools,
        };
        self.write_conversation(list, 0, writer, fillers);
    }
}

/// The order of roles that a wire accepts. [`EncodeInput::write_turns`] inserts short messages if a
/// conversation has another order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnOrder {
    /// Any order.
    #[default]
    Any,
    /// A conversation starts and ends with the user or a tool, and the model does not speak twice in a row.
    UserAtEnds,
    /// In addition, the model speaks between its tools and the user.
    ModelAfterTools,
}

impl EncodeInput<'_> {
    /// Returns the name of the model.
    pub fn model(&self) -> &str {
        &self.origin.model
    }

    /// Returns `true` if the response is streamed.
    pub fn streams(&self) -> bool {
        self.request.options.stream.unwrap_or(true)
    }

    /// Returns an instruction that asks for the response format, for wires without a field for it. Returns `None`
    /// if the request asks for no format.
    pub fn format_in_words(&self) -> Option<String> {
        match self.request.response_format.as_ref()? {
            ResponseFormat::JsonObject => {
                Some("Answer with one JSON object and nothing else.".to_owned())
            }
            ResponseFormat::JsonSchema { schema, strict, .. }
                if !strict || !self.quirks.json_schema =>
            {
                Some(format!(
                    "Answer with JSON that matches this schema and nothing \
                    else:\n{schema}"
                ))
            }
            _ => None,
        }
    }

    /// Returns `true` if the model of this request wrote the message. Only then its provider payloads are sent
    /// back.
    pub fn is_own(&self, message: &Message) -> bool {
        message.origin().is_some_and(|origin| **origin == *self.origin)
    }

    /// Returns the texts of the instructions at the beginning of the conversation, and the turns after them, for
    /// wires with a field for instructions.
    pub(crate) fn split_instructions(&self) -> (Vec<String>, Vec<&Turn>) {
        let stable = || self.request.prompt.stable().map(|turn| &**turn);
        let is_instruction = |turn: &&Turn| turn.message().is_system();
        let leading = stable().take_while(is_instruction).map(|turn| turn.message().text());
        (leading.collect(), stable().skip_while(is_instruction).collect())
    }

    /// Names the form that a turn is given here: the key of the bytes kept beside it.
    pub(crate) fn cache_key(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        let ModelOrigin { wire, provider, model } = self.origin;
        (wire, provider, model, self.request.prompt.dialect, self.quirks).hash(&mut hasher);
        hasher.finish()
    }

    /// Writes the conversation: the turns of the prompt, but for the first ones of its head that stand
    /// elsewhere in the request, and the tail.
    ///
    /// Turns that were sent with the last request are sent as they were, the others as they were encoded
    /// when they were first sent. Whatever `fillers` puts between two turns stays there in later requests.
    pub(crate) fn write_conversation(
        &self,
        list: &mut List<'_>,
        skipped: usize,
        writer: &impl TurnWriter,
        fillers: Fillers,
    ) {
        let (key, prompt) = (self.cache_key(), &self.request.prompt);
        let encode =
            |turn: &Arc<Turn>| turn.encoded().get_or_encode(key, || writer.encode_turn(turn));
        let begin = list.written().len();
        let sent = self.continuation.and_then(|it| it.go_on(key, prompt, list));
        let mut before = sent.and_then(|sent| {
            let mut sent = (0..sent).rev().filter_map(|at| prompt.turns.get(at));
            let turn = sent.find(|turn| !encode(turn).is_empty());
            let turn = turn.or_else(|| prompt.head.last().filter(|turn| !encode(turn).is_empty()));
            turn.map(|turn| Side::last_of(turn))
        });
        let head = sent.is_none().then(|| prompt.head.iter_from(skipped)).into_iter().flatten();
        let new = head.chain(prompt.turns.iter_from(sent.unwrap_or(0)));
        let new: Vec<(&Arc<Turn>, Arc<[u8]>)> = new.map(|turn| (turn, encode(turn))).collect();
        list.reserve(new.iter().map(|(_, bytes)| bytes.len() + 1).sum());
        for (turn, bytes) in new.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            if let Some(filler) = fillers(before, Some(Side::first_of(turn))) {
                writer.write_message(list, &filler.message());
            }
            list.raw(bytes);
            before = Some(Side::last_of(turn));
        }
        if let Some(continuation) = self.continuation {
            continuation.note(key, prompt, begin, list);
        }
        for message in &prompt.tail {
            let side = Side::of(message);
            if let Some(filler) = fillers(before, Some(side)) {
                writer.write_message(list, &filler.message());
            }
            writer.write_message(list, message);
            before = Some(side);
        }
        if let Some(filler) = fillers(before, None) {
            writer.write_message(list, &filler.message());
        }
    }
}

/// Writes the turns of a conversation, in the format of a wire. [`EncodeInput::write_turns`]
/// decides the order of turns, and which of them are encoded again.
///
/// A method adds any number of items to the list. The same turn must have the same bytes in each request.
pub trait TurnWriter {
    /// Returns the form in which the model reads and writes tool calls.
    fn format(&self) -> ToolCallFormat;

    /// Writes a message without tool calls. Writes no item if the message is empty and the wire refuses empty ones.
    fn write_message(&self, list: &mut List<'_>, message: &Message);

    /// Writes a message of the model that calls tools, and the results of the calls.
    fn write_exchange(&self, list: &mut List<'_>, exchange: &ToolExchange, meta: &TurnMeta);

    /// Writes the same for models that read tool calls as text.
    fn write_exchange_as_text(&self, list: &mut List<'_>, exchange: &ToolExchange) {
        let text = react_text(exchange);
        self.write_message(list, &Message::assistant(text.reply));
        self.write_message(list, &Message::user(text.observations));
    }

    /// Returns the items of a turn, with commas between them.
    fn encode_turn(&self, turn: &Turn) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut list = List::new(&mut bytes);
        match turn.body() {
            TurnBody::Input(message) | TurnBody::Reply(message) => {
                self.write_message(&mut list, message);
            }
            TurnBody::ToolExchange(exchange) if self.format() == ToolCallFormat::Text => {
                self.write_exchange_as_text(&mut list, exchange);
            }
            TurnBody::ToolExchange(exchange) => {
                self.write_exchange(&mut list, exchange, turn.meta());
            }
        }
        bytes
    }
}

/// Who speaks in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The user, or the system.
    User,
    /// The model.
    Model,
    /// Tools, which are answered by the model.
    Tools,
}

impl Side {
    pub(crate) fn of(message: &Message) -> Self {
        if message.role() == Role::Assistant { Self::Model } else { Self::User }
    }

    /// Returns who speaks first in a turn.
    pub(crate) fn first_of(turn: &Turn) -> Self {
        Self::of(turn.message())
    }

    /// Returns who speaks last in a turn.
    pub(crate) fn last_of(turn: &Turn) -> Self {
        match turn.body() {
            TurnBody::ToolExchange(_) => Self::Tools,
            _ => Self::first_of(turn),
        }
    }
}

/// A filler message, which a provider's order of roles requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filler {
    /// Of the user, where the conversation begins with the model.
    Begin,
    /// Of the user, where the model spoke last, or twice.
    Continue,
    /// Of the model, between its tools and the user.
    Noted,
}

impl Filler {
    /// Returns the words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Begin => "Begin.",
            Self::Continue => "Continue.",
            Self::Noted => "Noted.",
        }
    }

    fn message(self) -> Message {
        match self {
            Self::Begin | Self::Continue => Message::user(self.text()),
            Self::Noted => Message::assistant(self.text()),
        }
    }
}

/// Decides what stands between two sides, or at an end of the conversation.
pub(crate) type Fillers = fn(Option<Side>, Option<Side>) -> Option<Filler>;

/// Puts nothing anywhere: the provider accepts any order.
pub(crate) fn no_fillers(_: Option<Side>, _: Option<Side>) -> Option<Filler> {
    None
}

/// Makes a conversation begin and end with the user, and the user speak between two answers.
pub(crate) fn user_speaks(before: Option<Side>, after: Option<Side>) -> Option<Filler> {
    match (before, after) {
        (None, Some(Side::Model)) => Some(Filler::Begin),
        (Some(Side::Model), Some(Side::Model) | None) => Some(Filler::Continue),
        _ => None,
    }
}

/// Makes the model speak between its tools and the user, in addition to [`user_speaks`].
pub(crate) fn model_answers_tools(before: Option<Side>, after: Option<Side>) -> Option<Filler> {
    match (before, after) {
        (Some(Side::Tools), Some(Side::User)) => Some(Filler::Noted),
        _ => user_speaks(before, after),
    }
}

#[cfg(test)]
mod tests;
