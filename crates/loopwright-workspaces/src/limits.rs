//! Limits of a snapshot.

/// Limits of a snapshot, for saving and restoring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// The maximum number of files, folders and links; 500,000 by default.
    pub max_entries: usize,
    /// The maximum size of all files together, in bytes; 20 GiB by default.
    pub max_bytes: u64,
}

impl SnapshotLimits {
    /// The maximum size of a manifest: what its entries can take, at the length of usual paths.
    pub(crate) fn max_manifest(self) -> u64 {
        let chunks = self.max_bytes / crate::manifest::CHUNK as u64;
        let entries = (self.max_entries as u64).saturating_mul(1024);
        entries.saturating_add(chunks.saturating_mul(128)).saturating_add(1 << 20)
    }
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { max_entries: 500_000, max_bytes: 20 << 30 }
    }
}
