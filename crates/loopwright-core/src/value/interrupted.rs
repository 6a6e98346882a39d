//! What is done about calls that were interrupted.

/// What is done about a call that was interrupted and must not happen twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInterrupted {
    /// The model is told that the outcome is unknown.
    #[default]
    ReportUnknown,
    /// The run pauses until the call is decided about.
    RequireApproval,
}
