//! The policy for calls that need a decision or an answer.

/// The policy for a call that needs an approval, an answer or a result.
///
/// It applies to each open request: one that the run makes, and one that was recorded before the run resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAsk {
    /// The run pauses until there is a decision about the call.
    #[default]
    Pause,
    /// The call is denied, and the model receives the denial.
    Deny,
    /// The run stops. For a call of a sub-agent, that is the run of the sub-agent.
    Fail,
}

impl OnAsk {
    /// The source of the signals that stop runs, and of the denials.
    pub const SOURCE: &str = "on_ask";
}
