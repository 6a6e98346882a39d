//! The conversation: a persistent sequence of turns.

use std::{fmt, sync::Arc};

use imbl::Vector;
use serde::{Deserialize, Serialize, de};

use crate::{
    message::Message,
    turn::{Turn, TurnError},
};

/// A conversation. Cloning and appending cost the same at any length.
///
/// Transcripts that were derived from one another share their turns.
/// [`starts_with`](Transcript::starts_with) checks in constant time whether one is the beginning of
/// the other.
#[derive(Clone, Default)]
pub struct Transcript {
    links: Vector<Link>,
    /// The hash of all turns, and of all except the newest one.
    chain: u64,
    before: u64,
}

/// The length of a conversation at some time, without keeping it alive; see [`Transcript::mark`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    len: usize,
    chain: u64,
}

impl Mark {
    /// Returns the number of turns at that time.
    pub fn turns(self) -> usize {
        self.len
    }
}

/// A turn, with the ID of the chain of turns up to it.
#[derive(Clone)]
struct Link {
    turn: Arc<Turn>,
    chain: u64,
}

/// The version of the format of stored transcripts.
const FORMAT: u32 = 1;

impl Transcript {
    /// Creates an empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a turn.
    pub fn push(&mut self, turn: impl Into<Arc<Turn>>) {
        let turn = turn.into();
        self.before = self.chain;
        self.chain = link(self.chain, &turn);
        self.links.push_back(Link { turn, chain: self.chain });
    }

    /// Appends a message.
    ///
    /// # Errors
    ///
    /// Returns an error if the message calls tools: only an exchange can.
    pub fn push_message(&mut self, message: Message) -> Result<(), TurnError> {
        self.push(Turn::from_message(message)?);
        Ok(())
    }

    /// Returns the number of turns.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns `true` if there are no turns.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns a turn by its position.
    pub fn get(&self, index: usize) -> Option<&Arc<Turn>> {
        self.links.get(index).map(|link| &link.turn)
    }

    /// Returns the newest turn.
    pub fn last(&self) -> Option<&Arc<Turn>> {
        self.links.last().map(|link| &link.turn)
    }

    /// Returns the turns, oldest first.
    pub fn iter(&self) -> Turns<'_> {
        self.iter_from(0)
    }

    /// Returns the turns from a position on. The cost does not depend on the number of turns before
    /// it.
    pub fn iter_from(&self, start: usize) -> Turns<'_> {
        Turns { links: &self.links, next: start.min(self.len()), end: self.len() }
    }

    /// Returns the first `len` turns.
    #[must_use]
    pub fn prefix(&self, len: usize) -> Self {
        let len = len.min(self.len());
        let before = self.chain_at(len.saturating_sub(1));
        Self { links: self.links.clone().slice(..len), chain: self.chain_at(len), before }
    }

    /// Returns `true` if this conversation begins with all turns of the other one, in constant time.
    ///
    /// It compares the identity of turns, not their content: if two transcripts were loaded
    /// separately, neither begins with the other.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.extends(other.mark())
    }

    /// Marks the current length of the conversation.
    pub fn mark(&self) -> Mark {
        Mark { len: self.len(), chain: self.chain }
    }

    /// Returns `true` if the conversation begins with the marked part, in constant time.
    pub fn extends(&self, mark: Mark) -> bool {
        mark.len <= self.len() && self.chain_at(mark.len) == mark.chain
    }

    fn chain_at(&self, len: usize) -> u64 {
        match self.len() - len.min(self.len()) {
            0 => self.chain,
            1 => self.before,
            _ => len.checked_sub(1).and_then(|it| self.links.get(it)).map_or(0, |it| it.chain),
        }
    }
}

/// Extends a chain by a turn. Different turns never have the same ID.
fn link(chain: u64, turn: &Arc<Turn>) -> u64 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = (chain.rotate_left(23) ^ turn.id()).wrapping_mul(MULTIPLIER);
    mixed ^ (mixed >> 29)
}

/// The turns of a transcript; see [`Transcript::iter`].
#[derive(Clone)]
pub struct Turns<'a> {
    links: &'a Vector<Link>,
    next: usize,
    end: usize,
}

impl<'a> Iterator for Turns<'a> {
    type Item = &'a Arc<Turn>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            return None;
        }
        self.next += 1;
        self.links.get(self.next - 1).map(|link| &link.turn)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.next;
        (left, Some(left))
    }
}

impl DoubleEndedIterator for Turns<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            return None;
        }
        self.end -= 1;
        self.links.get(self.end).map(|link| &link.turn)
    }
}

impl ExactSizeIterator for Turns<'_> {}

impl fmt::Debug for Turns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<'a> IntoIterator for &'a Transcript {
    type Item = &'a Arc<Turn>;
    type IntoIter = Turns<'a>;

    fn into_iter(self) -> Turns<'a> {
        self.iter()
    }
}

impl<T: Into<Arc<Turn>>> Extend<T> for Transcript {
    fn extend<I: IntoIterator<Item = T>>(&mut self, turns: I) {
        for turn in turns {
            self.push(turn);
        }
    }
}

impl<T: Into<Arc<Turn>>> FromIterator<T> for Transcript {
    fn from_iter<I: IntoIterator<Item = T>>(turns: I) -> Self {
        let mut transcript = Self::new();
        transcript.extend(turns);
        transcript
    }
}

impl PartialEq for Transcript {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && (self.starts_with(other) || self.iter().eq(other.iter()))
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Transcript {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored { format: FORMAT, turns: self.iter().cloned().collect() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Transcript {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        if stored.format != FORMAT {
            let format = stored.format;
            return Err(de::Error::custom(format_args!(
                "unknown transcript format {format}; this version reads format {FORMAT}"
            )));
        }
        Ok(stored.turns.into_iter().collect())
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    turns: Vec<Arc<Turn>>,
}
