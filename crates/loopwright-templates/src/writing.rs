//! Definitions as text, without loss.
//!
//! The text is the canonical form: prompts without surrounding whitespace, and no empty values.
//! Absent tools stay absent, and an empty list stays `[]`.

mod yaml;

use loopwright_agent::{AgentDefinition, NameList};
use loopwright_core::{Budget, LlmConfig, messages::InferenceOptions};
use loopwright_sandbox::is_secret_name;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value, json};

use crate::reading::prompt_of;

/// What stands for a value that is not shown.
const HIDDEN: &str = "(hidden)";

/// A format of definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefinitionFormat {
    /// Front matter, with the prompt below it.
    #[default]
    Markdown,
    /// YAML.
    Yaml,
    /// JSON, indented.
    Json,
}

impl DefinitionFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Markdown, Self::Yaml, Self::Json];

    /// Returns the file name extension.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Markdown => "md",
            Self::Yaml => "yaml",
            Self::Json => "json",
        }
    }

    /// Writes a definition.
    pub fn write(self, definition: &AgentDefinition) -> String {
        let definition = canonical(definition);
        let mut fields = Fields(fields(&definition));
        match self {
            Self::Markdown => {
                fields.0.retain(|(key, _)| *key != PROMPT);
                format!("---\n{}---\n\n{}\n", yaml::write(&fields.0), definition.system_prompt)
            }
            Self::Yaml => yaml::write(&fields.0),
            // Values are written, which cannot fail.
            Self::Json => serde_json::to_string_pretty(&fields).unwrap_or_default() + "\n",
        }
    }
}

const PROMPT: &str = "systemPrompt";

/// Returns the canonical form of a definition, without empty values.
pub fn canonical(definition: &AgentDefinition) -> AgentDefinition {
    let mut canonical = definition.clone();
    canonical.system_prompt = prompt_of(&definition.system_prompt);
    let initial = definition.initial_prompt.as_deref().map(prompt_of);
    canonical.initial_prompt = initial.filter(|it| !it.is_empty());
    definition.description.trim().clone_into(&mut canonical.description);
    canonical.label = definition
        .label
        .as_deref()
        .map(str::trim)
        .filter(|it| !it.is_empty() && *it != definition.name)
        .map(str::to_owned);
    // A configuration of what is not named, or that says nothing, is none.
    canonical.capability_config.retain(|name, config| {
        let says_something = config.as_object().is_none_or(|it| !it.is_empty());
        definition.capabilities.contains(name) && says_something && !config.is_null()
    });
    canonical.budget = definition.budget.filter(|it| *it != Budget::default());
    canonical.llm = definition.llm.clone().filter(|it| *it != LlmConfig::default());
    canonical
}

/// Returns a definition without possible secrets: headers, provider-specific fields, and metadata
/// with names that suggest secrets.
pub fn without_secrets(definition: &AgentDefinition) -> AgentDefinition {
    let mut shown = definition.clone();
    if let Some(llm) = &mut shown.llm {
        llm.options.headers.clear();
        llm.options.extra.clear();
    }
    hide(&mut shown.metadata);
    hide(&mut shown.capability_config);
    shown
}

fn hide(map: &mut Map<String, Value>) {
    for (key, value) in map {
        if is_secret_name(key) {
            *value = HIDDEN.into();
        } else {
            hide_within(value);
        }
    }
}

fn hide_within(value: &mut Value) {
    match value {
        Value::Object(map) => hide(map),
        Value::Array(list) => list.iter_mut().for_each(hide_within),
        _ => {}
    }
}

/// Values in the order in which people read them.
struct Fields(Vec<(&'static str, Value)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

fn fields(definition: &AgentDefinition) -> Vec<(&'static str, Value)> {
    let names = |names: &NameList| json!(names);
    let some = |list: &NameList| (!list.is_empty()).then(|| names(list));
    let (metadata, rules) = (&definition.metadata, &definition.call_rules);
    let hooks = &definition.hooks;
    let denied: NameList = definition.tools_deny.iter().chain(rules.deny.iter()).collect();
    let all = [
        ("name", Some(json!(definition.name))),
        ("label", definition.label.as_ref().map(|it| json!(it))),
        ("description", Some(json!(definition.description))),
        ("llm", definition.llm.as_ref().map(model)),
        ("capabilities", capabilities(definition)),
        ("tools", rules.only.as_ref().or(definition.tools.as_ref()).map(names)),
        ("toolsDeny", some(&denied)),
        ("permissionMode", rules.mode.as_ref().map(|it| json!(it))),
        ("skills", some(&definition.skills)),
        ("mcpServers", definition.mcp_servers.as_ref().map(servers)),
        ("hooks", (!hooks.is_empty()).then(|| Value::Object(hooks.clone()))),
        ("initialPrompt", definition.initial_prompt.as_ref().map(|it| json!(it))),
        ("memory", definition.memory.map(|it| json!(it))),
        ("isolation", definition.isolation.map(|it| json!(it))),
        ("background", definition.background.then_some(Value::Bool(true))),
        ("budget", definition.budget.as_ref().map(limits)),
        ("metadata", (!metadata.is_empty()).then(|| Value::Object(metadata.clone()))),
        (PROMPT, Some(json!(definition.system_prompt))),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// Writes each server as a name, with its configuration below it where the definition brings it.
fn servers(servers: &Map<String, Value>) -> Value {
    let entry = |(name, server): (&String, &Value)| match server {
        Value::Null => json!(name),
        server => json!({ name: server }),
    };
    servers.iter().map(entry).collect()
}

/// Writes each name, with its configuration below it where there is one.
fn capabilities(definition: &AgentDefinition) -> Option<Value> {
    let entry = |name: &str| match definition.capability_config.get(name) {
        None => json!(name),
        Some(config) => json!({ name: config }),
    };
    let entries: Vec<Value> = definition.capabilities.iter().map(entry).collect();
    (!entries.is_empty()).then_some(Value::Array(entries))
}

/// Writes `provider/model` where that says everything.
fn model(llm: &LlmConfig) -> Value {
    let provider = llm.provider.as_deref().filter(|it| !it.is_empty() && !it.contains('/'));
    if llm.options == InferenceOptions::default()
        && let Some(provider) = provider
        && llm.model.as_deref() != Some("")
    {
        return format!("{provider}/{}", llm.model.as_deref().unwrap_or_default()).into();
    }
    let mut map = Map::new();
    for (key, name) in [("provider", &llm.provider), ("model", &llm.model)] {
        if let Some(name) = name {
            map.insert(key.to_owned(), json!(name));
        }
    }
    if llm.options != InferenceOptions::default() {
        map.insert("options".to_owned(), json!(llm.options));
    }
    Value::Object(map)
}

fn limits(budget: &Budget) -> Value {
    let all = [
        ("maxSteps", budget.steps.map(|it| json!(it))),
        ("maxTokens", budget.tokens.map(|it| json!(it))),
        ("maxSeconds", budget.time.map(|it| json!(it.as_secs_f64()))),
        ("maxCost", budget.cost.map(|it| json!(it.dollars()))),
        ("deadline", budget.deadline.map(|it| json!(it))),
    ];
    let said = all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(said.collect())
}

#[cfg(test)]
mod tests;
