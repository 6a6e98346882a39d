//! Creation and check of argument schemas.

use std::sync::{Arc, OnceLock};

#[cfg(feature = "engine")]
use jsonschema::Validator;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

use super::fast_check::FastSchema;

/// Creates the schema of a type in the form that providers expect: an object, without references
/// where possible.
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

/// A schema that is compiled on first use.
pub(super) struct Checker {
    schema: Arc<Value>,
    /// The rules of the fast check, built on first use.
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

    /// Returns `true` if arguments in JSON text certainly match; `false` means unknown.
    pub(super) fn plainly_takes(&self, text: &str) -> bool {
        self.shape().takes_text(text)
    }

    /// Returns the first violation, with path and rule; `None` if the arguments match. An invalid
    /// schema accepts everything: the tool then decides.
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

/// Returns the first violation of a value, with path and rule; `None` if it matches the schema.
#[cfg(feature = "engine")]
pub(crate) fn violation_of(schema: &Arc<Value>, value: &Value) -> Option<String> {
    Checker::new(Arc::clone(schema)).violation(value)
}
