//! The policy for interrupted calls.

/// The policy for an interrupted call that must not happen twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInterrupted {
    /// The model receives the information that the outcome is unknown.
    #[default]
    ReportUnknown,
    /// The run pauses until there is a decision about the call.
    RequireApproval,
}
