//! The verdict of a command about the work of a run.

use serde::Serialize;

/// What a command found that verified the work of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// The command.
    pub command: String,
    /// Whether it ended with 0.
    pub passed: bool,
    /// Its exit code; `None` if it did not run to its end.
    pub exit_code: Option<i64>,
    /// What it printed, or why it did not run.
    pub output: String,
    /// What the sandbox did about it, such as changes that it refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How long it took.
    pub duration_ms: u64,
}
