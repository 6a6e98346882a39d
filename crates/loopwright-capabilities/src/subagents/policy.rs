//! Limits of sub-agents: number, depth, and size of answers.

use loopwright_agent::NameList;
use serde::{Deserialize, Serialize};

use crate::child;

/// The policy of sub-agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SubagentPolicy {
    /// The maximum nesting depth of sub-agents below the user's agent; 3 by default.
    pub max_depth: u32,
    /// The number of characters of an answer that the calling agent sees; 8,000 by default; 0 means
    /// no limit.
    pub summary_max_chars: usize,
    /// The maximum number of concurrent sub-agents of one execution; 8 by default. Others wait.
    pub max_concurrent: usize,
    /// The tools of a research sub-agent, as far as its parent has them; `read_file` by default.
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
    /// Creates a policy with a maximum nesting depth.
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
                format!("[Subagent: {name}] {shown}\n[truncated: {more} more characters]")
            }
        }
    }
}
