//! Differences of providers with the same wire.

use serde::{Deserialize, Serialize};

/// The differences of a provider from others with the same wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each answers a separate question")]
pub struct Quirks {
    /// The field for the limit of output tokens.
    pub max_tokens: MaxTokensField,
    /// Whether it distinguishes developer messages from system messages; otherwise they are sent as
    /// system messages.
    pub developer_role: bool,
    /// Whether it accepts cache marks, on wires that have them.
    pub cache_marks: bool,
    /// Whether it accepts the option to include usage in a stream; other providers include it
    /// without the option.
    pub stream_options: bool,
    /// Whether it enforces JSON schemas; otherwise a JSON object is requested, and the prompt
    /// describes the schema.
    pub json_schema: bool,
    /// Whether it supports encrypted reasoning, which is sent back; only the Responses API has it.
    pub encrypted_reasoning: bool,
    /// The field for the seed.
    pub seed: SeedField,
    /// The format of tool call IDs that it accepts.
    pub call_ids: CallIds,
    /// The order of roles that it accepts; it differs only on chat completions.
    pub role_order: RoleOrder,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            max_tokens: MaxTokensField::default(),
            developer_role: false,
            cache_marks: true,
            stream_options: true,
            json_schema: true,
            encrypted_reasoning: true,
            seed: SeedField::default(),
            call_ids: CallIds::default(),
            role_order: RoleOrder::default(),
        }
    }
}

/// The field for the limit of output tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// The usual field.
    #[default]
    MaxTokens,
    /// The field that includes reasoning.
    MaxCompletionTokens,
}

/// The field for the seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeedField {
    /// The usual field.
    #[default]
    Seed,
    /// The field of Mistral.
    RandomSeed,
}

/// The format of tool call IDs that a provider accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Any.
    #[default]
    Any,
    /// Nine letters and digits, as Mistral requires. Other IDs are mapped to nine letters, always
    /// in the same way.
    Nine,
}

/// The order of roles that a provider accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleOrder {
    /// Any.
    #[default]
    Any,
    /// The model responds to its tools before the user speaks, and the user or a tool speaks last,
    /// as Mistral requires. A short message is inserted where a conversation has another order.
    ModelAfterTools,
}
