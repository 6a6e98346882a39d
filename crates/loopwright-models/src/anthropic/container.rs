//! The container in which the provider runs the model's code.
//!
//! A response names the container beside its content, and a request that continues the work must
//! name it beside its messages: otherwise the provider rejects results of tools that code in the
//! container called. The container is kept as a part of the response. The provider rejects expired
//! containers.

use loopwright_core::{
    Timestamp,
    messages::{Content, Message, Part, ProviderPayload},
};
use serde_json::{Map, Value};

use crate::wire::EncodeInput;

/// The kind of the part that keeps a container.
const KIND: &str = "container";

/// Returns the part that keeps a container.
pub(super) fn part(json: String) -> Part {
    Part::new(Content::Provider { kind: KIND.into() })
        .with_provider_payload(ProviderPayload::new(json))
}

/// Returns `true` if a part keeps a container, which is no block of a message.
pub(super) fn is_container(part: &Part) -> bool {
    matches!(part.content(), Content::Provider { kind } if **kind == *KIND)
}

/// Returns the `container` of a request: that of the model's last answer that has one, and the user's own
/// fields, which win.
pub(super) fn field(question: &EncodeInput<'_>) -> Option<Value> {
    let id = || last_id(question).map(Value::from);
    match question.request.options.extra.get(KIND) {
        Some(Value::Object(own)) => {
            let mut fields = Map::new();
            if let Some(id) = id() {
                fields.insert("id".to_owned(), id);
            }
            fields.extend(own.clone());
            Some(fields.into())
        }
        Some(own) => Some(own.clone()),
        None => id(),
    }
}

fn last_id(question: &EncodeInput<'_>) -> Option<String> {
    let prompt = &question.request.prompt;
    let turns: Vec<&Message> = prompt.stable().map(|turn| turn.message()).collect();
    let own = turns.into_iter().rev().filter(|message| question.is_own(message));
    let mut parts = own.flat_map(Message::parts).filter(|part| is_container(part));
    let fields: Value = serde_json::from_str(parts.next()?.opaque()?.as_str()).ok()?;
    let expires: Option<Timestamp> =
        fields["expires_at"].as_str().and_then(|moment| moment.parse().ok());
    let is_expired = expires.zip(question.now).is_some_and(|(expires, now)| expires <= now);
    let id = fields["id"].as_str().filter(|id| !id.is_empty() && !is_expired);
    id.map(str::to_owned)
}
