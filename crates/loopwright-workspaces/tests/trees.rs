//! Random trees, saved, changed, saved and restored.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loopwright_workspaces::object_store::memory::InMemory;
use loopwright_workspaces::{EntryKind, Manifest, Snapshots};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Found, tree, write};

/// Names, also in other scripts and without UTF-8.
const NAMES: [&[u8]; 6] =
    [b"a", b"b.rs", "ключ".as_bytes(), "e\u{301}".as_bytes(), b"\xff\xfe", b"line\nbreak"];

/// Something that happens to a path. What is impossible there does not happen.
#[derive(Clone, Debug)]
enum Step {
    Folder(u32),
    File(u32, Vec<u8>),
    Link(Vec<usize>),
    Remove,
}

fn step() -> impl Strategy<Value = (Vec<usize>, Step)> {
    let path = vec(0..NAMES.len(), 1..4);
    let content = prop_oneof![Just(Vec::new()), vec(0_u8..4, 1..6), vec(any::<u8>(), 100..200)];
    let step = prop_oneof![
        2 => prop::sample::select(&[0o700, 0o755, 0o500][..]).prop_map(Step::Folder),
        4 => (prop::sample::select(&[0o600, 0o644, 0o755, 0o400][..]), content)
            .prop_map(|(mode, content)| Step::File(mode, content)),
        1 => vec(0..NAMES.len(), 1..3).prop_map(Step::Link),
        1 => Just(Step::Remove),
    ];
    (path, step)
}

fn path(names: &[usize]) -> PathBuf {
    names.iter().map(|name| OsStr::from_bytes(NAMES[*name])).collect()
}

fn take(folder: &Path, steps: &[(Vec<usize>, Step)]) {
    for (names, step) in steps {
        let path = folder.join(path(names));
        // Nothing is done through a link.
        let parent = path.parent().unwrap();
        if parent.canonicalize().ok().as_deref() != Some(parent) {
            continue;
        }
        let there = fs::symlink_metadata(&path).ok();
        match step {
            Step::Folder(mode) if there.is_none() && fs::create_dir(&path).is_ok() => {
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            Step::File(mode, content) => {
                if there.as_ref().is_none_or(fs::Metadata::is_file) {
                    let _replaced = fs::remove_file(&path);
                    if fs::write(&path, content).is_ok() {
                        write_mode(&path, *mode);
                    }
                }
            }
            Step::Link(target) => {
                let _made = symlink(self::path(target), &path);
            }
            Step::Remove => match there {
                Some(found) if found.is_dir() => drop(fs::remove_dir_all(&path)),
                _ => drop(fs::remove_file(&path)),
            },
            Step::Folder(_) => {}
        }
    }
}

fn write_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The contents of all files, each once.
fn contents(tree: &BTreeMap<PathBuf, Found>) -> BTreeSet<&[u8]> {
    let files = tree.values().filter_map(|found| match found {
        Found::File(_, _, _, content) if !content.is_empty() => Some(content.as_slice()),
        _ => None,
    });
    files.collect()
}

async fn saved_and_restored(first: &[(Vec<usize>, Step)], second: &[(Vec<usize>, Step)]) {
    let world = tempfile::tempdir().unwrap();
    let world_path = world.path().canonicalize().unwrap();
    let (folder, target) = (world_path.join("from"), world_path.join("to"));
    fs::create_dir(&folder).unwrap();
    let snapshots = Snapshots::new(Arc::new(InMemory::new()));
    take(&folder, first);
    let before = tree(&folder);
    let one = snapshots.save(&folder, None).await.unwrap();
    assert_eq!(one.sent.blobs, contents(&before).len() as u64);
    assert!(one.left_out.is_empty(), "{:?}", one.left_out);
    let restored = snapshots.restore(&one.snapshot.id(), &target).await.unwrap();
    assert_eq!(tree(&target), before);
    take(&folder, second);
    let after = tree(&folder);
    let two = snapshots.save(&folder, Some(&one.snapshot)).await.unwrap();
    let new: u64 = contents(&after).difference(&contents(&before)).count() as u64;
    assert_eq!(two.sent.blobs, new);
    // The same changes on the machine that restored it lead to the same content.
    assert_eq!(restored.id(), one.snapshot.id());
    snapshots.restore(&two.snapshot.id(), &target).await.unwrap();
    assert_eq!(tree(&target), after);
    let again = snapshots.save(&target, None).await.unwrap();
    assert_eq!((again.snapshot.id(), again.sent.blobs), (two.snapshot.id(), 0));
    // The first one is as it was.
    snapshots.restore(&one.snapshot.id(), &target).await.unwrap();
    assert_eq!(tree(&target), before);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, fork: false, ..ProptestConfig::default() })]

    #[test]
    fn random_trees_are_restored_byte_for_byte_and_only_changed_blobs_are_sent(
        first in vec(step(), 0..24),
        second in vec(step(), 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(saved_and_restored(&first, &second));
    }
}

