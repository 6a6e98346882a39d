//! A shared list of notes.

use std::sync::{Arc, Mutex, PoisonError};

/// A list of notes from several sources, such as a journal, an event recorder and a tool, in their
/// order in time. Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Timeline(Arc<Mutex<Vec<String>>>);

impl Timeline {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a note.
    pub fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    /// Returns all notes, oldest first.
    pub fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
