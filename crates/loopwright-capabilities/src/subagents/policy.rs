//! How many sub-agents there may be, how deep, and how much of what they say comes back.

use loopwright_agent::NameList;
use serde::{Deserialize, Serialize};

use crate::child;

/// What sub-agents may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SubagentPolicy {
    /// How deep sub-agents may be below the agent that a user talks to; 3 by default.
    pub max_depth: u32,
    /// How much of an answer is shown to the one who asked, in characters; 8,000 by default, and 0 is
    /// without limit.
    pub summary_max_chars: usize,
    /// How many sub-agents of one execution work at the same time; 8 by default. Others wait.
    pub max_concurrent: usize,
    /// What a sub-agent that looks into something may call, as far as its parent may; `read_file` by
    /// default.
    pub research_tools: NameList,
}

impl Default for SubagentPolicy {
    fn default() -> Self {
        Self {
            max_depth: child::MAX_DEPTH,
            summary_max_chars: 8000,
            max_concurrent: 8,
            research_tools: ["read_file"].into_iter().collect(),
        }
    }
}

impl SubagentPolicy {
    /// Lets sub-agents be so deep.
    pub fn for_depth(max_depth: u32) -> Self {
        Self { max_depth, ..Self::default() }
    }

    /// Returns what is shown of an answer: who gave it, and as much of it as may be shown.
    pub(super) fn show(&self, name: &str, answer: &str) -> String {
        let end = match self.summary_max_chars {
            0 => None,
            most => answer.char_indices().nth(most).map(|(end, _)| end),
        };
        match end {
            None => format!("[Subagent: {name}] {answer}"),
            Some(end) => {
                let (shown, rest) = answer.split_at(end);
                let more = rest.chars().count();
                format!("[Subagent: {name}] {shown}\n[cut: {more} more characters]")
            }
        }
    }
}
