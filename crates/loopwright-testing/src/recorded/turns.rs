//! Conversion of recorded items to turns.

use std::{collections::BTreeSet, sync::Arc};

use loopwright_core::messages::{
    Content, Media, Message, Part, Role, ToolCall, ToolExchange, ToolResult, Transcript, Turn,
    TurnBody,
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
pub(crate) enum Unsupported {
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
    pub(crate) fn go_on(&mut self, own: &Own, new: &[Item]) -> Result<(), Unsupported> {
        let items: Vec<Item> = own.items.iter().chain(new).cloned().collect();
        for said in turns(&items, std::slice::from_ref(own))? {
            self.push(said);
        }
        Ok(())
    }

    /// Says all of these items and nothing else, keeping the turns with which it begins already.
    /// Handles of answers that are not the client's own are taken out of the items.
    pub(crate) fn restart(&mut self, items: &mut [Item], own: &[Own]) -> Result<(), Unsupported> {
        restore_ids(items, own);
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

/// Returns `true` if two conversations say the same, however their texts are cut into items.
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
fn turns(items: &[Item], own: &[Own]) -> Result<Vec<Said>, Unsupported> {
    let mut all = Vec::new();
    let mut runs =
        items.chunk_by(|one, other| one.is_assistant() == other.is_assistant()).peekable();
    while let Some(run) = runs.next() {
        if !run[0].is_assistant() {
            if run.iter().any(Item::is_result) && all.is_empty() {
                return Err(Unsupported::Unpaired);
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
            let exchange =
                ToolExchange::new(message, results).map_err(|_| Unsupported::Unpaired)?;
            TurnBody::ToolExchange(exchange)
        };
        let items = run.iter().chain(results).cloned().collect();
        let turn = Turn::new(body).map_err(|_| Unsupported::Unpaired)?;
        all.push(Said { items, turn: Arc::new(turn) });
    }
    Ok(all)
}

fn inputs(run: &[Item], all: &mut Vec<Said>) -> Result<(), Unsupported> {
    let said: Vec<&Item> = run.iter().filter(|item| !item.is_result()).collect();
    for item in said {
        let role = if item.role == "system" { Role::System } else { Role::User };
        let message = Message::new(role, [part(item).ok_or(Unsupported::Content)?]);
        let turn = Turn::from_message(message).map_err(|_| Unsupported::Unpaired)?;
        all.push(Said { items: vec![item.clone()], turn: Arc::new(turn) });
    }
    Ok(())
}

/// Returns the client's own message if these items are one, so that it goes back as it came.
fn message_of(run: &[Item], own: &[Own]) -> Message {
    match source_of(run, own) {
        Some(own) if squeezed(&own.items) == squeezed(run) => own.message.clone(),
        Some(own) => edited(&own.message, run),
        None => Message::new(Role::Assistant, merged(run.to_vec()).iter().filter_map(part)),
    }
}

/// Returns the answer that these items are: the same calls under whatever ids, with the same words, with the
/// same handles, or at least with calls. Clients rename ids and edit texts.
fn source_of<'o>(run: &[Item], own: &'o [Own]) -> Option<&'o Own> {
    let score = |own: &&'o Own| {
        let ids = same_calls(&own.items, run)?;
        let text = squeezed(&own.items) == squeezed(run);
        let handles = shares_handle(run, &own.message);
        let has_calls = run.iter().any(is_call);
        let is_it = text || handles || has_calls;
        is_it.then_some((handles, text, ids == SameIds::All))
    };
    own.iter().filter(|own| score(own).is_some()).max_by_key(score)
}

/// Returns an answer with the words of these items in the place of its own.
fn edited(message: &Message, run: &[Item]) -> Message {
    let texts: Vec<Part> = run
        .iter()
        .filter(|it| matches!(it.content, ItemContent::Text(_)))
        .filter_map(part)
        .collect();
    let kept = |part: &&Part| !matches!(part.content(), Content::Text(_) | Content::Refusal(_));
    let is_reasoning = |part: &Part| matches!(part.content(), Content::Reasoning(_));
    let mut parts: Vec<Part> = message.parts().iter().filter(kept).cloned().collect();
    let at = parts.iter().take_while(|part| is_reasoning(part)).count();
    parts.splice(at..at, texts);
    message.clone().with_parts(parts)
}

fn is_call(item: &Item) -> bool {
    matches!(item.content, ItemContent::Call { .. })
}

fn shares_handle(run: &[Item], message: &Message) -> bool {
    let mut handles = run.iter().flat_map(|item| &item.opaque);
    handles.any(|handle| opaque(message).any(|it| it.contains(handle.as_str())))
}

/// Whether calls have the ids that the provider gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SameIds {
    All,
    Renamed,
}

