//! The model selection in a file.

use std::collections::{BTreeMap, BTreeSet};

use loopwright_capabilities::skills::is_foreign_model;
use loopwright_core::{
    LlmConfig,
    messages::{InferenceOptions, ReasoningEffort},
};
use serde_json::Value;

use crate::problem::DiagnosticKind;
use crate::reading::fields::{Fields, Inner};

/// Keys that say who is reached how, which is never a definition's business.
const ELSEWHERE: [&str; 8] = [
    "apiKey",
    "apiUrl",
    "api_key",
    "api_url",
    "base_url",
    "endpoint",
    "queryParams",
    "query_params",
];

/// What is known of models elsewhere.
const UNSUPPORTED: [&str; 4] = ["contextLength", "maxOutputLength", "metadata", "pricing"];

const MODEL: &str = "`provider/model`, a model name, or a list of `key: value` pairs";
const EFFORT: [&str; 2] = ["effort", "reasoning_effort"];

/// What names of models and providers in files stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelNames {
    pub(crate) models: BTreeMap<String, String>,
    pub(crate) providers: BTreeSet<String>,
}

/// What a name stands for.
enum Named {
    Nobody,
    Foreign,
    Model(LlmConfig),
}

impl ModelNames {
    /// Reads what `model` says.
    fn model(&self, text: &str) -> Named {
        let text = self.models.get(text).map_or(text, String::as_str).trim();
        match text {
            "" | "inherit" => Named::Nobody,
            text if self.providers.contains(text) => Named::Model(provider(text)),
            text if is_foreign_model(text) => Named::Foreign,
            text => Named::Model(LlmConfig::named(text)),
        }
    }

    /// Reads what `llm` says, where a name alone is a provider.
    fn provider(&self, text: &str) -> Named {
        match text {
            text if text.contains('/') || self.models.contains_key(text) => self.model(text),
            "" | "inherit" => Named::Nobody,
            text => Named::Model(provider(text)),
        }
    }
}

fn provider(name: &str) -> LlmConfig {
    LlmConfig { provider: Some(name.into()), ..LlmConfig::default() }
}

pub(super) fn selection(fields: &mut Fields<'_>, models: &ModelNames) -> Option<LlmConfig> {
    let preset = fields.take(&["llm", "llmConfig", "llm_config"]);
    let model = fields.take(&["model"]);
    let (is_model, (at, value)) = match (preset, model) {
        (Some(preset), None) => (false, preset),
        (None, Some(model)) => (true, model),
        (None, None) => return None,
        (Some(_), Some((at, _))) => {
            fields.error(at, DiagnosticKind::ConflictingKeys { other: "llm" });
            return None;
        }
    };
    let Value::String(text) = value else {
        let inner = fields.inner(at, value, MODEL)?;
        return Some(settings(inner, fields)).filter(|it| *it != LlmConfig::default());
    };
    let text = text.trim();
    match if is_model { models.model(text) } else { models.provider(text) } {
        Named::Nobody => None,
        Named::Model(llm) => Some(llm),
        Named::Foreign => {
            fields.warn(at, DiagnosticKind::ForeignModel(text.to_owned()));
            None
        }
    }
}

fn settings(inner: Inner, fields: &mut Fields<'_>) -> LlmConfig {
    let mut fields = fields.enter(inner);
    let mut text = |keys: &[&'static str]| {
        let (_, text) = fields.text(keys)?;
        Some(text.trim()).filter(|it| !it.is_empty()).map(Into::into)
    };
    let (provider, model) = (text(&["provider", "preset", "driver"]), text(&["model"]));
    let mut options = options(&mut fields);
    if let Some((_, tokens)) = fields.count(&["maxTokens", "max_output_tokens"]) {
        options.max_output_tokens = Some(tokens);
    }
    if let Some((_, temperature)) = fields.amount(&["temperature"]) {
        options.temperature = Some(temperature);
    }
    options.reasoning_effort = effort(&mut fields).or(options.reasoning_effort);
    fields.ignore(&ELSEWHERE, &DiagnosticKind::ForbiddenKey);
    fields.ignore(&UNSUPPORTED, &DiagnosticKind::Unsupported);
    fields.rest();
    LlmConfig { provider, model, options }
}

fn options(fields: &mut Fields<'_>) -> InferenceOptions {
    let Some((at, value)) = fields.take(&["options"]) else { return InferenceOptions::default() };
    match serde_json::from_value(value) {
        Ok(options) => options,
        Err(error) => {
            fields.error(at, DiagnosticKind::InvalidValue(error.to_string()));
            InferenceOptions::default()
        }
    }
}

/// Takes how much the model is to think. Words of other programs are reported.
pub(super) fn effort(fields: &mut Fields<'_>) -> Option<ReasoningEffort> {
    let (at, value) = fields.take(&EFFORT)?;
    let effort = match value.as_str() {
        // Levels of other programs beyond the highest.
        Some("xhigh" | "max") => Some(ReasoningEffort::High),
        _ => serde_json::from_value(value).ok(),
    };
    if effort.is_none() {
        fields.warn(at, DiagnosticKind::Unsupported);
    }
    effort
}
