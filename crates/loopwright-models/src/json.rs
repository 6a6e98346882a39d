//! Incremental JSON encoding.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

/// A JSON list in progress.
pub struct List<'a> {
    out: &'a mut Vec<u8>,
    is_begun: bool,
}

impl<'a> List<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_begun: false }
    }

    /// Appends an item that `write` writes. It must be one JSON value.
    pub fn item(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_begun {
            self.out.push(b',');
        }
        self.is_begun = true;
        write(self.out);
    }

    /// Appends a value.
    pub fn push(&mut self, item: &Value) {
        self.item(|out| value(out, item));
    }

    /// Returns everything that was written so far, what is before the list included.
    pub(crate) fn written(&self) -> &[u8] {
        self.out
    }

    /// Goes on with other bytes, in which the list begins there.
    pub(crate) fn continue_with(&mut self, bytes: Vec<u8>, begin: usize) {
        self.is_begun |= bytes.len() > begin;
        *self.out = bytes;
    }

    /// Reserves this number of bytes, and a little more.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        const MORE: usize = 256;
        self.out.reserve(bytes + MORE);
    }

    /// Writes items that are JSON already, commas between them; nothing if there are none.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.item(|out| out.extend_from_slice(bytes));
        }
    }
}

impl fmt::Debug for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonList").field("is_begun", &self.is_begun).finish_non_exhaustive()
    }
}

/// Returns an object with a list as its last field: what grows comes last.
pub(crate) fn object_with_list(
    fields: impl FnOnce(&mut Vec<u8>),
    name: &str,
    items: impl FnOnce(&mut List<'_>),
) -> Vec<u8> {
    const ROOM: usize = 4096;
    let mut body = Vec::with_capacity(ROOM);
    body.push(b'{');
    fields(&mut body);
    if body.last() != Some(&b'{') {
        body.push(b',');
    }
    value(&mut body, name);
    body.extend_from_slice(b":[");
    items(&mut List::new(&mut body));
    body.extend_from_slice(b"]}");
    body
}

/// Writes a field's name, after another field.
pub(crate) fn key(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    value(out, name);
    out.push(b':');
}

#[expect(clippy::expect_used, reason = "only broken writers and odd map keys make it fail")]
pub(crate) fn value(out: &mut Vec<u8>, content: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, content).expect("texts, numbers and JSON values are JSON");
}

/// Returns a text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The fields of an object, and those of the user's own that replace them.
pub(crate) struct Fields<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// What the user passes through. It wins.
    pub(crate) extra: &'a Map<String, Value>,
}

impl Fields<'_> {
    /// Writes a field, whatever the passthrough says.
    pub(crate) fn always(&mut self, name: &str, content: &(impl Serialize + ?Sized)) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        value(self.out, name);
        self.out.push(b':');
        value(self.out, content);
    }

    /// Writes a field unless the passthrough has one of that name.
    pub(crate) fn put(&mut self, name: &str, content: &(impl Serialize + ?Sized)) {
        if !self.extra.contains_key(name) {
            self.always(name, content);
        }
    }

    /// Writes a field that has a value.
    pub(crate) fn maybe(&mut self, name: &str, content: Option<&impl Serialize>) {
        if let Some(content) = content {
            self.put(name, content);
        }
    }

    /// Writes what the user passes through, but for fields that no passthrough may replace.
    pub(crate) fn pass_through(&mut self, reserved: &[&str]) {
        let extra = self.extra;
        for (name, value) in extra.iter().filter(|it| !reserved.contains(&it.0.as_str())) {
            self.always(name, value);
        }
    }
}