/// Compares the calls of an answer with those of a request. Returns `None` if they are others.
fn same_calls(given: &[Item], sent: &[Item]) -> Option<SameIds> {
    // Without ids, as for a wire that has none.
    let calls = |items: &[Item], api: &str| said(api, items, Kind::Calls);
    if given.iter().filter(|it| is_call(it)).count() != sent.iter().filter(|it| is_call(it)).count()
    {
        return None;
    }
    let without_ids = |items: &[Item]| -> Vec<Value> {
        let calls = items.iter().filter(|it| is_call(it)).cloned();
        let calls: Vec<Item> = calls.map(without_id).collect();
        said("", &calls, Kind::Calls)
    };
    if without_ids(given) != without_ids(sent) {
        return None;
    }
    Some(if calls(given, "") == calls(sent, "") { SameIds::All } else { SameIds::Renamed })
}

fn without_id(mut item: Item) -> Item {
    if let ItemContent::Call { id, .. } = &mut item.content {
        *id = None;
    }
    item
}

/// Gives the calls that are the client's own, and their results, the ids that the provider gave them.
fn restore_ids(items: &mut [Item], own: &[Own]) {
    let mut renamed: Vec<(Option<String>, Option<String>)> = Vec::new();
    let starts: Vec<(usize, usize)> = {
        let mut at = 0;
        let runs = items.chunk_by(|one, other| one.is_assistant() == other.is_assistant());
        runs.map(|run| {
            at += run.len();
            (at - run.len(), at)
        })
        .collect()
    };
    for (start, end) in starts {
        let run = &mut items[start..end];
        let source = if run[0].is_assistant() { source_of(run, own) } else { None };
        let Some(source) = source else {
            for item in run {
                if let ItemContent::Result { id, .. } = &mut item.content
                    && let Some((_, given)) = renamed.iter().rfind(|(sent, _)| sent == id)
                {
                    id.clone_from(given);
                }
            }
            continue;
        };
        let given = source.items.iter().filter_map(|item| match &item.content {
            ItemContent::Call { id, .. } => Some(id.clone()),
            _ => None,
        });
        let sent = run.iter_mut().filter_map(|item| match &mut item.content {
            ItemContent::Call { id, .. } => Some(id),
            _ => None,
        });
        for (sent, given) in sent.zip(given) {
            if given.is_some() && *sent != given {
                renamed.push((sent.clone(), given.clone()));
                *sent = given;
            }
        }
    }
}

/// Returns one result for each call: by its id, otherwise by its name, otherwise the next one.
fn results_of(message: &Message, results: &[&Item]) -> Result<Vec<ToolResult>, Unsupported> {
    let mut left: Vec<&Item> = results.to_vec();
    let mut all = Vec::new();
    for call in message.tool_calls() {
        let at = left.iter().position(|item| answers(item, call, By::Id));
        let at = at.or_else(|| left.iter().position(|item| answers(item, call, By::Name)));
        if at.is_none() && left.is_empty() {
            return Err(Unsupported::Unpaired);
        }
        let item = left.remove(at.unwrap_or(0));
        let ItemContent::Result { text, is_error, media, .. } = &item.content else { continue };
        let words =
            Some(Part::text(text.as_str())).filter(|_| !text.is_empty() || media.is_empty());
        let kind =
            |media: &Media| if media.mime.starts_with("image/") { "image" } else { "document" };
        let media = media.iter().map(|media| shown(kind(media), media.clone()));
        let content = words.into_iter().chain(media).collect();
        all.push(ToolResult { content, is_error: *is_error });
    }
    if left.is_empty() { Ok(all) } else { Err(Unsupported::Unpaired) }
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

/// Returns an item as a part of a message; `None` for what only a provider knows.
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
        ItemContent::Other { kind, .. } => shown(kind, item.media()?),
    })
}

fn shown(kind: &str, media: Media) -> Part {
    let is_image = kind == "image";
    Part::new(if is_image { Content::Image(media) } else { Content::Document(media) })
}

#[cfg(test)]
mod tests;
