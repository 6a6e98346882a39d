//! How often the model may go back, and what it is told about it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::retrospective::prompt;

/// How often the model may go back, and what it is told about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrospectivePolicy {
    /// How often the model may go back in one execution; 3 by default. After that it is refused, and no
    /// checkpoints are shown any more.
    pub max_rewinds: u32,
    /// What the model is told first about checkpoints, as a part of the system prompt; nothing if it is
    /// blank.
    pub instructions: Cow<'static, str>,
}

impl Default for RetrospectivePolicy {
    fn default() -> Self {
        Self { max_rewinds: 3, instructions: prompt::INSTRUCTIONS.into() }
    }
}
