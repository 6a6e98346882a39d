//! A response item that is being streamed.

use loopwright_core::{Delta, DeltaSink, messages::Part};
use serde_json::{Map, Value, json};

use super::{item::Voice, wire::Item};

/// An item as far as it has come.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) place: Place,
    pub(super) id: String,
    pub(super) kind: String,
    /// Its form: the one in which it was announced, then the one in which it was completed.
    raw: String,
    /// What was said, piece by piece.
    pieces: Vec<Piece>,
    /// The words, the thought or the arguments, in the order in which they were said.
    heard: String,
    /// The name under which it was passed on, if it is a call.
    name: Option<String>,
    /// Its position among the calls.
    position: u16,
    is_done: bool,
}

/// Where an item stands among the items: its position in the answer, then the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) index: u64,
    pub(super) arrival: usize,
}

#[derive(Debug)]
struct Piece {
    voice: Voice,
    at: u64,
    text: String,
}

/// An item contradicts what was passed on of it.
#[derive(Debug)]
pub(super) struct Contradiction;

/// Passes on what items say, and notes how far it has come, so that nothing is said after what comes
/// after it.
pub(super) struct Told<'a> {
    pub(super) progress: &'a mut Progress,
    pub(super) deltas: &'a mut dyn DeltaSink,
}

/// The last items that said something.
#[derive(Debug, Default)]
pub(super) struct Progress {
    text: Option<Place>,
    reasoning: Option<Place>,
    call: Option<Place>,
    calls: u16,
}

impl Slot {
    /// Begins an item that was announced.
    pub(super) fn begin(place: Place, item: &Item<'_>, raw: &str) -> Self {
        Self {
            place,
            id: item.id.to_string(),
            kind: item.kind.to_string(),
            raw: raw.to_owned(),
            pieces: Vec::new(),
            heard: String::new(),
            name: None,
            position: 0,
            is_done: false,
        }
    }

