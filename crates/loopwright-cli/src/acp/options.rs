//! Configuration options of a session, as editors select them: permission mode, model and reasoning effort.

use loopwright_models::Providers;
use serde_json::{Value, json};

use crate::model::{EFFORTS, Effort, effort_name};

/// The IDs of the options, besides that of the mode.
pub(super) const MODEL: &str = "model";
pub(super) const EFFORT: &str = "effort";

/// Returns the models that can be selected: those that are known of providers whose key is set, and the current one.
pub(super) fn models(providers: &Providers, current: &str) -> Vec<String> {
    let mut names = vec![current.to_owned()];
    for provider in providers.names().filter(|it| providers.has_key(it)) {
        let default = providers.provider(provider).ok().and_then(|it| it.model.as_deref());
        let known = providers.catalog().models(provider).map(|(name, _)| name);
        for model in default.into_iter().chain(known) {
            let name = format!("{provider}/{model}");
            if !model.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Returns the option of the model.
pub(super) fn model(names: &[String], current: &str) -> Value {
    let options: Vec<Value> = names.iter().map(|it| json!({"value": it, "name": it})).collect();
    json!({
        "id": MODEL, "name": "Model", "category": "model", "type": "select",
        "description": "The model to use from the next turn on", "currentValue": current, "options": options,
    })
}

/// Returns the option of the effort.
pub(super) fn effort(current: Effort) -> Value {
    let options: Vec<Value> =
        EFFORTS.iter().map(|(value, name, _)| json!({"value": value, "name": name})).collect();
    json!({
        "id": EFFORT, "name": "Reasoning effort", "category": "thought_level", "type": "select",
        "description": "How much the model reasons, from the next turn on", "currentValue": effort_name(current),
        "options": options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_providers_with_a_key_are_offered_after_the_current_one() {
        let keys = |name: &str| (name == "OPENAI_API_KEY").then(|| "k".to_owned());
        let providers = Providers::new().with_keys(keys);
        let names = models(&providers, "ollama/qwen3");
        assert_eq!(names[0], "ollama/qwen3");
        assert!(names.contains(&"openai/gpt-5".to_owned()), "{names:?}");
        assert!(names[1..].iter().all(|it| it.starts_with("openai")), "{names:?}");
    }
}
