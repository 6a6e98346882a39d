//! Manifests and objects that no save writes.

use std::fs;
use std::sync::Arc;

use loopwright_workspaces::object_store::memory::InMemory;
use loopwright_workspaces::object_store::path::Path as ObjectPath;
use loopwright_workspaces::object_store::{ObjectStore, ObjectStoreExt as _};
use loopwright_workspaces::{SnapshotError, SnapshotId, Snapshots};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{tree, write};

fn hex(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}

async fn put(storage: &InMemory, folder: &str, content: &[u8]) -> String {
    let name = hex(content);
    let path = ObjectPath::from(format!("{folder}/{}/{name}", &name[..2]));
    storage.put(&path, content.to_vec().into()).await.unwrap();
    name
}

fn file(path: &str, blobs: &[String], size: u64) -> Value {
    json!({ "path": path, "modified": [1, 0], "kind": { "file": { "mode": 420, "size": size, "blobs": blobs } } })
}

fn folder(path: &str) -> Value {
    json!({ "path": path, "modified": [1, 0], "kind": { "folder": { "mode": 493 } } })
}

fn link(path: &str, target: &str) -> Value {
    json!({ "path": path, "modified": [1, 0], "kind": { "link": { "target": target } } })
}

/// Restores a manifest with these entries over a folder, and returns the error.
async fn refusal(entries: &[Value]) -> String {
    let (storage, world) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    put(&storage, "blobs", b"x").await;
    let manifest = json!({ "version": 1, "mode": 493, "entries": entries });
    let id = put(&storage, "manifests", &serde_json::to_vec(&manifest).unwrap()).await;
    let target = world.path().join("inner/target");
    fs::create_dir_all(&target).unwrap();
    write(&target.join("old"), "old", 0o600);
    let before = tree(&target);
    let snapshots = Snapshots::new(storage);
    let refused = snapshots.restore(&id.parse().unwrap(), &target).await.unwrap_err();
    assert_eq!(tree(&target), before, "{refused}");
    let beside =
        [world.path(), &world.path().join("inner")].map(|it| fs::read_dir(it).unwrap().count());
    assert_eq!(beside, [1, 1], "{refused}");
    refused.to_string()
}

fn invalid(reason: &str) -> String {
    format!("invalid manifest: {reason}; restore another snapshot")
}

#[tokio::test]
async fn paths_out_of_the_folder_are_refused() {
    let long = "n".repeat(256);
    for path in
        ["../out", "a/../../out", "/etc/out", "", ".", "..", "a//b", "./a", "a/", "a\0b", &long]
    {
        let refused = refusal(&[file(path, &[hex(b"x")], 1)]).await;
        assert_eq!(refused, invalid(&format!("`{path}` is not a path in the folder")));
    }
}

#[tokio::test]
async fn links_out_of_the_folder_are_refused() {
    for (path, target) in [
        ("l", "/etc/passwd"),
        ("l", ".."),
        ("l", "../x"),
        ("l", "a/../b"),
        ("d/l", "../.."),
        ("d/l", "../a/.."),
        ("l", ""),
    ] {
        let refused = refusal(&[folder("d"), link(path, target)]).await;
        assert_eq!(refused, invalid(&format!("link `{path}` leads outside the folder")));
    }
}

#[tokio::test]
async fn entries_in_links_files_and_unlisted_folders_are_refused() {
    let x = || [hex(b"x")];
    let below = invalid("`p/f` is not in a listed folder");
    assert_eq!(refusal(&[folder("d"), link("p", "d"), file("p/f", &x(), 1)]).await, below);
    assert_eq!(refusal(&[file("p", &x(), 1), file("p/f", &x(), 1)]).await, below);
    assert_eq!(refusal(&[file("p/f", &x(), 1)]).await, below);
    assert_eq!(refusal(&[file("p/f", &x(), 1), folder("p")]).await, below);
    let twice = invalid("`p` is listed twice");
    assert_eq!(refusal(&[folder("p"), link("p", "d")]).await, twice);
    assert_eq!(refusal(&[file("p", &x(), 1), file("p", &x(), 1)]).await, twice);
}

