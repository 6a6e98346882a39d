//! Named parts of a conversation.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::transcript::Transcript;

/// Names a section.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SectionName(Arc<str>);

impl SectionName {
    /// The conversation itself.
    pub const MESSAGES: &'static str = "messages";
    /// Turns that left the conversation and wait to be summarised.
    pub const BUFFER: &'static str = "buffer";
    /// What is left of turns that were summarised.
    pub const SUMMARY: &'static str = "summary";

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for SectionName {
    fn from(name: T) -> Self {
        Self(name.into())
    }
}

impl Borrow<str> for SectionName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for SectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The sections of a conversation. A section exists from the first time it is written to.
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

    /// Returns the conversation itself, to be appended to.
    pub fn messages_mut(&mut self) -> &mut Transcript {
        &mut self.messages
    }

    /// Returns a section; `None` if it was never written to.
    pub fn get(&self, name: &str) -> Option<&Transcript> {
        if name == SectionName::MESSAGES {
            return Some(&self.messages);
        }
        self.others.iter().find(|(it, _)| it.as_str() == name).map(|(_, section)| section)
    }

    /// Returns a section to be written to, and makes it if need be.
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

    /// Returns all sections in the order a model reads them, whatever the order they were made in:
    /// the summary, the buffer, sections of other names as they were made, and the conversation
    /// last, so that what grows stands at the end.
    pub fn in_order(&self) -> impl Iterator<Item = (&str, &Transcript)> {
        let known = [SectionName::SUMMARY, SectionName::BUFFER];
        let first = known.into_iter().filter_map(|name| Some((name, self.get(name)?)));
        let others = self.others.iter().map(|(name, section)| (name.as_str(), section));
        first
            .chain(others.filter(move |(name, _)| !known.contains(name)))
            .chain([(SectionName::MESSAGES, &self.messages)])
    }
}
