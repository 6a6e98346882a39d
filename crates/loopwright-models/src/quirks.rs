//! Where providers differ from others that speak their wire.

use serde::{Deserialize, Serialize};

/// Where a provider differs from others that speak its wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// The field that limits the tokens written.
    pub max_tokens: MaxTokensField,
    /// Whether it tells the developer's instructions from the system's; otherwise they are sent as
    /// the system's.
    pub developer_role: bool,
    /// Whether it may be told where the part of a request ends that is worth keeping in its cache,
    /// on wires that have a mark for it.
    pub cache_marks: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        let max_tokens = MaxTokensField::default();
        Self { max_tokens, developer_role: false, cache_marks: true }
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
