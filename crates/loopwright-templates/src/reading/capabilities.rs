//! The capabilities in a file, with their configuration.

use loopwright_agent::NameList;
use serde_json::{Map, Value};

use crate::problem::DiagnosticKind;
use crate::reading::fields::{At, Fields};

const FORM: &str = "a list of names and `name: configuration` pairs; a configuration is a list of \
    `key: value` pairs";

/// What a file says of capabilities.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) names: NameList,
    pub(super) config: Map<String, Value>,
}

/// Takes names, in a text or a list, of which each may have a configuration: `- name: { key: value }`.
pub(super) fn read(fields: &mut Fields<'_>) -> Named {
    let Some((at, value)) = fields.peek("capabilities") else { return Named::default() };
    let entries = match value {
        Value::Array(list) if list.iter().any(Value::is_object) => list,
        _ => {
            let names = fields.names(&["capabilities"]).unwrap_or_default();
            return Named { names, config: Map::new() };
        }
    };
    // What is configured is taken here.
    let _taken = fields.take(&["capabilities"]);
    let mut found = Vec::new();
    for entry in entries {
        match entry {
            Value::String(name) => found.push((name, Value::Null)),
            Value::Object(map) => found.extend(map),
            _ => fields.error(at.clone(), DiagnosticKind::WrongType { expected: FORM }),
        }
    }
    collect(found, &at, fields)
}

fn collect(found: Vec<(String, Value)>, at: &At, fields: &mut Fields<'_>) -> Named {
    let mut config = Map::new();
    for (name, value) in &found {
        match value {
            Value::Null => {}
            Value::Object(map) if map.is_empty() => {}
            Value::Object(_) => {
                if config.insert(name.trim().to_owned(), value.clone()).is_some() {
                    fields.error(at.clone(), DiagnosticKind::Repeated);
                }
            }
            _ => {
                let key = format!("{}.{name}", at.key);
                let at = At { key, line: at.line };
                fields.error(at, DiagnosticKind::WrongType { expected: FORM });
            }
        }
    }
    Named { names: found.into_iter().map(|(name, _)| name).collect(), config }
}
