//! Schemas of arguments, made and checked.

use std::sync::{Arc, OnceLock};

#[cfg(feature = "engine")]
use jsonschema::Validator;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

use super::fast_check::FastSchema;

/// Makes the schema of a type as providers expect it: an object, without references where possible.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.entry("type").or_insert(json!("object"));
        object.entry("properties").or_insert(json!({}));
    }
    schema
}

/// A schema that is compiled when it is first needed.
pub(super) struct Checker {
    schema: Arc<Value>,
    /// What arguments plainly fit, made when it is first needed.
    shape: OnceLock<FastSchema>,
    #[cfg(feature = "engine")]
    compiled: OnceLock<Option<Validator>>,
}

impl Checker {
    pub(super) fn new(schema: Arc<Value>) -> Self {
        Self {
            schema,
            shape: OnceLock::new(),
            #[cfg(feature = "engine")]
            compiled: OnceLock::new(),
        }
    }

    fn shape(&self) -> &FastSchema {
        self.shape.get_or_init(|| FastSchema::of(&self.schema))
    }

    /// Returns `true` if arguments that are written as JSON plainly fit; `false` says nothing.
    pub(super) fn plainly_takes(&self, text: &str) -> bool {
        self.shape().takes_text(text)
    }

    /// Returns what is wrong with the arguments, with path and rule; `None` if they fit. A schema
    /// that is itself broken lets everything pass: the tool has the last word.
    #[cfg(feature = "engine")]
    pub(super) fn violation(&self, arguments: &Value) -> Option<String> {
        if self.shape().matches(arguments) {
            return None;
        }
        let compiled = self.compiled.get_or_init(|| jsonschema::validator_for(&self.schema).ok());
        let validator = compiled.as_ref()?;
        if validator.is_valid(arguments) {
            return None;
        }
        let errors = validator.iter_errors(arguments).take(5);
        let texts: Vec<String> = errors
            .map(|error| {
                let path = error.instance_path().to_string();
                let path = if path.is_empty() { "/".to_owned() } else { path };
                format!("at {path}: {error}")
            })
            .collect();
        Some(texts.join("; "))
    }
}

/// Returns what is wrong with a value, with path and rule; `None` if it fits the schema.
#[cfg(feature = "engine")]
pub(crate) fn violation_of(schema: &Arc<Value>, value: &Value) -> Option<String> {
    Checker::new(Arc::clone(schema)).violation(value)
}
