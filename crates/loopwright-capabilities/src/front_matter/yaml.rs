//! YAML as data, as allowed in front matter.
//!
//! The text is parsed event by event, without recursion. Aliases are refused, so that a short text
//! cannot become a large value.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// The maximum nesting depth of values.
pub const MAX_DEPTH: usize = 32;

/// The first document of a YAML text, which is a map or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Yaml {
    /// The value. Of repeated keys, the last one counts.
    pub values: Map<String, Value>,
    /// The lines of the values.
    pub lines: Lines,
    /// Keys that occur more than once in a map.
    pub repeated: Vec<Repeated>,
    /// Whether another document follows; it is not read.
    pub has_more: bool,
}

/// The lines of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The line of the key, or of the value in a list, counted from one.
    pub line: usize,
    /// The lines of nested values: of a map by key, of a list by index from zero.
    pub within: BTreeMap<String, Lines>,
}

/// A repeated key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The key.
    pub key: String,
    /// The line of the repetition.
    pub line: usize,
}

/// The error of an invalid text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum YamlError {
    /// The text is not YAML.
    #[error("line {line}: {}", self.problem())]
    Syntax {
        /// The line, counted from one.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// The text contains an alias, `*name`.
    #[error("line {line}: {}", self.problem())]
    Alias {
        /// The line.
        line: usize,
    },
    /// The values are nested too deeply.
    #[error("line {line}: {}", self.problem())]
    Deep {
        /// The line.
        line: usize,
    },
    /// The document is a list or a single value.
    #[error("{}", self.problem())]
    NotAMap,
}

impl YamlError {
    /// Returns the line of the problem, if it has one.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Syntax { line, .. } | Self::Alias { line } | Self::Deep { line } => Some(*line),
            Self::NotAMap => None,
        }
    }

    /// Returns the problem without the line.
    pub fn problem(&self) -> String {
        match self {
            Self::Syntax { problem, .. } => problem.clone(),
            Self::Alias { .. } => "aliases are not allowed here".to_owned(),
            Self::Deep { .. } => {
                format!("the document is nested more than {MAX_DEPTH} levels deep")
            }
            Self::NotAMap => "expected a list of `key: value` entries".to_owned(),
        }
    }
}

impl Lines {
    /// Returns the lines of a nested value, by its keys, or `None` if it does not exist.
    pub fn find<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<&Self> {
        path.into_iter().try_fold(self, |lines, key| lines.within.get(key))
    }
}

impl Yaml {
    /// Parses a text.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not YAML, or exceeds the limits of front matter.
    pub fn read(text: &str) -> Result<Self, YamlError> {
        let mut reader = Reader::default();
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| {
                let (line, problem) = (error.marker().line(), error.info().to_owned());
                YamlError::Syntax { line, problem }
            })?;
            if let Some((value, lines)) = reader.take(event, span.start.line())? {
                let values = match value {
                    Value::Object(map) => map,
                    Value::Null => Map::new(),
                    _ => return Err(YamlError::NotAMap),
                };
                let has_more = has_more(&mut parser);
                return Ok(Self { values, lines, repeated: reader.repeated, has_more });
            }
        }
        Ok(Self::default())
    }
}

/// Returns `true` if something follows the first document.
fn has_more(parser: &mut Parser<'_, impl saphyr_parser::Input>) -> bool {
    while let Some(event) = parser.next_event() {
        match event {
            Ok((Event::DocumentEnd | Event::Nothing, _)) => {}
            Ok((Event::StreamEnd, _)) => return false,
            _ => return true,
        }
    }
    false
}

/// A value that is being read.
struct Open {
    value: OpenValue,
    lines: Lines,
}

enum OpenValue {
    List(Vec<Value>),
    Map { map: Map<String, Value>, key: Option<(String, usize)> },
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    repeated: Vec<Repeated>,
}

impl Reader {
    /// Takes an event; returns the document once it is whole.
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<Option<(Value, Lines)>, YamlError> {
        let (value, lines) = match event {
            Event::Alias(_) => return Err(YamlError::Alias { line }),
            Event::Scalar(text, style, _, tag) => {
                let is_text = tag.is_some_and(|tag| tag.suffix == "str");
                let value = if style == ScalarStyle::Plain && !is_text {
                    plain(&text)
                } else {
                    Value::String(text.into_owned())
                };
                (value, Lines { line, ..Lines::default() })
            }
            Event::SequenceStart(..) => return self.push(OpenValue::List(Vec::new()), line),
            Event::MappingStart(..) => {
                return self.push(OpenValue::Map { map: Map::new(), key: None }, line);
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { value: OpenValue::List(list), lines }) => (Value::Array(list), lines),
                Some(Open { value: OpenValue::Map { map, .. }, lines }) => {
                    (Value::Object(map), lines)
                }
                None => return Ok(None),
            },
            Event::DocumentEnd | Event::StreamEnd => {
                return Ok(Some((Value::Null, Lines::default())));
            }
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => return Ok(None),
        };
        self.put(value, lines, line)
    }

    fn push(&mut self, value: OpenValue, line: usize) -> Result<Option<(Value, Lines)>, YamlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(YamlError::Deep { line });
        }
        self.open.push(Open { value, lines: Lines { line, ..Lines::default() } });
        Ok(None)
    }

    /// Puts a value where it belongs.
    fn put(
        &mut self,
        done: Value,
        lines: Lines,
        line: usize,
    ) -> Result<Option<(Value, Lines)>, YamlError> {
        let Some(Open { value, lines: around }) = self.open.last_mut() else {
            return Ok(Some((done, lines)));
        };
        match value {
            OpenValue::List(list) => {
                around.within.insert(list.len().to_string(), lines);
                list.push(done);
            }
            OpenValue::Map { map, key } => match key.take() {
                Some((key, line)) => {
                    around.within.insert(key.clone(), Lines { line, ..lines });
                    if map.insert(key.clone(), done).is_some() {
                        self.repeated.push(Repeated { key, line });
                    }
                }
                None => *key = Some((word(&done, line)?, line)),
            },
        }
        Ok(None)
    }
}

/// Reads a key.
fn word(value: &Value, line: usize) -> Result<String, YamlError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) | Value::Object(_) => {
            Err(YamlError::Syntax { line, problem: "a key must be a scalar".to_owned() })
        }
        value => Ok(value.to_string()),
    }
}

/// Reads a value that stands without quotes.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|it: char| it.is_ascii_digit() || it == '.') {
        return None;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let whole =
        text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
    match whole {
        Ok(whole) => Some(whole),
        Err(_) => Number::from_f64(text.parse().ok()?),
    }
}
