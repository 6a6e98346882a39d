//! Where providers differ from others that speak their wire.

use serde::{Deserialize, Serialize};

/// Where a provider differs from others that speak its wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own")]
pub struct Quirks {
    /// The field that limits the tokens written.
    pub max_tokens: MaxTokensField,
    /// Whether it tells the developer's instructions from the system's; otherwise they are sent as
    /// the system's.
    pub developer_role: bool,
    /// Whether it may be told where the part of a request ends that is worth keeping in its cache,
    /// on wires that have a mark for it.
    pub cache_marks: bool,
    /// Whether it may be asked for the usage of a stream; those that may not tell it unasked.
    pub stream_options: bool,
    /// Whether it can be held to a JSON schema; otherwise it is asked for a JSON object and told the
    /// schema in words.
    pub json_schema: bool,
    /// Whether models that reason may be asked for their reasoning in an encrypted form, which they
    /// understand again; only Responses have it.
    pub encrypted_reasoning: bool,
    /// The field that makes answers repeatable.
    pub seed: SeedField,
    /// The ids of tool calls that it accepts.
    pub call_ids: CallIds,
    /// The order of roles that it accepts; only chat completions have different ones.
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

/// The field that limits the tokens written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// The one that nearly everyone knows.
    #[default]
    MaxTokens,
    /// The one that counts reasoning too.
    MaxCompletionTokens,
}

/// The field that makes answers repeatable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeedField {
    /// The one that nearly everyone knows.
    #[default]
    Seed,
    /// Mistral's.
    RandomSeed,
}

/// The ids of tool calls that a provider accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Any.
    #[default]
    Any,
    /// Nine letters and digits, as Mistral wants them. Other ids are sent as nine letters that are
    /// made of them, the same every time.
    Nine,
}

/// The order of roles that a provider accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleOrder {
    /// Any.
    #[default]
    Any,
    /// The model answers its tools before the user speaks, and the user or a tool speaks last, as Mistral
    /// requires. A word is put in where a conversation is not like that.
    ModelAfterTools,
}
