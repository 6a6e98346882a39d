//! Keys that only the user's own files may contain: they control how API keys are sent.

use loopwright_agent::AgentDefinition;
use loopwright_capabilities::front_matter::Lines;
use loopwright_core::messages::InferenceSettings;
use serde_json::Value;

use crate::problem::{Diagnostic, DiagnosticKind};

/// The keys under which a file may write its model.
const LLM: [&str; 3] = ["llm", "llmConfig", "llm_config"];

/// How deep values of capabilities are looked into, which is deeper than any file is read.
const DEEPEST: usize = 64;

/// Returns all settings of model calls in a definition, with the keys that lead to them.
pub(crate) fn settings(definition: &AgentDefinition) -> Vec<(String, InferenceSettings)> {
    let mut found = Vec::new();
    if let Some(llm) = &definition.llm {
        found.push(("llm.options".to_owned(), (*llm.options).clone()));
    }
    for (name, config) in &definition.capability_config {
        within(config, &format!("capabilities.{name}"), DEEPEST, &mut found);
    }
    found
}

fn within(value: &Value, key: &str, depth: usize, found: &mut Vec<(String, InferenceSettings)>) {
    let Some(deeper) = depth.checked_sub(1) else { return };
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                within(item, &format!("{key}.{at}"), deeper, found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let key = format!("{key}.{name}");
                if name == "options" {
                    // What cannot be read is refused by the capability itself.
                    found.extend(
                        serde_json::from_value(value.clone()).ok().map(|it| (key.clone(), it)),
                    );
                }
                within(value, &key, deeper, found);
            }
        }
        _ => {}
    }
}

/// Returns what in a definition only the user's own file may say.
pub(crate) fn problems(definition: &AgentDefinition, lines: &Lines) -> Vec<Diagnostic> {
    let problem = |key: String| {
        let line = line(lines, &key);
        Diagnostic { line, key: Some(key), kind: DiagnosticKind::UsersOnly }
    };
    privileged_settings(definition).into_iter().map(problem).collect()
}

/// Returns the keys of a definition that only the user's own files may contain, such as
/// `llm.options.headers.NAME`.
pub fn privileged_settings(definition: &AgentDefinition) -> Vec<String> {
    let keys = settings(definition).into_iter().flat_map(|(at, settings)| {
        settings.privileged().into_iter().map(move |key| format!("{at}.{key}"))
    });
    keys.collect()
}

/// Returns the line of a key, or of what is around it as far as that is known.
fn line(lines: &Lines, key: &str) -> Option<usize> {
    let mut keys = key.split('.');
    let first = keys.next()?;
    let first =
        if first == "llm" { LLM.iter().find(|it| lines.within.contains_key(**it))? } else { first };
    let mut at = lines.within.get(first)?;
    let mut line = at.line;
    for key in keys {
        match at.within.get(key) {
            Some(inner) if inner.line > 0 => (at, line) = (inner, inner.line),
            _ => break,
        }
    }
    Some(line).filter(|it| *it > 0)
}
