//! The schemas that data can be made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::structured::policy::ExtractionOptions;
use crate::structured::shape::schema_of;

/// What data of one kind looks like, and how it is found.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use]
pub struct SchemaDefinition {
    /// The JSON Schema.
    pub schema: Arc<Value>,
    /// What it is, for the caller that chooses.
    pub description: Option<String>,
    /// What to look for.
    pub prompt: Option<String>,
    /// Texts and what is found in them.
    pub examples: Vec<OutputExample>,
    /// How it is asked for. It wins over the policy.
    pub options: ExtractionOptions,
}

/// A text and what is found in it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputExample {
    /// The text.
    pub input: String,
    /// The data.
    pub output: Value,
}

impl SchemaDefinition {
    /// Takes a JSON Schema. Its own description counts unless another one is set.
    pub fn new(schema: Value) -> Self {
        let description = schema["description"].as_str().map(str::to_owned);
        Self {
            schema: Arc::new(schema),
            description,
            prompt: None,
            examples: Vec::new(),
            options: ExtractionOptions::default(),
        }
    }

    /// Takes the schema of a type; its documentation is the description.
    pub fn of<T: JsonSchema>() -> Self {
        Self::new(schema_of::<T>())
    }

    /// Says what it is.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Says what to look for.
    pub fn prompt(mut self, text: impl Into<String>) -> Self {
        self.prompt = Some(text.into());
        self
    }

    /// Adds an example.
    pub fn example(mut self, input: impl Into<String>, output: Value) -> Self {
        self.examples.push(OutputExample { input: input.into(), output });
        self
    }

    /// Sets how often a model is asked again.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.options.max_retries = Some(retries);
        self
    }

    /// Sets how it is asked for.
    pub fn options(mut self, options: ExtractionOptions) -> Self {
        self.options = options;
        self
    }
}

/// Schemas by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct SchemaRegistry(BTreeMap<String, SchemaDefinition>);

/// There is no schema of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown schema `{name}`; available: {known}")]
pub struct SchemaError {
    /// The name.
    pub name: String,
    /// The names that there are.
    pub known: String,
}

impl SchemaRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a schema, in the place of one that has its name.
    pub fn register(&mut self, name: impl Into<String>, definition: SchemaDefinition) {
        self.0.insert(name.into(), definition);
    }

    /// Adds a schema.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, definition: SchemaDefinition) -> Self {
        self.register(name, definition);
        self
    }

    /// Adds the schema of a type.
    #[must_use]
    pub fn with_type<T: JsonSchema>(self, name: impl Into<String>) -> Self {
        self.with(name, SchemaDefinition::of::<T>())
    }

    /// Returns a schema.
    ///
    /// # Errors
    ///
    /// If there is none of that name; the error lists those that there are.
    pub fn get(&self, name: &str) -> Result<&SchemaDefinition, SchemaError> {
        self.0.get(name).ok_or_else(|| SchemaError {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns `true` if there is a schema of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns all schemas, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &SchemaDefinition)> {
        self.0.iter().map(|(name, it)| (name.as_str(), it))
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the number of schemas.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there is no schema.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