    /// Begins an item that says something without having been announced.
    pub(super) fn unannounced(place: Place, id: &str, voice: Voice) -> Self {
        let kind = match voice {
            Voice::Text | Voice::Refusal => "message",
            Voice::Summary | Voice::Thought => "reasoning",
            Voice::Arguments => "function_call",
        };
        let raw = json!({ "type": kind, "id": id }).to_string();
        Self {
            id: id.to_owned(),
            kind: kind.to_owned(),
            ..Self::begin(place, &Item::default(), &raw)
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Names the call that it is, as soon as its name is known. What was said of the arguments before
    /// is passed on now.
    pub(super) fn name(
        &mut self,
        item: &Item<'_>,
        told: &mut Told<'_>,
    ) -> Result<(), Contradiction> {
        let name = item.tool();
        if !item.is_call() || name.is_empty() {
            return Ok(());
        }
        if let Some(known) = &self.name {
            return if known == name { Ok(()) } else { Err(Contradiction) };
        }
        reach(&mut told.progress.call, self.place)?;
        let index = told.progress.calls;
        told.progress.calls = index.saturating_add(1);
        (self.position, self.name) = (index, Some(name.to_owned()));
        let id = Some(item.call_id()).filter(|id| !id.is_empty());
        told.deltas.push(Delta::ToolCall { index, id, name });
        if !self.heard.is_empty() {
            told.deltas.push(Delta::ToolArguments { index, fragment: &self.heard });
        }
        Ok(())
    }

    /// Takes more of what it says.
    pub(super) fn say(
        &mut self,
        voice: Voice,
        at: u64,
        more: &str,
        told: &mut Told<'_>,
    ) -> Result<(), Contradiction> {
        let fits = match voice {
            Voice::Text | Voice::Refusal => self.kind == "message",
            Voice::Summary | Voice::Thought => self.kind == "reasoning",
            Voice::Arguments => matches!(&*self.kind, "function_call" | "custom_tool_call"),
        };
        if more.is_empty() {
            return Ok(());
        }
        if !fits {
            return Err(Contradiction);
        }
        if voice != Voice::Refusal {
            self.hear(more, told)?;
        }
        match self.pieces.iter_mut().rfind(|it| it.voice == voice && it.at == at) {
            Some(piece) => piece.text.push_str(more),
            None => self.pieces.push(Piece { voice, at, text: more.to_owned() }),
        }
        Ok(())
    }

    /// Takes the whole of something, of which the beginning may have been said.
    pub(super) fn said(
        &mut self,
        voice: Voice,
        at: u64,
        whole: &str,
        told: &mut Told<'_>,
    ) -> Result<(), Contradiction> {
        let so_far = self.pieces.iter().find(|it| it.voice == voice && it.at == at);
        match whole.strip_prefix(so_far.map_or("", |it| &it.text)) {
            Some(more) => self.say(voice, at, more, told),
            // The complete item will tell.
            None => Ok(()),
        }
    }

    /// Takes the item as it was completed, and passes on what was not said yet.
    ///
    /// What was passed on stays said, even if the complete item says it in other words or not at all.
    ///
    /// # Errors
    ///
    /// Returns an error if something of it was lost on the way, or a call is another one than it was.
    pub(super) fn complete(
        &mut self,
        item: &Item<'_>,
        raw: &str,
        told: &mut Told<'_>,
    ) -> Result<(), Contradiction> {
        if *item.kind != *self.kind || (self.name.is_some() && !item.is_call()) {
            return Err(Contradiction);
        }
        self.name(item, told)?;
        raw.clone_into(&mut self.raw);
        self.is_done = true;
        let whole = item.words();
        if let Some(more) = whole.strip_prefix(&*self.heard) {
            return self.hear(more, told);
        }
        let is_call = self.name.is_some();
        if whole.is_empty() || (!is_call && self.heard.starts_with(&*whole)) {
            self.raw = self.rebuilt("completed");
        } else if is_call || self.heard.len() < whole.len() {
            return Err(Contradiction);
        }
        Ok(())
    }

    /// Ends an item that was never completed: it is made of what was said.
    ///
    /// # Errors
    ///
    /// Returns an error if that is invalid.
    pub(super) fn close(&mut self, status: &str, told: &mut Told<'_>) -> Result<(), Contradiction> {
        let raw = self.rebuilt(status);
        let item: Item<'_> = serde_json::from_str(&raw).map_err(|_| Contradiction)?;
        self.complete(&item, &raw, told)?;
        let is_thought = &*item.kind == "reasoning" && item.encrypted_content.is_empty();
        if is_thought {
            // The provider would not know it again.
            self.raw.clear();
        }
        Ok(())
    }

    /// Returns its parts.
    ///
    /// # Errors
    ///
    /// Returns an error if what stands under its fields is not what it should be.
    pub(super) fn into_parts(self) -> Result<Vec<Part>, serde_json::Error> {
        if self.raw.is_empty() {
            return Ok(vec![Part::reasoning(self.heard)]);
        }
        let item: Item<'_> = serde_json::from_str(&self.raw)?;
        Ok(item.parts(self.heard, &self.raw))
    }

    /// Returns `true` if it is a call whose arguments broke off.
    pub(super) fn is_cut(&self) -> bool {
        !self.is_done
            && self.kind == "function_call"
            && !self.heard.trim().is_empty()
            && serde_json::from_str::<serde::de::IgnoredAny>(&self.heard).is_err()
    }

    /// Takes words that are passed on.
    fn hear(&mut self, more: &str, told: &mut Told<'_>) -> Result<(), Contradiction> {
        if more.is_empty() {
            return Ok(());
        }
        self.heard.push_str(more);
        match &*self.kind {
            "message" => {
                reach(&mut told.progress.text, self.place)?;
                told.deltas.push(Delta::Text(more));
            }
            "reasoning" => {
                reach(&mut told.progress.reasoning, self.place)?;
                told.deltas.push(Delta::Reasoning(more));
            }
            _ if self.name.is_some() => {
                let index = self.position;
                told.deltas.push(Delta::ToolArguments { index, fragment: more });
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts what was said into the item, in the form that it has when it is complete.
    fn rebuilt(&self, status: &str) -> String {
        let mut item: Map<String, Value> = serde_json::from_str(&self.raw).unwrap_or_default();
        let list = |voices: &[Voice]| {
            let said = self.pieces.iter().filter(|it| voices.contains(&it.voice));
            Some(said.map(Piece::to_json).collect::<Vec<_>>()).filter(|it| !it.is_empty())
        };
        let fields: [(&str, Option<Value>); 3] = match &*self.kind {
            "message" => [
                ("role", Some("assistant".into())),
                ("content", list(&[Voice::Text, Voice::Refusal]).map(Value::from)),
                ("status", Some(status.into())),
            ],
            "reasoning" => [
                ("summary", list(&[Voice::Summary]).map(Value::from)),
                ("content", list(&[Voice::Thought]).map(Value::from)),
                ("", None),
            ],
            kind @ ("function_call" | "custom_tool_call") => [
                (
                    if kind == "function_call" { "arguments" } else { "input" },
                    Some(&self.heard).filter(|it| !it.is_empty()).map(|it| it.as_str().into()),
                ),
                ("status", Some(status.into())),
                ("", None),
            ],
            _ => [("", None), ("", None), ("", None)],
        };
        let said = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        item.extend(said);
        Value::Object(item).to_string()
    }
}

impl Piece {
    fn to_json(&self) -> Value {
        let text = &self.text;
        match self.voice {
            Voice::Refusal => json!({ "type": "refusal", "refusal": text }),
            Voice::Summary => json!({ "type": "summary_text", "text": text }),
            Voice::Thought => json!({ "type": "reasoning_text", "text": text }),
            _ => json!({ "type": "output_text", "text": text, "annotations": [] }),
        }
    }
}

/// Notes that the item at this place says something.
fn reach(last: &mut Option<Place>, place: Place) -> Result<(), Contradiction> {
    if last.is_some_and(|last| last > place) {
        return Err(Contradiction);
    }
    *last = Some(place);
    Ok(())
}
