//! Tool arguments in envelopes.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use crate::{
    payload::{Ordered, ToolArguments},
    redact::Redactor,
    text::shorten,
};

/// How many arguments a summary names.
const NAMED: usize = 3;

/// How many characters of a value a summary shows, and how many are left of a longer one.
const SHOWN: usize = 30;
const KEPT: usize = 27;

/// Returns the first arguments in a few words.
pub(crate) fn summary(arguments: &str, redaction: &Redactor) -> ToolArguments {
    let fields = match read(arguments) {
        Ordered::Fields(fields) => fields,
        Ordered::Other(other) => {
            return ToolArguments::Summary(shown("", other, redaction));
        }
    };
    let named = fields.into_iter().take(NAMED).map(|(name, value)| {
        let shown = shown(&name, value, redaction);
        format!("{name}: {shown}")
    });
    ToolArguments::Summary(named.collect::<Vec<_>>().join(", "))
}

/// Returns the arguments as a whole; texts at the top that are longer than `most` are cut.
pub(crate) fn whole(arguments: &str, most: usize, redaction: &Redactor) -> ToolArguments {
    let cut = |name: &str, value| redaction.shortened_value(name, value, most, most);
    ToolArguments::Whole(match read(arguments) {
        Ordered::Fields(fields) => {
            let fields = fields.into_iter().map(|(name, value)| {
                let value = cut(&name, value);
                (name, value)
            });
            Ordered::Fields(fields.collect())
        }
        Ordered::Other(value) => Ordered::Other(cut("", value)),
    })
}

impl Redactor {
    /// Returns the arguments of a call with secrets redacted: unchanged if there are none,
    /// otherwise with the fields in the same order.
    pub fn arguments<'a>(&self, arguments: &'a str) -> Cow<'a, str> {
        let Ok(Ordered::Fields(fields)) = serde_json::from_str(arguments) else {
            return self.text(arguments);
        };
        let clean =
            |(name, value): &(String, Value)| (name.clone(), self.value(name, value.clone()));
        let cleaned: Vec<_> = fields.iter().map(clean).collect();
        if cleaned == fields {
            return Cow::Borrowed(arguments);
        }
        // Values can be written.
        Cow::Owned(serde_json::to_string(&Ordered::Fields(cleaned)).unwrap_or_default())
    }
}

fn shown(name: &str, value: Value, redaction: &Redactor) -> String {
    match redaction.shortened_value(name, value, SHOWN, KEPT) {
        Value::String(text) => format!("'{text}'"),
        value => shorten(&value.to_string(), SHOWN, KEPT),
    }
}

/// Reads arguments; what is no object is kept as the text that it is.
pub(crate) fn read(arguments: &str) -> Ordered {
    serde_json::from_str(arguments)
        .unwrap_or_else(|_| Ordered::Other(Value::String(arguments.to_owned())))
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Ordered::Fields(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &str, expect: &str) {
        let told = serde_json::to_value(summary(arguments, &Redactor::default())).unwrap();
        assert_eq!(told["args_summary"], expect, "{arguments}");
    }

    #[test]
    fn a_summary_names_the_first_three_in_the_order_of_the_model() {
        check(r#"{"q":"hi"}"#, "q: 'hi'");
        check(r#"{"z":1,"a":[true],"m":null,"b":2}"#, "z: 1, a: [true], m: null");
        check("{}", "");
        check("not json", "'not json'");
    }

    #[test]
    fn long_values_of_a_summary_are_cut_between_characters() {
        let (long, kept) = ("ä".repeat(31), "ä".repeat(27));
        check(&format!(r#"{{"q":"{long}"}}"#), &format!("q: '{kept}...'"));
        let fits = "ä".repeat(30);
        check(&format!(r#"{{"q":"{fits}"}}"#), &format!("q: '{fits}'"));
    }

    #[test]
    fn arguments_stay_as_they_were_written_but_for_secrets() {
        let check = |arguments: &str, clean: &str| {
            assert_eq!(Redactor::new(["hunter2hunter2"]).arguments(arguments), clean);
        };
        check(
            r#"{ "z": 1, "api_key": "k", "a": [{ "token": "t" }] }"#,
            r#"{"z":1,"api_key":"[redacted]","a":[{"token":"[redacted]"}]}"#,
        );
        check(r#"{"say":"\u0068unter2hunter2"}"#, r#"{"say":"[redacted]"}"#);
        check(r#"{"say": "hunter2hunter2"#, r#"{"say": "[redacted]"#);
        for nothing_to_hide in [r#"{ "z": 1.50, "a": "\u0068i" }"#, "not json", "", "[1, 2]"] {
            let clean = Redactor::default().arguments(nothing_to_hide);
            assert!(matches!(clean, Cow::Borrowed(it) if it == nothing_to_hide), "{clean}");
        }
    }

    #[test]
    fn whole_arguments_keep_their_order_and_cut_texts_at_the_top() {
        let arguments = r#"{"z":"äöüßäöüßäöü","a":{"deep":"äöüßäöüßäöü"},"api_key":"k"}"#;
        let told = serde_json::to_string(&whole(arguments, 10, &Redactor::default())).unwrap();
        assert_eq!(
            told,
            r#"{"args":{"z":"äöüßäöüßäö...","a":{"deep":"äöüßäöüßäöü"},"api_key":"[redacted]"}}"#
        );
    }
}
