//! Limits of reviews, and failures of the critic.

use serde::{Deserialize, Serialize};

/// The review policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CritiquePolicy {
    /// The maximum number of reviews per execution; 2 by default. If the last reviewed answer is
    /// rejected, the run is stopped. With 0, the run is stopped at the first answer.
    pub max_iterations: u32,
    /// The action for an answer that cannot be reviewed; by default, it is accepted.
    pub on_failure: OnCriticFailure,
    /// The maximum number of characters of the result and the arguments of one call that the critic
    /// sees; 6,000 by default, half from the beginning and half from the end.
    pub max_result_chars: usize,
    /// The maximum number of characters of all calls together that the critic sees; 48,000 by
    /// default. The newest calls are shown.
    pub max_evidence_chars: usize,
}

/// The action for an answer that the critic could not review.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnCriticFailure {
    /// The answer is accepted.
    #[default]
    Approve,
    /// The run is stopped.
    Stop,
    /// The run fails.
    Fail,
}

impl Default for CritiquePolicy {
    fn default() -> Self {
        Self {
            max_iterations: 2,
            on_failure: OnCriticFailure::default(),
            max_result_chars: 6000,
            max_evidence_chars: 48_000,
        }
    }
}

impl CritiquePolicy {
    /// Creates a policy with this number of reviews per execution.
    pub fn of_iterations(max_iterations: u32) -> Self {
        Self { max_iterations, ..Self::default() }
    }
}
