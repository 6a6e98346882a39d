//! How often an answer is judged, and what happens where it cannot be.

use serde::{Deserialize, Serialize};

/// How answers are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CritiquePolicy {
    /// How many answers of an execution are judged; 2 by default. Where the last one of them is not
    /// accepted the run is stopped, and with 0 it is stopped at the first answer.
    pub max_iterations: u32,
    /// What happens to an answer that cannot be judged; it is accepted by default.
    pub on_failure: OnCriticFailure,
    /// How much the critic is shown of the result and of the arguments of one call, in characters; 6,000
    /// by default, half of it the beginning and half the end.
    pub max_result_chars: usize,
    /// How much the critic is shown of all calls together, in characters; 48,000 by default. The newest
    /// are shown.
    pub max_evidence_chars: usize,
}

/// What happens to an answer that the critic could not judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnCriticFailure {
    /// It is accepted.
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
    /// Judges so many answers of an execution.
    pub fn of_iterations(max_iterations: u32) -> Self {
        Self { max_iterations, ..Self::default() }
    }
}
