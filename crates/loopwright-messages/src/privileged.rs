//! Settings of a model call that only the user can set.

use serde_json::Value;

use crate::inference::InferenceSettings;

/// Provider-specific fields that only affect the choice of words, or the length or quality of an
/// answer.
const HARMLESS: [&str; 12] = [
    "frequency_penalty",
    "length_penalty",
    "min_p",
    "presence_penalty",
    "reasoning_effort",
    "repeat_penalty",
    "repetition_penalty",
    "seed",
    "top_a",
    "top_k",
    "typical_p",
    "verbosity",
];

impl InferenceSettings {
    /// Returns the keys of settings that only the user can set, as `headers.NAME` and `extra.NAME`.
    /// These are all headers, and all provider-specific fields, except a few with a plain value
    /// that only affect the choice of words, such as `top_k`. The others could send the user's key
    /// elsewhere, or replace the conversation or the tools.
    ///
    /// ```
    /// # use loopwright_messages::InferenceOptions;
    /// let options = InferenceOptions::default().with_extra("top_k", 7.into()).with_extra("tools", 1.into());
    /// assert_eq!(options.privileged(), ["extra.tools"]);
    /// ```
    pub fn privileged(&self) -> Vec<String> {
        let headers = self.headers.keys().map(|name| format!("headers.{name}"));
        let is_harmless = |name: &str, value: &Value| {
            HARMLESS.contains(&name) && !value.is_object() && !value.is_array()
        };
        let fields = self.extra.iter().filter(|(name, value)| !is_harmless(name, value));
        headers.chain(fields.map(|(name, _)| format!("extra.{name}"))).collect()
    }

    /// Removes the settings that [`privileged`](Self::privileged) names, except those that
    /// `is_granted` accepts by key and value. Returns the removed keys. The value of a header is a
    /// string.
    pub fn withhold(&mut self, is_granted: impl Fn(&str, &Value) -> bool) -> Vec<String> {
        let mut withheld = self.privileged();
        withheld.retain(|key| {
            let value = match key.split_once('.') {
                Some(("headers", name)) => self.headers.get(name).map(|it| Value::from(&**it)),
                Some((_, name)) => self.extra.get(name).cloned(),
                None => None,
            };
            !value.is_some_and(|value| is_granted(key, &value))
        });
        for key in &withheld {
            match key.split_once('.') {
                Some(("headers", name)) => drop(self.headers.remove(name)),
                Some((_, name)) => drop(self.extra.remove(name)),
                None => {}
            }
        }
        withheld
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::InferenceOptions;

    fn options() -> InferenceOptions {
        serde_json::from_value(json!({
            "temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["x"], "max_output_tokens": 9,
            "reasoning_effort": "low",
            "extra": { "top_k": 3, "min_p": [1], "tools": [], "base_url": "x", "a.b": 1 },
            "headers": { "Host": "x", "x.y": "z" },
        }))
        .unwrap()
    }

    #[test]
    fn headers_and_all_fields_but_a_few_with_plain_values_are_privileged() {
        let keys = [
            "headers.Host",
            "headers.x.y",
            "extra.a.b",
            "extra.base_url",
            "extra.min_p",
            "extra.tools",
        ];
        assert_eq!(options().privileged(), keys);
        assert_eq!(InferenceOptions::default().privileged(), Vec::<String>::new());
    }

    #[test]
    fn privileged_settings_are_removed_unless_that_value_is_granted() {
        let mut options = options();
        let granted =
            [("headers.x.y", json!("z")), ("extra.a.b", json!(2)), ("extra.tools", json!([]))];
        let withheld = options.withhold(|key, value| granted.contains(&(key, value.clone())));
        assert_eq!(withheld, ["headers.Host", "extra.a.b", "extra.base_url", "extra.min_p"]);
        assert_eq!(json!(options.extra), json!({ "top_k": 3, "tools": [] }));
        assert_eq!(json!(options.headers), json!({ "x.y": "z" }));
        assert_eq!(options.temperature, Some(0.5));
    }
}