#[tokio::test]
async fn unchanged_files_are_not_read_again_and_changed_ones_are() {
    let (world, snapshots) =
        (tempfile::tempdir().unwrap(), Snapshots::new(Arc::new(InMemory::new())));
    let folder = world.path().join("a");
    fs::create_dir(&folder).unwrap();
    for name in ["one", "two", "three"] {
        write(&folder.join(name), name, 0o600);
    }
    // Until then, another change might have the same time.
    std::thread::sleep(Duration::from_millis(1100));
    let first = snapshots.save(&folder, None).await.unwrap();
    let same = snapshots.save(&folder, Some(&first.snapshot)).await.unwrap();
    // The size is the same, and the time of change is set back: inode and time of status tell.
    let times = fs::metadata(folder.join("two")).unwrap().modified().unwrap();
    write(&folder.join("two"), "TWO", 0o600);
    let file = fs::File::options().write(true).open(folder.join("two")).unwrap();
    file.set_modified(times).unwrap();
    let changed = snapshots.save(&folder, Some(&same.snapshot)).await.unwrap();
    let read = [&first, &same, &changed].map(|it| (it.sent.files_read, it.sent.blobs));
    assert_eq!(read, [(3, 3), (0, 0), (1, 1)]);
    assert_eq!(same.snapshot.id(), first.snapshot.id());
}

#[tokio::test]
async fn a_large_file_is_sent_in_pieces_of_which_only_changed_ones_are_sent_again() {
    let (world, snapshots) =
        (tempfile::tempdir().unwrap(), Snapshots::new(Arc::new(InMemory::new())));
    let (folder, target) = (world.path().join("a"), world.path().join("b"));
    fs::create_dir(&folder).unwrap();
    let mut content: Vec<u8> = (0..20_u32 << 18).flat_map(u32::to_le_bytes).collect();
    write(&folder.join("large"), &content, 0o600);
    let first = snapshots.save(&folder, None).await.unwrap();
    content[9 << 20] ^= 1;
    content.extend_from_slice(b"more");
    write(&folder.join("large"), &content, 0o600);
    let second = snapshots.save(&folder, Some(&first.snapshot)).await.unwrap();
    assert_eq!([first.sent.blobs, second.sent.blobs], [3, 2]);
    assert_eq!([first.sent.bytes, second.sent.bytes], [20 << 20, (12 << 20) + 4]);
    snapshots.restore(&second.snapshot.id(), &target).await.unwrap();
    assert!(fs::read(target.join("large")).unwrap() == content);
}

#[test]
fn a_manifest_is_the_same_for_the_same_entries() {
    let text = r#"{"version":1,"mode":493,"entries":[
        {"path":{"hex":"ff"},"modified":[5,6],"kind":{"link":{"target":"b"}}}]}"#;
    let manifest: Manifest = serde_json::from_str(text).unwrap();
    let entry = &manifest.entries()[0];
    assert_eq!(entry.path.as_os_str().as_bytes(), b"\xff");
    assert_eq!(entry.kind, EntryKind::Link { target: "b".into() });
    let compact: String = text.split_whitespace().collect();
    assert_eq!(serde_json::to_string(&manifest).unwrap(), compact);
}
