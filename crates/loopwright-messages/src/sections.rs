//! Named parts of a conversation.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::transcript::Transcript;

/// The name of a section.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct SectionName(Name);

#[derive(Clone)]
enum Name {
    /// A name that every conversation has.
    Known(&'static str),
    Other(Arc<str>),
}

impl SectionName {
    /// The conversation itself.
    pub const MESSAGES: &'static str = "messages";
    /// Turns that were moved out of the conversation and wait for a summary.
    pub const BUFFER: &'static str = "buffer";
    /// The summary of earlier turns.
    pub const SUMMARY: &'static str = "summary";

    const KNOWN: [&'static str; 3] = [Self::MESSAGES, Self::BUFFER, Self::SUMMARY];

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Known(name) => name,
            Name::Other(name) => name,
        }
    }
}

impl<T: AsRef<str>> From<T> for SectionName {
    fn from(name: T) -> Self {
        let name = name.as_ref();
        let known = Self::KNOWN.into_iter().find(|known| *known == name);
        Self(known.map_or_else(|| Name::Other(name.into()), Name::Known))
    }
}

impl From<SectionName> for String {
    fn from(name: SectionName) -> Self {
        name.as_str().to_owned()
    }
}

impl PartialEq for SectionName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for SectionName {}

impl PartialOrd for SectionName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SectionName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for SectionName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for SectionName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for SectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for SectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The sections of a conversation. A section exists from its first write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sections {
    #[serde(default)]
    messages: Transcript,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<(SectionName, Transcript)>,
}

impl Sections {
    /// Returns the conversation itself.
    pub fn messages(&self) -> &Transcript {
        &self.messages
    }

    /// Returns the conversation itself, for changes.
    pub fn messages_mut(&mut self) -> &mut Transcript {
        &mut self.messages
    }

    /// Returns a section, or `None` if nothing was written to it.
    pub fn get(&self, name: &str) -> Option<&Transcript> {
        if name == SectionName::MESSAGES {
            return Some(&self.messages);
        }
        self.others.iter().find(|(it, _)| it.as_str() == name).map(|(_, section)| section)
    }

    /// Returns a section for changes, and creates it if necessary.
    pub fn entry(&mut self, name: &str) -> &mut Transcript {
        if name == SectionName::MESSAGES {
            return &mut self.messages;
        }
        let at = self.others.iter().position(|(it, _)| it.as_str() == name).unwrap_or_else(|| {
            self.others.push((name.into(), Transcript::new()));
            self.others.len() - 1
        });
        &mut self.others[at].1
    }

    /// Returns all sections in the order of reading, which does not depend on the order of
    /// creation: the summary, the buffer, other sections in the order of their creation, and last
    /// the conversation, which grows.
    pub fn in_order(&self) -> impl Iterator<Item = (&str, &Transcript)> {
        let known = [SectionName::SUMMARY, SectionName::BUFFER];
        let first = known.into_iter().filter_map(|name| Some((name, self.get(name)?)));
        let others = self.others.iter().map(|(name, section)| (name.as_str(), section));
        first
            .chain(others.filter(move |(name, _)| !known.contains(name)))
            .chain([(SectionName::MESSAGES, &self.messages)])
    }
}
