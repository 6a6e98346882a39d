//! Settings in JSON whose values have lines, and whose keys can occur more than once.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The text of a settings file in JSON.
#[derive(Clone, Debug)]
pub struct SettingsText<'a> {
    text: &'a str,
    line_ends: Vec<usize>,
}

impl<'a> SettingsText<'a> {
    /// Uses a text, without the byte order mark that it may start with.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        Self { text, line_ends: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// Reads the object of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a JSON object.
    pub fn entries(&self) -> Result<SettingsEntries<'a>, serde_json::Error> {
        serde_json::from_str(self.text)
    }

    /// Returns the line where a value of this text begins, from 1.
    #[must_use]
    pub fn line(&self, value: &RawValue) -> usize {
        let offset = (value.get().as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        self.line_ends.partition_point(|end| *end < offset) + 1
    }
}

/// The entries of a JSON object in order, also those whose key occurs more than once.
#[derive(Clone, Debug)]
pub struct SettingsEntries<'a>(
    /// The keys and values.
    pub Vec<(String, &'a RawValue)>,
);

impl<'a> SettingsEntries<'a> {
    /// Reads an object. `None` means that the value is of another type.
    #[must_use]
    pub fn of(value: &'a RawValue) -> Option<Self> {
        serde_json::from_str(value.get()).ok()
    }

    /// Returns the value of a key; the last one counts.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().rfind(|(name, _)| name == key).map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for SettingsEntries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = SettingsEntries<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(SettingsEntries(entries))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_lines_and_repeated_keys_are_kept() {
        let text = SettingsText::new("\u{feff}{\n\"a\": 1,\n\"b\": { \"c\":\n2 }, \"a\": 3 }");
        let entries = text.entries().unwrap();
        let read = |entries: &SettingsEntries<'_>| -> Vec<(String, String, usize)> {
            let read = entries.0.iter();
            read.map(|(key, value)| (key.clone(), value.get().to_owned(), text.line(value)))
                .collect()
        };
        let entry = |key: &str, value: &str, line| (key.to_owned(), value.to_owned(), line);
        let expect = [entry("a", "1", 2), entry("b", "{ \"c\":\n2 }", 3), entry("a", "3", 4)];
        assert_eq!(read(&entries), expect);
        assert_eq!(entries.get("a").map(RawValue::get), Some("3"));
        let inner = SettingsEntries::of(entries.get("b").unwrap()).unwrap();
        assert_eq!(read(&inner), [entry("c", "2", 4)]);
        assert!(SettingsEntries::of(entries.get("a").unwrap()).is_none());
        assert!(SettingsText::new("[]").entries().is_err());
    }
}
