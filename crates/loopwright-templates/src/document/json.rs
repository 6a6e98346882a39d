//! JSON with the lines of its values.

use std::fmt;

use loopwright_capabilities::front_matter::{Lines, MAX_DEPTH, Repeated};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::document::Document;
use crate::problem::{Diagnostic, DiagnosticKind};

pub(super) fn read(text: &str) -> Result<Document, Diagnostic> {
    let mut places = Places { text, at: 0, line: 1, repeated: Vec::new() };
    // First, because values that are too deep are no values for what reads them.
    let lines = places.of(text, MAX_DEPTH)?;
    let repeated = places.repeated;
    let value: Value = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    let Value::Object(values) = value else { return Err(not_an_object()) };
    Ok(Document { values: Map::from_iter(values), lines, repeated, ..Document::default() })
}

fn wrong(error: &serde_json::Error) -> Diagnostic {
    let said = error.to_string();
    // The line is told beside it.
    let problem = said.rsplit_once(" at line ").map_or(said.as_str(), |(problem, _)| problem);
    let line = Some(error.line()).filter(|it| *it > 0);
    Diagnostic { line, ..syntax(problem.to_owned()) }
}

fn not_an_object() -> Diagnostic {
    syntax("the document must be an object".to_owned())
}

fn too_deep(line: usize) -> Diagnostic {
    let problem = format!("the document is nested more than {MAX_DEPTH} levels deep");
    Diagnostic { line: Some(line), ..syntax(problem) }
}

fn syntax(problem: String) -> Diagnostic {
    DiagnosticKind::Syntax { format: "JSON", problem }.of_file()
}

/// Goes through a text from its beginning to its end, and counts lines.
struct Places<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    repeated: Vec<Repeated>,
}

impl<'a> Places<'a> {
    /// Returns the lines of a value with a maximum nesting depth. Invalid JSON has none.
    fn of(&mut self, part: &'a str, levels: usize) -> Result<Lines, Diagnostic> {
        let mut lines = Lines { line: self.line_of(part), ..Lines::default() };
        if !part.trim_start().starts_with(['{', '[']) {
            return Ok(lines);
        }
        if levels == 0 {
            return Err(too_deep(lines.line));
        }
        let entries =
            serde_json::from_str::<Entries<'a>>(part).map_or_else(|_| Vec::new(), |it| it.0);
        for (key, value) in entries {
            let within = self.of(value.get(), levels - 1)?;
            let line = within.line;
            if lines.within.insert(key.clone(), within).is_some() {
                self.repeated.push(Repeated { key, line });
            }
        }
        Ok(lines)
    }

    /// Returns the line that a part of the text begins in. Parts come in the order of the text.
    fn line_of(&mut self, part: &str) -> usize {
        let at = part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        if let Some(passed) = self.text.get(self.at..at) {
            self.line += passed.bytes().filter(|it| *it == b'\n').count();
            self.at = at;
        }
        self.line
    }
}

/// The values of an object as they are written, repeated keys included, or those of a list by numbers
/// from zero.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push((entries.len().to_string(), entry));
                }
                Ok(entries)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_any(All).map(Entries)
    }
}
