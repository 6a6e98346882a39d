//! Saves and restores that are cut off.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures::future::{Either, select};
use loopwright_workspaces::object_store::memory::InMemory;
use loopwright_workspaces::{Snapshot, SnapshotError, Snapshots};

use crate::support::{Cut, CutStore, tree, write};

/// More operations than a save or a restore of the tests needs.
const MAX_OPERATIONS: usize = 40;

fn fill(folder: &Path, text: &str) {
    fs::create_dir_all(folder.join("inner")).unwrap();
    for name in ["a", "b", "inner/c", "inner/d"] {
        write(&folder.join(name), format!("{text} {name}"), 0o640);
    }
    write(&folder.join("inner/same"), "same", 0o644);
}

/// Runs work until its end, or until a hanging store is reached. `None` means that it was dropped there.
async fn run<T>(store: &CutStore, work: impl Future<Output = T>) -> Option<T> {
    match select(Box::pin(work), Box::pin(store.reached.notified())).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) if store.cut == Cut::Hang => None,
        // A store that fails ends the work, too.
        Either::Right(((), work)) => Some(work.await),
    }
}

/// Cuts off work at every operation, from the first one on, until it is done before.
async fn at_every_operation<T>(
    cut: Cut,
    storage: &Arc<InMemory>,
    work: impl AsyncFn(Snapshots) -> Result<T, SnapshotError>,
    check: impl AsyncFn(Snapshots),
) {
    for after in 0..MAX_OPERATIONS {
        let store = CutStore::new(storage, cut, after);
        let done = run(&store, work(Snapshots::new(Arc::clone(&store) as _))).await;
        check(Snapshots::new(Arc::clone(storage) as _)).await;
        if matches!(done, Some(Ok(_))) {
            assert!(after >= 2, "{after} operations");
            return;
        }
    }
    panic!("more than {MAX_OPERATIONS} operations");
}

async fn saves_keep_the_previous_snapshot(cut: Cut) {
    let (storage, world) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let (folder, target) = (world.path().join("a"), world.path().join("b"));
    fill(&folder, "first");
    let snapshots = Snapshots::new(Arc::clone(&storage) as _);
    let first: Snapshot = snapshots.save(&folder, None).await.unwrap().snapshot;
    let before = tree(&folder);
    fill(&folder, "second");
    let save = async |snapshots: Snapshots| snapshots.save(&folder, Some(&first)).await;
    let check = async |snapshots: Snapshots| {
        snapshots.restore(&first.id(), &target).await.unwrap();
        assert_eq!(tree(&target), before);
    };
    at_every_operation(cut, &storage, save, check).await;
    let saved = snapshots.save(&folder, Some(&first)).await.unwrap();
    snapshots.restore(&saved.snapshot.id(), &target).await.unwrap();
    assert_eq!(tree(&target), tree(&folder));
}

#[tokio::test]
async fn a_save_that_fails_anywhere_leaves_the_previous_snapshot_whole() {
    saves_keep_the_previous_snapshot(Cut::Fail).await;
}

#[tokio::test]
async fn a_save_that_is_dropped_anywhere_leaves_the_previous_snapshot_whole() {
    saves_keep_the_previous_snapshot(Cut::Hang).await;
}

async fn restores_keep_the_folder(cut: Cut) {
    let (storage, world) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let (folder, target) = (world.path().join("a"), world.path().join("b"));
    fill(&folder, "new");
    fill(&target, "old");
    let snapshots = Snapshots::new(Arc::clone(&storage) as _);
    let id = snapshots.save(&folder, None).await.unwrap().snapshot.id();
    let (old, new) = (tree(&target), tree(&folder));
    let restore = async |snapshots: Snapshots| snapshots.restore(&id, &target).await;
    let check = async |_| {
        let found = tree(&target);
        assert!(found == old || found == new, "{found:?}");
    };
    at_every_operation(cut, &storage, restore, check).await;
    assert_eq!(tree(&target), new);
    let mut left: Vec<_> =
        fs::read_dir(world.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a", "b"]);
}

#[tokio::test]
async fn a_restore_that_fails_anywhere_leaves_the_folder_as_it_was() {
    restores_keep_the_folder(Cut::Fail).await;
}

#[tokio::test]
async fn a_restore_that_is_dropped_anywhere_leaves_the_folder_as_it_was() {
    restores_keep_the_folder(Cut::Hang).await;
}

#[tokio::test]
async fn a_folder_is_restored_by_one_restore_at_a_time() {
    let (storage, world) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let (folder, target) = (world.path().join("a"), world.path().join("b"));
    fill(&folder, "new");
    let snapshots = Snapshots::new(Arc::clone(&storage) as _);
    let id = snapshots.save(&folder, None).await.unwrap().snapshot.id();
    let store = CutStore::new(&storage, Cut::Hang, 1);
    let first = Snapshots::new(Arc::clone(&store) as _);
    let mut hanging = Box::pin(first.restore(&id, &target));
    let reached = select(&mut hanging, Box::pin(store.reached.notified())).await;
    assert!(matches!(reached, Either::Right(_)));
    let refused = snapshots.restore(&id, &target).await.unwrap_err();
    assert!(matches!(&refused, SnapshotError::Busy(path) if *path == target), "{refused}");
}
