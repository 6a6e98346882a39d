//! Where the directories of sessions are stored as snapshots.

use clap::Args;

/// Where the directories of sessions are stored as snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct SnapshotArgs {
    /// Store the directories in `--session-dirs` as snapshots in this storage, from which other machines restore them: `file:///DIR` or `s3://BUCKET/PREFIX`
    #[arg(long, value_name = "URL", requires = "session_dirs", help_heading = "Session")]
    pub snapshots: Option<String>,
}
