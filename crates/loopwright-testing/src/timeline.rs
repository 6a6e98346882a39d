//! One list that many take notes in.

use std::sync::{Arc, Mutex, PoisonError};

/// A list of notes in the order in which they were taken, a caller that took them: a journal, a recorder
/// of events, a tool. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Timeline(Arc<Mutex<Vec<String>>>);

impl Timeline {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a note.
    pub fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    /// Returns all notes, oldest first.
    pub fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
