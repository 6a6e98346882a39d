//! The identity of requests.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use loopwright_core::messages::{InferenceRequest, Mark, Transcript, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// What makes two requests the same: everything but the tail, which is volatile, and names of turns.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Identity {
    model: String,
    system: String,
    tools: String,
    settings: String,
    conversation: String,
}

impl Identity {
    /// Returns in what two requests differ.
    pub(super) fn difference(&self, other: &Self) -> Vec<&'static str> {
        let pairs = [
            ("model", self.model != other.model),
            ("system prompt", self.system != other.system),
            ("tools", self.tools != other.tools),
            ("settings", self.settings != other.settings),
            ("conversation", self.conversation != other.conversation),
        ];
        pairs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

/// Conversations that are remembered, for runs at the same time.
const REMEMBERED: usize = 16;

/// Tells requests apart, looking only at what is new of a conversation that continues.
#[derive(Debug, Default)]
pub(super) struct Identities(Mutex<VecDeque<Seen>>);

#[derive(Clone, Debug)]
struct Seen {
    head: Mark,
    turns: Mark,
    hash: Sha256,
}

/// A request as it is told apart, and what of its conversation is new.
pub(super) struct Identified {
    pub(super) identity: Identity,
    /// How many turns an earlier request had already.
    pub(super) known: usize,
}

impl Identities {
    pub(super) fn of(&self, request: &InferenceRequest) -> Identified {
        let prompt = &request.prompt;
        let (seen, known) = match self.recall(&prompt.head, &prompt.turns) {
            Some(seen) => (seen.hash, seen.turns.turns()),
            None => (hash_of(prompt.head.iter().map(|it| &**it)), 0),
        };
        let hash = prompt.turns.iter_from(known).fold(seen, |hash, turn| add(hash, turn));
        self.remember(Seen {
            head: prompt.head.mark(),
            turns: prompt.turns.mark(),
            hash: hash.clone(),
        });
        let identity = Identity {
            model: request.model.as_deref().unwrap_or_default().to_owned(),
            system: short(&json!(request.system)),
            tools: short(&json!(request.tools)),
            settings: short(&settings(request)),
            conversation: hex(hash),
        };
        Identified { identity, known }
    }

    /// Takes out the longest conversation that this one continues.
    fn recall(&self, head: &Transcript, turns: &Transcript) -> Option<Seen> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |it: &Seen| it.head == head.mark() && turns.extends(it.turns);
        let fitting = seen.iter().enumerate().filter(|(_, it)| fits(it));
        let (at, _) = fitting.max_by_key(|(_, it)| it.turns.turns())?;
        seen.remove(at)
    }

    fn remember(&self, one: Seen) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.truncate(REMEMBERED - 1);
        seen.push_front(one);
    }
}

fn hash_of<'a>(turns: impl Iterator<Item = &'a Turn>) -> Sha256 {
    turns.fold(Sha256::new(), add)
}

fn add(mut hash: Sha256, turn: &Turn) -> Sha256 {
    // Turns are JSON in every store, so that this cannot fail.
    hash.update(serde_json::to_vec(turn.body()).unwrap_or_default());
    hash.update(b"\n");
    hash
}

fn short(value: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(value.to_string());
    hex(hash)
}

fn hex(hash: Sha256) -> String {
    format!("{:.24x}", hash.finalize())
}

/// Returns everything else that an answer depends on, without secrets.
pub(super) fn settings(request: &InferenceRequest) -> Value {
    let mut options = request.options.clone();
    options.headers.clear();
    options.extra = without_secrets(std::mem::take(&mut options.extra));
    json!({
        "toolChoice": request.tool_choice,
        "parallelToolCalls": request.parallel_tool_calls,
        "responseFormat": request.response_format,
        "options": options,
    })
}

fn without_secrets(fields: Map<String, Value>) -> Map<String, Value> {
    const WORDS: [&str; 6] = ["key", "token", "secret", "auth", "password", "credential"];
    let is_secret = |name: &str| {
        let name = name.to_lowercase();
        WORDS.iter().any(|word| name.contains(word)) && !name.contains("tokens")
    };
    let fields = fields.into_iter().filter(|(name, _)| !is_secret(name));
    fields.map(|(name, value)| (name, cleaned(value))).collect()
}

fn cleaned(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(without_secrets(fields)),
        Value::Array(items) => Value::Array(items.into_iter().map(cleaned).collect()),
        value => value,
    }
}
