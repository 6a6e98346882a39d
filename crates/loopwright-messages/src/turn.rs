//! One turn of a conversation, valid by construction.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};

use crate::{
    encoded::EncodedCache,
    ids::ExecutionId,
    message::{Message, Role},
    tool::{ToolCall, ToolResult},
};

/// A turn and its origin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "StoredTurn", into = "StoredTurn")]
pub struct Turn {
    /// The ID of this value, unique in this process.
    id: u64,
    meta: TurnMeta,
    body: TurnBody,
    encoded: EncodedCache,
}

/// The origin of a turn. Turns that a caller added have no tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnMeta {
    /// The execution that recorded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The step that recorded it, counted from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Whether it is an intermediate step rather than an answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_trace: bool,
}

/// The content of a turn. A `Turn` can only contain a valid variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnBody {
    /// To the model: from the system, the developer or the user.
    Input(Message),
    /// From the model, without tool calls.
    Reply(Message),
    /// From the model with tool calls, and the results of the calls.
    ToolExchange(ToolExchange),
}

/// A reply that calls tools, with one result for each call, in call order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredExchange")]
pub struct ToolExchange {
    reply: Message,
    results: Arc<[ToolResult]>,
}

/// A violation of the rules for turns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// An input has the role of the model, or a reply does not.
    #[error("{turn} cannot have role {role:?}")]
    Role {
        /// The kind of turn.
        turn: &'static str,
        /// The role.
        role: Role,
    },
    /// A turn without results calls tools.
    #[error("{turn} calls {calls} tools without results; use a tool exchange")]
    Calls {
        /// The kind of turn.
        turn: &'static str,
        /// The number of calls.
        calls: usize,
    },
    /// The results do not match the calls.
    #[error("{calls} tool calls have {results} results")]
    Results {
        /// The number of calls.
        calls: usize,
        /// The number of results.
        results: usize,
    },
}

impl ToolExchange {
    /// Pairs a reply with its results.
    ///
    /// # Errors
    ///
    /// Returns an error if the reply is not the model's, has no calls, or the numbers differ.
    pub fn new(
        reply: Message,
        results: impl IntoIterator<Item = ToolResult>,
    ) -> Result<Self, TurnError> {
        let exchange = Self { reply, results: results.into_iter().collect() };
        exchange.check()?;
        Ok(exchange)
    }

    fn check(&self) -> Result<(), TurnError> {
        check_role("an exchange", &self.reply, |role| role == Role::Assistant)?;
        let (calls, results) = (self.reply.tool_calls().count(), self.results.len());
        if calls == 0 || calls != results {
            return Err(TurnError::Results { calls, results });
        }
        Ok(())
    }

    /// Returns the reply.
    pub fn reply(&self) -> &Message {
        &self.reply
    }

    /// Returns the results, in call order.
    pub fn results(&self) -> &[ToolResult] {
        &self.results
    }

    /// Returns each call with its result.
    pub fn pairs(&self) -> impl Iterator<Item = (&ToolCall, &ToolResult)> {
        self.reply.tool_calls().zip(self.results.iter())
    }
}

impl TurnBody {
    fn check(&self) -> Result<(), TurnError> {
        match self {
            Self::Input(message) => {
                check_role("an input", message, |role| role != Role::Assistant)?;
                check_no_calls("an input", message)
            }
            Self::Reply(message) => {
                check_role("a reply", message, |role| role == Role::Assistant)?;
                check_no_calls("a reply", message)
            }
            Self::ToolExchange(exchange) => exchange.check(),
        }
    }
}

fn check_role(
    turn: &'static str,
    message: &Message,
    fits: impl Fn(Role) -> bool,
) -> Result<(), TurnError> {
    let role = message.role();
    if fits(role) { Ok(()) } else { Err(TurnError::Role { turn, role }) }
}

fn check_no_calls(turn: &'static str, message: &Message) -> Result<(), TurnError> {
    match message.tool_calls().count() {
        0 => Ok(()),
        calls => Err(TurnError::Calls { turn, calls }),
    }
}

fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id || (self.meta == other.meta && self.body == other.body)
    }
}

impl Turn {
    /// Creates a turn without tags.
    ///
    /// # Errors
    ///
    /// Returns an error if the body is invalid.
    pub fn new(body: TurnBody) -> Result<Self, TurnError> {
        body.check()?;
        let (meta, encoded) = (TurnMeta::default(), EncodedCache::default());
        Ok(Self { id: new_id(), meta, body, encoded })
    }

    /// Creates a reply from a message of the model, and an input from any other message.
    ///
    /// # Errors
    ///
    /// Returns an error if the message calls tools.
    pub fn from_message(message: Message) -> Result<Self, TurnError> {
        match message.role() {
            Role::Assistant => Self::new(TurnBody::Reply(message)),
            _ => Self::new(TurnBody::Input(message)),
        }
    }

    /// Sets the tags.
    #[must_use]
    pub fn with_meta(self, meta: TurnMeta) -> Self {
        Self { id: new_id(), meta, ..self }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the tags.
    pub fn meta(&self) -> &TurnMeta {
        &self.meta
    }

    /// Returns the content.
    pub fn body(&self) -> &TurnBody {
        &self.body
    }

    /// Returns the message, which is the reply for an exchange.
    pub fn message(&self) -> &Message {
        match &self.body {
            TurnBody::Input(message) | TurnBody::Reply(message) => message,
            TurnBody::ToolExchange(exchange) => exchange.reply(),
        }
    }

    /// Returns the cache of the encoded turn.
    pub fn encoded(&self) -> &EncodedCache {
        &self.encoded
    }
}

impl TryFrom<Message> for Turn {
    type Error = TurnError;

    fn try_from(message: Message) -> Result<Self, TurnError> {
        Self::from_message(message)
    }
}

#[derive(Serialize, Deserialize)]
struct StoredTurn {
    #[serde(default, skip_serializing_if = "is_untagged")]
    meta: TurnMeta,
    body: TurnBody,
}

fn is_untagged(meta: &TurnMeta) -> bool {
    *meta == TurnMeta::default()
}

impl From<Turn> for StoredTurn {
    fn from(turn: Turn) -> Self {
        Self { meta: turn.meta, body: turn.body }
    }
}

impl TryFrom<StoredTurn> for Turn {
    type Error = TurnError;

    fn try_from(stored: StoredTurn) -> Result<Self, TurnError> {
        Ok(Self::new(stored.body)?.with_meta(stored.meta))
    }
}

#[derive(Deserialize)]
struct StoredExchange {
    reply: Message,
    results: Vec<ToolResult>,
}

impl TryFrom<StoredExchange> for ToolExchange {
    type Error = TurnError;

    fn try_from(stored: StoredExchange) -> Result<Self, TurnError> {
        Self::new(stored.reply, stored.results)
    }
}
