//! JSON with the lines of its values.

use std::fmt;

use loopwright_capabilities::front_matter::{Lines, Repeated};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::document::Document;
use crate::problem::{Problem, ProblemKind};

/// How deep lines are told.
const MOST_LEVELS: usize = 32;

pub(super) fn read(text: &str) -> Result<Document, Problem> {
    let value: Value = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    let Value::Object(values) = value else { return Err(not_an_object()) };
    let mut places = Places { text, at: 0, line: 1, repeated: Vec::new() };
    let lines = places.of(text, MOST_LEVELS);
    let repeated = places.repeated;
    Ok(Document { values: Map::from_iter(values), lines, repeated, ..Document::default() })
}

fn wrong(error: &serde_json::Error) -> Problem {
    let said = error.to_string();
    // The line is told beside it.
    let problem = said.rsplit_once(" at line ").map_or(said.as_str(), |(problem, _)| problem);
    let kind = ProblemKind::Syntax { format: "JSON", problem: problem.to_owned() };
    Problem { line: Some(error.line()).filter(|it| *it > 0), key: None, kind }
}

fn not_an_object() -> Problem {
    let problem = "it has to be an object".to_owned();
    ProblemKind::Syntax { format: "JSON", problem }.of_file()
}

/// Goes through a text from its beginning to its end, and counts lines.
struct Places<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    repeated: Vec<Repeated>,
}

impl<'a> Places<'a> {
    fn of(&mut self, part: &'a str, levels: usize) -> Lines {
        let mut lines = Lines { line: self.line_of(part), ..Lines::default() };
        if levels == 0 || !part.trim_start().starts_with('{') {
            return lines;
        }
        let entries =
            serde_json::from_str::<Entries<'a>>(part).map_or_else(|_| Vec::new(), |it| it.0);
        for (key, value) in entries {
            let within = self.of(value.get(), levels - 1);
            let line = within.line;
            if lines.within.insert(key.clone(), within).is_some() {
                self.repeated.push(Repeated { key, line });
            }
        }
        lines
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

/// The values of an object as they are written, repeated keys included.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(All).map(Entries)
    }
}
