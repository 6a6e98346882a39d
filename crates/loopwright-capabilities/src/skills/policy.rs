//! The policy of skills.

use std::collections::BTreeMap;
use std::time::Duration;

use loopwright_core::Budget;
use serde::{Deserialize, Serialize};

use crate::child::MAX_DEPTH;
use crate::skills::skill::SkillInfo;

/// The policy of skills.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillPolicy {
    /// The budget of a skill that runs in its own conversation; by default 10 steps, 16,384 tokens
    /// and 120 s, and at most the agent's remaining budget.
    #[serde(with = "crate::written::budget")]
    pub fork: Budget,
    /// The maximum nesting depth of such skills; 3 by default.
    pub max_depth: u32,
    /// The models for names in skills, such as `sonnet`. Other names are model names, unless they
    /// are known names of another program: then the agent's own model stays. A name that maps to
    /// `inherit` changes nothing.
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

/// Returns `true` if a name is another program's alias for a model, which no provider knows.
pub fn is_foreign_model(name: &str) -> bool {
    // The context window of a name may follow it: `sonnet[1m]`.
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    FOREIGN_MODELS.contains(&name.trim())
}
