//! What skills may do.

use std::collections::BTreeMap;
use std::time::Duration;

use loopwright_core::Budget;
use serde::{Deserialize, Serialize};

use crate::child::MAX_DEPTH;
use crate::skills::skill::SkillInfo;

/// What skills may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillPolicy {
    /// What a skill may use that works in a conversation of its own; by default 10 steps, 16,384 tokens
    /// and 120 s, and never more than the agent has left.
    #[serde(with = "crate::written::budget")]
    pub fork: Budget,
    /// How deep such skills may be in each other; 3 by default.
    pub max_depth: u32,
    /// What the names of models in skills stand for, such as `sonnet`. A name that is not here is a
    /// model's, unless another program calls its models so: then the agent's own model stays. What stands
    /// for `inherit` changes nothing.
    pub models: BTreeMap<String, String>,
}

impl Default for SkillPolicy {
    fn default() -> Self {
        let fork = Budget {
            steps: Some(10),
            tokens: Some(16_384),
            time: Some(Duration::from_mins(2)),
            ..Budget::default()
        };
        Self { fork, max_depth: MAX_DEPTH, models: BTreeMap::new() }
    }
}

impl SkillPolicy {
    /// Returns the model that a skill asks for, if it asks for one.
    pub(super) fn model(&self, info: &SkillInfo) -> Option<String> {
        let name = info.model.as_deref()?.trim();
        let model = self.models.get(name).map_or(name, String::as_str);
        let names_one = !model.is_empty() && model != "inherit" && !is_foreign_model(model);
        names_one.then(|| model.to_owned())
    }
}

/// What another program calls its models.
const FOREIGN_MODELS: [&str; 7] =
    ["best", "default", "fable", "haiku", "opus", "opusplan", "sonnet"];

/// Returns `true` if a name is what another program calls a model of its own. No provider knows it.
pub fn is_foreign_model(name: &str) -> bool {
    // The context window of a name may follow it: `sonnet[1m]`.
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    FOREIGN_MODELS.contains(&name.trim())
}
