//! Shared text, deserialized with one copy and one allocation.
//!
//! By default, serde creates a `String`, and from it an `Arc<str>`. These are functions for
//! `#[serde(deserialize_with = "…")]`.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, de};

/// Reads text.
///
/// # Errors
///
/// Returns an error if the value is not a string.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    struct Text;

    impl de::Visitor<'_> for Text {
        type Value = Arc<str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Arc<str>, E> {
            Ok(text.into())
        }
    }

    deserializer.deserialize_str(Text)
}

/// Reads an optional string.
///
/// # Errors
///
/// Returns an error if the value is neither a string nor null.
pub fn opt_str<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
    #[derive(Deserialize)]
    struct Text(#[serde(deserialize_with = "text")] Arc<str>);

    Ok(Option::<Text>::deserialize(deserializer)?.map(|it| it.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Both {
        #[serde(deserialize_with = "text")]
        must: Arc<str>,
        #[serde(default, deserialize_with = "opt_str")]
        may: Option<Arc<str>>,
    }

    #[test]
    fn text_is_read_as_it_was_written_and_anything_else_is_refused() {
        let both =
            |must: &str, may: Option<&str>| Both { must: must.into(), may: may.map(Arc::from) };
        let read = |json| serde_json::from_str::<Both>(json);
        assert_eq!(read(r#"{"must": "a\n\u00e9"}"#).unwrap(), both("a\né", None));
        assert_eq!(read(r#"{"must": "", "may": null}"#).unwrap(), both("", None));
        assert_eq!(read(r#"{"may": "b", "must": "a"}"#).unwrap(), both("a", Some("b")));
        let value = serde_json::json!({ "must": "a", "may": "b" });
        assert_eq!(serde_json::from_value::<Both>(value).unwrap(), both("a", Some("b")));
        for json in ["{}", r#"{"must": 1}"#, r#"{"must": null}"#, r#"{"must": "a", "may": 1}"#] {
            read(json).unwrap_err();
        }
    }
}
