//! The same session of saves on every kind of storage.

use std::fs;
use std::path::Path;

use loopwright_workspaces::Snapshots;

use crate::support::{tree, write};

/// Saves, changes and restores a folder, as two machines do that take turns.
async fn two_machines_take_turns(snapshots: &Snapshots, world: &Path) {
    let machines = [world.join("one/project"), world.join("two/project")];
    fs::create_dir_all(&machines[0]).unwrap();
    let mut head = snapshots.save(&machines[0], None).await.unwrap().snapshot;
    for turn in 0..6 {
        let machine = &machines[turn % 2];
        let restored = snapshots.restore(&head.id(), machine).await.unwrap();
        write(&machine.join(format!("turn {turn}")), format!("content {turn}"), 0o644);
        write(&machine.join("latest"), format!("{turn}"), 0o644);
        let saved = snapshots.save(machine, Some(&restored)).await.unwrap();
        assert_eq!(saved.sent.blobs, 2, "turn {turn}");
        head = saved.snapshot;
    }
    let last = tree(&machines[1]);
    assert_eq!(last.len(), 8);
    snapshots.restore(&head.id(), &machines[0]).await.unwrap();
    assert_eq!(tree(&machines[0]), last);
}

#[tokio::test]
async fn machines_take_turns_through_a_shared_folder() {
    let world = tempfile::tempdir().unwrap();
    let url = format!("file://{}", world.path().join("storage").display());
    let snapshots = Snapshots::open(&url).unwrap();
    two_machines_take_turns(&snapshots, world.path()).await;
    let prefixed = snapshots.with_prefix(&"sessions".into()).with_prefix(&"7f3a".into());
    two_machines_take_turns(&prefixed, &world.path().join("prefixed")).await;
    assert!(world.path().join("storage/sessions/7f3a/blobs").is_dir());
}

#[tokio::test]
async fn machines_take_turns_through_memory() {
    let world = tempfile::tempdir().unwrap();
    two_machines_take_turns(&Snapshots::open("memory:///").unwrap(), world.path()).await;
}

/// Needs a server with the protocol of S3, and its bucket in `LOOPWRIGHT_S3_URL`.
#[cfg(feature = "s3")]
#[tokio::test]
#[ignore = "needs a server"]
async fn machines_take_turns_through_s3() {
    let world = tempfile::tempdir().unwrap();
    let url = std::env::var("LOOPWRIGHT_S3_URL").unwrap();
    two_machines_take_turns(&Snapshots::open(&url).unwrap(), world.path()).await;
}

#[test]
fn other_urls_are_refused_without_their_password() {
    let use_others = "use `file:///FOLDER`, or `s3://BUCKET/PREFIX` with the feature `s3`";
    let refusals = [
        ("ftp://user:secret@host/x", "ftp", use_others),
        ("file://host/x", "file", "use `file:///FOLDER`"),
        ("/folder", "", "relative URL without a base"),
    ];
    for (url, scheme, reason) in refusals {
        let refused = Snapshots::open(url).unwrap_err().to_string();
        let expected = format!("cannot use a storage URL with scheme `{scheme}`: {reason}");
        assert_eq!(refused, expected);
    }
}
