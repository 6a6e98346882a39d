//! A JSON object whose fields are not interpreted.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The fields of an object in their order, each value as it was written.
#[derive(Debug, Default)]
pub(crate) struct Object<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Returns a field's JSON.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(it, _)| it == name).map(|(_, value)| value.get())
    }

    /// Returns a field's text; an empty one if it is missing or no text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(4);
        while let Some(name) = map.next_key::<Name<'de>>()? {
            fields.push((name.0, map.next_value()?));
        }
        Ok(Object(fields))
    }
}

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
