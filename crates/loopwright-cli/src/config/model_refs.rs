//! The fallback models.

use toml::Value;

use super::ModelRef;
use super::value::{Mismatch, SettingValue};

/// Models in the order in which they are asked; typed with commas, written as an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelRefs(Vec<ModelRef>);

impl ModelRefs {
    /// The models, first things first.
    pub fn iter(&self) -> impl Iterator<Item = &ModelRef> {
        self.0.iter()
    }
}

impl FromIterator<ModelRef> for ModelRefs {
    fn from_iter<T: IntoIterator<Item = ModelRef>>(models: T) -> Self {
        Self(models.into_iter().collect())
    }
}

impl SettingValue for ModelRefs {
    const EXPECTED: &'static str = "an array of models, each a provider and a name joined by `/`";
    const EXAMPLE: &'static str = "[\"anthropic/claude-haiku-5-5\"]";

    fn from_text(text: &str) -> Option<Self> {
        text.split(',').map(str::trim).map(ModelRef::from_text).collect()
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        value.as_array().ok_or(Mismatch::Type)?.iter().map(ModelRef::from_toml).collect()
    }

    fn example() -> &'static str {
        "anthropic/claude-haiku-5-5"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_typed_with_commas_and_written_as_an_array() {
        let both: Option<ModelRefs> = ["a/b", "c/d"].map(ModelRef::from_text).into_iter().collect();
        assert_eq!(ModelRefs::from_text("a/b, c/d"), both);
        let array = Value::from(vec!["a/b", "c/d"]);
        assert_eq!(ModelRefs::from_toml(&array).ok(), both);
        assert_eq!(ModelRefs::from_text("a/b,,c/d"), None);
        assert_eq!(ModelRefs::from_toml(&Value::from("a/b")), Err(Mismatch::Type));
        assert_eq!(ModelRefs::from_toml(&Value::from(vec!["a"])), Err(Mismatch::Value));
    }
}