#[tokio::test]
async fn devices_special_permissions_and_unknown_fields_are_refused() {
    let entry = |kind: Value| json!({ "path": "p", "modified": [1, 0], "kind": kind });
    let device = refusal(&[entry(json!({ "device": { "mode": 0o600, "number": 1 } }))]).await;
    assert!(device.contains("unknown variant `device`"), "{device}");
    let more = refusal(&[entry(json!({ "folder": { "mode": 493, "owner": 0 } }))]).await;
    assert!(more.contains("unknown field `owner`"), "{more}");
    let set_user = refusal(&[entry(json!({ "folder": { "mode": 0o4755 } }))]).await;
    assert_eq!(set_user, invalid("`p` has invalid permissions 4755"));
    let character =
        refusal(&[entry(json!({ "file": { "mode": 0o20600, "size": 0, "blobs": [] } }))]).await;
    assert_eq!(character, invalid("`p` has invalid permissions 20600"));
    let time = json!({ "path": "p", "modified": [1, 1_000_000_000], "kind": { "folder": { "mode": 493 } } });
    assert_eq!(refusal(&[time]).await, invalid("`p` has an invalid time"));
}

#[tokio::test]
async fn sizes_that_blobs_do_not_have_are_refused() {
    let blob = hex(b"x");
    let size = invalid("`p` has a size that does not match its blobs");
    assert_eq!(refusal(&[file("p", &[], 1)]).await, size);
    assert_eq!(refusal(&[file("p", std::slice::from_ref(&blob), 0)]).await, size);
    let other = refusal(&[file("p", std::slice::from_ref(&blob), 2)]).await;
    assert_eq!(other, format!("object `{blob}` is damaged; restore another snapshot"));
    let missing = refusal(&[file("p", &[hex(b"y")], 1)]).await;
    let expected =
        format!("the storage lacks blob `{}` of file `p`; restore another snapshot", hex(b"y"));
    assert_eq!(missing, expected);
}

#[tokio::test]
async fn damaged_objects_are_refused() {
    let (storage, world) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let (folder, target) = (world.path().join("a"), world.path().join("b"));
    fs::create_dir(&folder).unwrap();
    write(&folder.join("file"), "content", 0o600);
    let snapshots = Snapshots::new(Arc::clone(&storage) as Arc<dyn ObjectStore>);
    let id = snapshots.save(&folder, None).await.unwrap().snapshot.id();
    let blob = hex(b"content");
    for (kind, name) in [("blobs", blob), ("manifests", id.to_string())] {
        let path = ObjectPath::from(format!("{kind}/{}/{name}", &name[..2]));
        storage.put(&path, b"CONTENT".to_vec().into()).await.unwrap();
        let damaged = snapshots.restore(&id, &target).await.unwrap_err();
        assert_eq!(
            damaged.to_string(),
            format!("object `{name}` is damaged; restore another snapshot")
        );
        assert!(!target.exists());
    }
}

#[tokio::test]
async fn a_snapshot_that_does_not_exist_is_unknown() {
    let snapshots = Snapshots::new(Arc::new(InMemory::new()));
    let id: SnapshotId = hex(b"x").parse().unwrap();
    let unknown = snapshots.load(&id).await.unwrap_err();
    assert!(matches!(unknown, SnapshotError::UnknownSnapshot(found) if found == id));
    for text in ["", "ab", &hex(b"x").to_uppercase(), &"é".repeat(32)] {
        text.parse::<SnapshotId>().unwrap_err();
    }
}

#[tokio::test]
async fn a_link_or_a_file_is_not_replaced_by_a_folder() {
    let world = tempfile::tempdir().unwrap();
    let (folder, file, link) =
        (world.path().join("a"), world.path().join("file"), world.path().join("link"));
    fs::create_dir(&folder).unwrap();
    write(&file, "file", 0o600);
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    let snapshots = Snapshots::new(Arc::new(InMemory::new()));
    let id = snapshots.save(&folder, None).await.unwrap().snapshot.id();
    let before = tree(world.path());
    for target in [&file, &link] {
        let refused = snapshots.restore(&id, target).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("cannot access `{}`", target.display()));
    }
    assert_eq!(tree(world.path()), before);
}
