//! The limit of rewinds, and the instructions about them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::retrospective::prompt;

/// The limit of rewinds, and the instructions about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrospectivePolicy {
    /// The maximum number of rewinds in one execution; 3 by default. After that, rewinds are
    /// refused, and checkpoints are no longer shown.
    pub max_rewinds: u32,
    /// The instructions about checkpoints in the system prompt; blank means none.
    pub instructions: Cow<'static, str>,
}

impl Default for RetrospectivePolicy {
    fn default() -> Self {
        Self { max_rewinds: 3, instructions: prompt::INSTRUCTIONS.into() }
    }
}
