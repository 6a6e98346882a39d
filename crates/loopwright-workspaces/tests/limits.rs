//! Limits of saves and restores.

use std::fs;
use std::sync::Arc;

use loopwright_workspaces::object_store::memory::InMemory;
use loopwright_workspaces::{SnapshotLimits, Snapshots};

use crate::support::write;

#[tokio::test]
async fn folders_beyond_the_limits_are_neither_saved_nor_restored() {
    let (world, storage) = (tempfile::tempdir().unwrap(), Arc::new(InMemory::new()));
    let (folder, target) = (world.path().join("a"), world.path().join("b"));
    fs::create_dir(&folder).unwrap();
    write(&folder.join("one"), "12345", 0o600);
    write(&folder.join("two"), "67890", 0o600);
    let snapshots = Snapshots::new(storage);
    let with = |max_entries, max_bytes| {
        snapshots.clone().with_limits(SnapshotLimits { max_entries, max_bytes })
    };
    let id = with(2, 10).save(&folder, None).await.unwrap().snapshot.id();
    with(2, 10).restore(&id, &target).await.unwrap();
    let refusals = [
        (1, 10, "the folder has more than 1 files; remove generated files, or raise `max_entries`"),
        (2, 9, "the folder is larger than 9 bytes; remove large files, or raise `max_bytes`"),
    ];
    for (entries, bytes, expected) in refusals {
        let limited = with(entries, bytes);
        let saved = limited.save(&folder, None).await.unwrap_err().to_string();
        let restored = limited.restore(&id, &target).await.unwrap_err().to_string();
        assert_eq!([saved.as_str(), restored.as_str()], [expected; 2]);
    }
}
