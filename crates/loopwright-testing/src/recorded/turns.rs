//! Items of a recorded conversation, as turns of a client's own.

use std::{collections::BTreeSet, sync::Arc};

use loopwright_core::messages::{
    Content, Exchange, Media, MediaSource, Message, Part, Role, ToolCall, ToolResult, Transcript,
    Turn, TurnBody,
};
use serde_json::{Value, json};

use super::{
    canon::{Item, ItemContent, merged},
    compare::{Kind, said},
    expectation::ExpectedAnswer,
};

/// An answer that the client got, and what it says in the items of a request.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) items: Vec<Item>,
    pub(crate) message: Message,
}

/// Why a recorded request cannot be said with turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsayable {
    /// A call has no result, or a result no call.
    Unpaired,
    /// Something that is no text, picture or document.
    Content,
}

/// A turn and the items that it says.
#[derive(Clone, Debug)]
struct Said {
    items: Vec<Item>,
    turn: Arc<Turn>,
}

/// The conversation as the client holds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conversation {
    said: Vec<Said>,
    pub(crate) transcript: Transcript,
}

impl Conversation {
    /// Adds an answer with the results of its calls, and what the client says then.
    pub(crate) fn go_on(&mut self, own: &Own, new: &[Item]) -> Result<(), Unsayable> {
        let items: Vec<Item> = own.items.iter().chain(new).cloned().collect();
        for said in turns(&items, std::slice::from_ref(own))? {
            self.push(said);
        }
        Ok(())
    }

    /// Says all of these items and nothing else, keeping the turns with which it begins already.
    /// Handles of answers that are not the client's own are taken out of the items.
    pub(crate) fn restart(&mut self, items: &mut [Item], own: &[Own]) -> Result<(), Unsayable> {
        let all = turns(items, own)?;
        let kept = self.said.iter().zip(&all).take_while(|(old, new)| old.items == new.items);
        let kept = kept.count();
        let rest = all.into_iter().skip(kept);
        let old = std::mem::take(self);
        old.said.into_iter().take(kept).chain(rest).for_each(|said| self.push(said));
        let is_own = |item: &Item| own.iter().any(|own| own.items.contains(item));
        let owned: BTreeSet<String> = own.iter().flat_map(|own| opaque(&own.message)).collect();
        for item in items.iter_mut().filter(|item| !is_own(item)) {
            item.opaque.retain(|handle| owned.iter().any(|it| it.contains(handle.as_str())));
        }
        Ok(())
    }

    fn push(&mut self, said: Said) {
        self.transcript.push(Arc::clone(&said.turn));
        self.said.push(said);
    }
}

fn opaque(message: &Message) -> impl Iterator<Item = String> {
    message.parts().iter().filter_map(|part| Some(part.opaque()?.as_str().to_owned()))
}

/// Returns what an answer says in the items of a request.
pub(crate) fn answer_items(expected: &ExpectedAnswer) -> Vec<Item> {
    let role = "assistant";
    let mut items = Vec::new();
    if !expected.text.is_empty() {
        items.push(Item::text(role, expected.text.as_str()));
    }
    if let Some(refusal) = &expected.refusal {
        items.push(Item::text(role, refusal.as_str()));
    }
    items.extend(expected.tool_calls.iter().map(|call| {
        let raw = || call.arguments_raw.clone().unwrap_or_default().into();
        let content = ItemContent::Call {
            id: call.id.clone(),
            name: call.name.clone().unwrap_or_default(),
            arguments: call.arguments.clone().unwrap_or_else(raw),
        };
        Item { role: role.to_owned(), content, opaque: Vec::new() }
    }));
    items
}

/// Replaces the ids that no provider gave, which clients make up as they like, by their order, and
/// returns them.
pub(crate) fn number_ids(items: &mut [Item], given: &BTreeSet<String>) -> Vec<String> {
    let mut made_up: Vec<String> = Vec::new();
    for item in items {
        match &mut item.content {
            ItemContent::Call { id, .. } if id.as_ref().is_none_or(|id| !given.contains(id)) => {
                made_up.push(id.take().unwrap_or_default());
                *id = Some(numbered(made_up.len()));
            }
            ItemContent::Result { .. } => number_result(item, &made_up),
            _ => {}
        }
    }
    made_up
}

