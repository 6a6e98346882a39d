//! Schemas for data extraction.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::structured::policy::ExtractionOptions;
use crate::structured::shape::schema_of;

/// A schema for data of one kind, with hints for its extraction.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use]
pub struct SchemaDefinition {
    /// The JSON Schema.
    pub schema: Arc<Value>,
    /// The description, for the selection of a schema.
    pub description: Option<String>,
    /// Instructions for the extraction.
    pub prompt: Option<String>,
    /// Examples.
    pub examples: Vec<OutputExample>,
    /// Options that take precedence over the policy.
    pub options: ExtractionOptions,
}

/// An example text with its data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputExample {
    /// The text.
    pub input: String,
    /// The data.
    pub output: Value,
}

impl SchemaDefinition {
    /// Creates the value from a JSON Schema. The schema's own description applies unless another
    /// one is set.
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

    /// Creates the value from the schema of a type; its documentation is the description.
    pub fn of<T: JsonSchema>() -> Self {
        Self::new(schema_of::<T>())
    }

    /// Sets the description.
    pub fn with_description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Sets the instructions for the extraction.
    pub fn with_prompt(mut self, text: impl Into<String>) -> Self {
        self.prompt = Some(text.into());
        self
    }

    /// Adds an example.
    pub fn with_example(mut self, input: impl Into<String>, output: Value) -> Self {
        self.examples.push(OutputExample { input: input.into(), output });
        self
    }

    /// Sets the number of retries.
    pub fn with_max_retries(mut self, retries: u32) -> Self {
        self.options.max_retries = Some(retries);
        self
    }

    /// Sets the options.
    pub fn with_options(mut self, options: ExtractionOptions) -> Self {
        self.options = options;
        self
    }
}

/// Schemas by name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct SchemaRegistry(BTreeMap<String, SchemaDefinition>);

/// The schema is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown schema `{name}`; available: {known}")]
pub struct SchemaError {
    /// The name.
    pub name: String,
    /// The known names.
    pub known: String,
}

impl SchemaRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a schema, or replaces the one with the same name.
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
    /// Returns an error that lists the known names if the name is unknown.
    pub fn get(&self, name: &str) -> Result<&SchemaDefinition, SchemaError> {
        self.0.get(name).ok_or_else(|| SchemaError {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns `true` if the name is known.
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

    /// Returns `true` if the registry is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
