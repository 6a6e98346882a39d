//! YAML as data: what front matter may hold.
//!
//! The text is read event by event, without recursion. Aliases are refused, so that a short text
//! never becomes a large value.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// How deep values may be nested.
const MOST_LEVELS: usize = 32;

/// Why a text is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum YamlError {
    #[error("{0}")]
    Syntax(String),
    #[error("aliases are not allowed here")]
    Alias,
    #[error("it is nested more than {MOST_LEVELS} levels deep")]
    Deep,
    #[error("it has to be a list of `key: value`")]
    NotAMap,
}

/// Reads the first document of a text, which is a map or nothing. Of a repeated key, the last one
/// counts.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, YamlError> {
    match value(text)? {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(YamlError::NotAMap),
    }
}

/// A value that is being read.
enum Open {
    List(Vec<Value>),
    Map { map: Map<String, Value>, key: Option<String> },
}

fn value(text: &str) -> Result<Value, YamlError> {
    let mut open: Vec<Open> = Vec::new();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| {
            YamlError::Syntax(format!("line {}: {}", error.marker().line(), error.info()))
        })?;
        let done = match event {
            Event::Alias(_) => return Err(YamlError::Alias),
            Event::Scalar(text, style, _, tag) => {
                let is_text = tag.is_some_and(|tag| tag.suffix == "str");
                if style == ScalarStyle::Plain && !is_text {
                    plain(&text)
                } else {
                    Value::String(text.into_owned())
                }
            }
            Event::SequenceStart(..) => {
                push(&mut open, Open::List(Vec::new()))?;
                continue;
            }
            Event::MappingStart(..) => {
                push(&mut open, Open::Map { map: Map::new(), key: None })?;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(list)) => Value::Array(list),
                Some(Open::Map { map, .. }) => Value::Object(map),
                None => continue,
            },
            Event::DocumentEnd | Event::StreamEnd => return Ok(Value::Null),
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
        };
        match open.last_mut() {
            None => return Ok(done),
            Some(Open::List(list)) => list.push(done),
            Some(Open::Map { map, key }) => match key.take() {
                Some(key) => {
                    map.insert(key, done);
                }
                None => *key = Some(word(&done, span.start.line())?),
            },
        }
    }
    Ok(Value::Null)
}

fn push(open: &mut Vec<Open>, value: Open) -> Result<(), YamlError> {
    if open.len() >= MOST_LEVELS {
        return Err(YamlError::Deep);
    }
    open.push(value);
    Ok(())
}

/// Reads a key.
fn word(value: &Value, line: usize) -> Result<String, YamlError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) | Value::Object(_) => {
            Err(YamlError::Syntax(format!("line {line}: a key has to be a word")))
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
    match text.parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => Number::from_f64(text.parse().ok()?),
    }
}