/// Replaces the id of a result as that of its call was replaced.
pub(crate) fn number_result(item: &mut Item, made_up: &[String]) {
    if let ItemContent::Result { id: Some(id), .. } = &mut item.content
        && let Some(at) = made_up.iter().rposition(|it| it == id)
    {
        *id = numbered(at + 1);
    }
}

fn numbered(number: usize) -> String {
    format!("made_up_{number}")
}

/// Tells whether two conversations say the same, however their texts are cut into items.
pub(crate) fn say_the_same(api: &str, one: &[Item], other: &[Item]) -> bool {
    runs(api, one) == runs(api, other)
}

fn runs(api: &str, items: &[Item]) -> Vec<Value> {
    let runs = items.chunk_by(|one, other| one.is_assistant() == other.is_assistant());
    let run = |run: &[Item]| {
        let calls = said(api, run, Kind::Calls);
        let results = said(api, run, Kind::Results);
        json!([run[0].is_assistant(), squeezed(run), calls, results])
    };
    runs.map(run).collect()
}

/// Returns the text of items without blanks.
fn squeezed(items: &[Item]) -> String {
    let text = |item: &Item| match &item.content {
        ItemContent::Text(text) => Some(text.split_whitespace().collect::<String>()),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

/// Divides items into turns: a reply together with the results of its calls, and what the client
/// says.
fn turns(items: &[Item], own: &[Own]) -> Result<Vec<Said>, Unsayable> {
    let mut all = Vec::new();
    let mut runs =
        items.chunk_by(|one, other| one.is_assistant() == other.is_assistant()).peekable();
    while let Some(run) = runs.next() {
        if !run[0].is_assistant() {
            if run.iter().any(Item::is_result) && all.is_empty() {
                return Err(Unsayable::Unpaired);
            }
            inputs(run, &mut all)?;
            continue;
        }
        let after = runs.peek().copied().unwrap_or_default();
        let results: Vec<&Item> = after.iter().filter(|item| item.is_result()).collect();
        let message = message_of(run, own);
        let body = if message.tool_calls().next().is_none() && results.is_empty() {
            TurnBody::Reply(message)
        } else {
            let results = results_of(&message, &results)?;
            let exchange = Exchange::new(message, results).map_err(|_| Unsayable::Unpaired)?;
            TurnBody::Exchange(exchange)
        };
        let items = run.iter().chain(results).cloned().collect();
        let turn = Turn::new(body).map_err(|_| Unsayable::Unpaired)?;
        all.push(Said { items, turn: Arc::new(turn) });
    }
    Ok(all)
}

fn inputs(run: &[Item], all: &mut Vec<Said>) -> Result<(), Unsayable> {
    let said: Vec<&Item> = run.iter().filter(|item| !item.is_result()).collect();
    for item in said {
        let message = Message::new(Role::User, [part(item).ok_or(Unsayable::Content)?]);
        let turn = Turn::said(message).map_err(|_| Unsayable::Unpaired)?;
        all.push(Said { items: vec![item.clone()], turn: Arc::new(turn) });
    }
    Ok(())
}

/// Returns the client's own message if these items are one, so that it goes back as it came.
fn message_of(run: &[Item], own: &[Own]) -> Message {
    if let Some(own) = own.iter().rev().find(|own| is_said_by(own, run)) {
        return own.message.clone();
    }
    Message::new(Role::Assistant, merged(run.to_vec()).iter().filter_map(part))
}

/// Tells whether these items are an answer, but for ids that the provider did not give.
fn is_said_by(own: &Own, run: &[Item]) -> bool {
    let is_call = |item: &&Item| matches!(item.content, ItemContent::Call { .. });
    let given: Vec<&Item> = own.items.iter().filter(is_call).collect();
    let sent: Vec<&Item> = run.iter().filter(is_call).collect();
    squeezed(&own.items) == squeezed(run)
        && given.len() == sent.len()
        && given.iter().zip(&sent).all(|(given, sent)| is_same_call(given, sent))
}

fn is_same_call(given: &Item, sent: &Item) -> bool {
    // Ids are looked at only where the provider gave one.
    let has_id = matches!(given.content, ItemContent::Call { id: Some(_), .. });
    let api = if has_id { "" } else { "gemini-generate" };
    let said = |item: &Item| said(api, std::slice::from_ref(item), Kind::Calls);
    said(given) == said(sent)
}

/// Returns one result for each call: by its id, otherwise by its name, otherwise the next one.
fn results_of(message: &Message, results: &[&Item]) -> Result<Vec<ToolResult>, Unsayable> {
    let mut left: Vec<&Item> = results.to_vec();
    let mut all = Vec::new();
    for call in message.tool_calls() {
        let at = left.iter().position(|item| answers(item, call, By::Id));
        let at = at.or_else(|| left.iter().position(|item| answers(item, call, By::Name)));
        if at.is_none() && left.is_empty() {
            return Err(Unsayable::Unpaired);
        }
        let item = left.remove(at.unwrap_or(0));
        let ItemContent::Result { text, is_error, .. } = &item.content else { continue };
        all.push(ToolResult { is_error: *is_error, ..ToolResult::text(text.as_str()) });
    }
    if left.is_empty() { Ok(all) } else { Err(Unsayable::Unpaired) }
}

#[derive(Clone, Copy)]
enum By {
    Id,
    Name,
}

fn answers(item: &Item, call: &ToolCall, by: By) -> bool {
    let ItemContent::Result { id, name, .. } = &item.content else { return false };
    match by {
        By::Id => id.is_some() && id.as_deref() == call.id.as_deref(),
        By::Name => name.as_deref() == Some(&*call.name),
    }
}

/// Returns an item as a part of a message; nothing for what only a provider knows.
fn part(item: &Item) -> Option<Part> {
    Some(match &item.content {
        ItemContent::Text(text) => Part::text(text.as_str()),
        ItemContent::Reasoning(text) => Part::reasoning(text.as_str()),
        ItemContent::Call { id, name, arguments } => {
            let arguments = match arguments {
                Value::String(text) => text.as_str().into(),
                other => other.to_string().into(),
            };
            let (id, name) = (id.as_deref().map(Arc::from), name.as_str().into());
            Part::new(Content::ToolCall(ToolCall { id, name, arguments }))
        }
        ItemContent::Result { .. } => return None,
        ItemContent::Other { kind, value } => {
            let media = media(kind, value)?;
            Part::new(match kind.as_str() {
                "image" => Content::Image(media),
                "document" => Content::Document(media),
                _ => return None,
            })
        }
    })
}

/// Reads a picture or a document as one of the wires writes it.
fn media(kind: &str, value: &Value) -> Option<Media> {
    let text = |names: &[&str]| names.iter().find_map(|name| value[*name].as_str());
    let mime = text(&["media_type", "mimeType", "mime_type"]);
    let mime = mime.map_or_else(|| default_mime(kind, value), str::to_owned);
    if let Some(data) = text(&["data"]) {
        let source = MediaSource::Base64(data.into());
        return Some(Media { mime: mime.into(), source, name: None });
    }
    let address = value.as_str().or_else(|| text(&["url", "fileUri", "file_uri", "file_data"]))?;
    let inline = address.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    Some(match inline {
        Some((mime, data)) => {
            Media { mime: mime.into(), source: MediaSource::Base64(data.into()), name: None }
        }
        None => Media { mime: mime.into(), source: MediaSource::Url(address.into()), name: None },
    })
}

fn default_mime(kind: &str, value: &Value) -> String {
    match (value["format"].as_str(), kind) {
        (Some(format), "image") => format!("image/{format}"),
        (Some(format), _) => format!("application/{format}"),
        (None, "image") => "image/jpeg".to_owned(),
        (None, _) => "application/pdf".to_owned(),
    }
}

#[cfg(test)]
mod tests;
