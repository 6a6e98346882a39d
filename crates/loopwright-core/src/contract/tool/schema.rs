//! Creation and check of argument schemas.

use std::{
    any::TypeId,
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

use super::fast_check::FastSchema;
#[cfg(feature = "json-schema")]
use super::schema_check::{BoundedSchema, MAX_VIOLATIONS, SCHEMA_TOO_COMPLEX};
#[cfg(feature = "engine")]
use super::schema_check::{keyword_beyond, violations};

/// Creates the schema of a type in the form that providers expect: an object, without references
/// where possible.
fn schema_of<T: JsonSchema>() -> Value {
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

/// Returns the schema of a type, which is created once: a server has the same tools in every session.
pub(super) fn shared_schema_of<T: JsonSchema + 'static>() -> Arc<Value> {
    static CREATED: Mutex<BTreeMap<TypeId, Arc<Value>>> = Mutex::new(BTreeMap::new());
    let created = || CREATED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = created().get(&TypeId::of::<T>()).cloned();
    // The lock is not held while foreign code runs.
    known.unwrap_or_else(|| {
        let schema = Arc::new(schema_of::<T>());
        Arc::clone(created().entry(TypeId::of::<T>()).or_insert(schema))
    })
}

/// The check of arguments by a schema. What it needs is built on first use.
pub(super) struct Checker {
    schema: Arc<Value>,
    /// The rules of the fast check.
    shape: OnceLock<FastSchema>,
    #[cfg(feature = "engine")]
    keyword_beyond: OnceLock<Option<String>>,
    #[cfg(feature = "json-schema")]
    validator: OnceLock<Option<(BoundedSchema, jsonschema::Validator)>>,
}

impl Checker {
    pub(super) fn new(schema: Arc<Value>) -> Self {
        Self {
            schema,
            shape: OnceLock::new(),
            #[cfg(feature = "engine")]
            keyword_beyond: OnceLock::new(),
            #[cfg(feature = "json-schema")]
            validator: OnceLock::new(),
        }
    }

    /// Returns `true` if arguments in JSON text certainly match; `false` means unknown.
    pub(super) fn plainly_takes(&self, text: &str) -> bool {
        self.shape.get_or_init(|| FastSchema::of(&self.schema)).takes_text(text)
    }

    /// Returns the first keyword that only the feature `json-schema` checks.
    #[cfg(feature = "engine")]
    pub(super) fn keyword_beyond(&self) -> Option<&str> {
        self.keyword_beyond.get_or_init(|| keyword_beyond(&self.schema)).as_deref()
    }

    /// Returns the first violations, with path and rule, or `None` if the arguments match. With the feature `json-schema`,
    /// an invalid schema accepts everything: the tool then decides.
    #[cfg(feature = "engine")]
    pub(super) fn violation(&self, arguments: &Value) -> Option<String> {
        let texts = match self.keyword_beyond() {
            None => violations(&self.schema, arguments),
            Some(keyword) => self.validate(arguments, keyword),
        };
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    #[cfg(feature = "json-schema")]
    fn validate(&self, arguments: &Value, _keyword: &str) -> Vec<String> {
        let usable = || {
            let bounded = BoundedSchema::new(&self.schema)?;
            Some((bounded, jsonschema::validator_for(&self.schema).ok()?))
        };
        let Some((bounded, validator)) = self.validator.get_or_init(usable) else {
            return Vec::new();
        };
        if !bounded.admits(arguments) {
            return vec![SCHEMA_TOO_COMPLEX.to_owned()];
        }
        let errors = validator.iter_errors(arguments);
        let text = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string();
            format!("at {}: {error}", if path.is_empty() { "/" } else { &path })
        };
        errors.take(MAX_VIOLATIONS).map(text).collect()
    }

    #[cfg(all(feature = "engine", not(feature = "json-schema")))]
    #[expect(clippy::unused_self, reason = "the same signature as with the feature")]
    fn validate(&self, _arguments: &Value, keyword: &str) -> Vec<String> {
        vec![format!(
            "the schema keyword `{keyword}` is checked only with the feature `json-schema` of `loopwright`"
        )]
    }
}

/// Returns the first violations of a value, with path and rule, or `None` if it matches the schema.
///
/// With the feature `json-schema`, an invalid schema accepts everything, and so does one with keywords that only that feature
/// checks if it applies too many other schemas to one value. Without the feature, such keywords are violations. A value to which
/// more than a million schemas apply, with all that is in it, is a violation.
#[cfg(feature = "engine")]
pub fn violation_of(schema: &Arc<Value>, value: &Value) -> Option<String> {
    Checker::new(Arc::clone(schema)).violation(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Arguments {
        path: String,
    }

    #[test]
    fn the_schema_of_a_type_is_created_once() {
        let [first, second] = [(); 2].map(|()| shared_schema_of::<Arguments>());
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(*first, schema_of::<Arguments>());
        assert_ne!(*first, *shared_schema_of::<()>());
    }
}
