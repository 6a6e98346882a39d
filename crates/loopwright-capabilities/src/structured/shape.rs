//! The required shape of data, for the model and for validation.

use std::fmt;
use std::sync::Arc;

use jsonschema::Validator;
use loopwright_core::messages::ResponseFormat;
use loopwright_core::{BoundedSchema, SCHEMA_TOO_COMPLEX};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::structured::strict::{strict, without_nulls};

/// The maximum number of errors in a message.
const MAX_ERRORS: usize = 8;

/// A schema, as a model is shown it and as data is checked.
pub(super) struct Shape {
    /// What the model is shown: an object.
    pub(super) outer: Arc<Value>,
    /// What the data itself must be.
    schema: Value,
    wrap: Wrap,
    bounded: BoundedSchema,
    validator: Validator,
}

/// What is around the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrap {
    /// Nothing: it is an object itself.
    Nothing,
    /// `{ "value": … }`, because models can only be asked for objects.
    Value,
    /// `{ "value": …, "error": … }`, so that a model can say that there is nothing.
    Maybe,
}

/// Whether a model may say that there is nothing to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    Allowed,
    Denied,
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reading {
    Found(Value),
    /// There is nothing, because of this.
    Absent(String),
}

/// Makes the schema of a type, without references where possible.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

impl Shape {
    /// Takes a schema.
    ///
    /// # Errors
    ///
    /// Returns an error if it is none; the text says why.
    pub(super) fn new(schema: &Value, absence: Absence) -> Result<Self, String> {
        let Some(bounded) = BoundedSchema::new(schema) else {
            return Err(
                "it applies too many schemas to one value, or refers to one that is not in it"
                    .to_owned(),
            );
        };
        let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
        let is_object = schema["type"] == "object";
        let wrap = match absence {
            Absence::Allowed => Wrap::Maybe,
            Absence::Denied if is_object => Wrap::Nothing,
            Absence::Denied => Wrap::Value,
        };
        let outer = Arc::new(wrapped(schema.clone(), wrap));
        Ok(Self { outer, schema: schema.clone(), wrap, bounded, validator })
    }

    /// Returns the shape as the form of an answer: strict, so that the provider enforces it, if it has a strict
    /// form, and otherwise as it is.
    pub(super) fn format(&self, name: &str) -> ResponseFormat {
        let strict = strict(&self.outer).map(Arc::new);
        let (is_strict, outer) = (strict.is_some(), Arc::clone(&self.outer));
        let schema = strict.unwrap_or(outer);
        ResponseFormat::JsonSchema { name: name.into(), schema, strict: is_strict }
    }

    /// Returns the shape in words.
    pub(super) fn in_words(&self) -> String {
        format!("Answer with JSON that matches this schema and nothing else:\n{}", self.outer)
    }

    /// Takes data out of what is around it, and checks it.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not fit: what is wrong with it, with path and rule.
    pub(super) fn read(&self, answer: Value) -> Result<Reading, Vec<String>> {
        if self.wrap == Wrap::Nothing {
            return self.check(answer).map(Reading::Found);
        }
        let Value::Object(mut around) = answer else {
            return self.check(answer).map(Reading::Found);
        };
        let is_wrapped = around.contains_key("value") || around.contains_key("error");
        // Some models leave out what is around the data.
        if !is_wrapped {
            return self.check(Value::Object(around)).map(Reading::Found);
        }
        match around.remove("value").unwrap_or_default() {
            Value::Null if self.wrap == Wrap::Maybe => {
                let reason = around.remove("error").filter(|it| !it.is_null());
                let reason =
                    reason.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
                Ok(Reading::Absent(reason.unwrap_or_else(|| "no reason was given".to_owned())))
            }
            value => self.check(value).map(Reading::Found),
        }
    }

    /// Returns `true` if data fits, without what is around it.
    pub(super) fn admits(&self, value: &Value) -> bool {
        self.check(value.clone()).is_ok()
    }

    fn check(&self, value: Value) -> Result<Value, Vec<String>> {
        if !self.bounded.admits(&value) {
            return Err(vec![SCHEMA_TOO_COMPLEX.to_owned()]);
        }
        if self.validator.is_valid(&value) {
            return Ok(value);
        }
        let mut without = value.clone();
        without_nulls(&mut without, &self.schema, &self.schema);
        if self.validator.is_valid(&without) {
            return Ok(without);
        }
        let errors = self.validator.iter_errors(&value).take(MAX_ERRORS);
        Err(errors
            .map(|error| match error.instance_path().to_string() {
                path if path.is_empty() => format!("at /: {error}"),
                path => format!("at {path}: {error}"),
            })
            .collect())
    }
}

fn wrapped(mut schema: Value, wrap: Wrap) -> Value {
    if wrap == Wrap::Nothing {
        return schema;
    }
    // References begin at the root, so what they lead to has to stay there.
    let shared: Map<String, Value> = ["$defs", "definitions"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), schema.as_object_mut()?.remove(key)?)))
        .collect();
    let mut outer = match wrap {
        Wrap::Maybe => json!({
            "type": "object",
            "properties": {
                "value": {
                    "description": "The data that was found; null if there is none.",
                    "anyOf": [schema, { "type": "null" }],
                },
                "error": {
                    "description": "The reason why no data was found; null if data was found.",
                    "type": ["string", "null"],
                },
            },
            "required": ["value", "error"],
            "additionalProperties": false,
        }),
        Wrap::Nothing | Wrap::Value => json!({
            "type": "object",
            "properties": { "value": schema },
            "required": ["value"],
            "additionalProperties": false,
        }),
    };
    if let Some(object) = outer.as_object_mut() {
        object.extend(shared);
    }
    outer
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shape").field("wrap", &self.wrap).finish_non_exhaustive()
    }
}
