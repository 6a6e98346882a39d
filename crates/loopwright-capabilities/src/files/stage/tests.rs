use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

fn world() -> (tempfile::TempDir, WorkspaceRoot) {
    let home = tempfile::tempdir().unwrap();
    let root = WorkspaceRoot::new(home.path());
    (home, root)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_replaced_file_keeps_its_mode_and_its_links() {
    let (home, root) = world();
    let file = home.path().join("run.sh");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o4750)).unwrap();
    symlink("run.sh", home.path().join("link")).unwrap();
    look(&root, "link").unwrap().replace(b"new").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o750, "without set-uid");
    assert!(home.path().join("link").is_symlink());
    assert_eq!(names(home.path()), ["link", "run.sh"]);
}

#[test]
fn extended_attributes_are_kept() {
    let (home, root) = world();
    let path = home.path().join("a");
    fs::write(&path, "old").unwrap();
    let set = rustix::fs::setxattr(&path, "user.origin", b"there", XattrFlags::empty());
    if set.is_err() {
        return;
    }
    look(&root, "a").unwrap().replace(b"new").unwrap();
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(&path, "user.origin", value.as_mut_slice()).unwrap();
    assert_eq!(&value[..length], b"there");
}

#[test]
fn a_file_that_changed_meanwhile_is_not_replaced() {
    let (home, root) = world();
    let path = home.path().join("a");
    fs::write(&path, "old").unwrap();
    let current = look(&root, "a").unwrap();
    fs::write(home.path().join("b"), "theirs").unwrap();
    fs::rename(home.path().join("b"), &path).unwrap();
    assert!(matches!(current.replace(b"ours"), Err(FileError::Changed(_))));
    assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    assert_eq!(names(home.path()), ["a"], "nothing is left behind");
}

#[test]
fn a_file_that_appeared_meanwhile_is_not_replaced() {
    let (home, root) = world();
    let current = look(&root, "a").unwrap();
    fs::write(home.path().join("a"), "theirs").unwrap();
    assert!(matches!(current.replace(b"ours"), Err(FileError::Changed(_))));
    assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "theirs");
    assert_eq!(names(home.path()), ["a"]);
}

#[test]
fn a_target_that_became_a_link_is_not_followed() {
    let (home, root) = world();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::write(home.path().join("a"), "old").unwrap();
    let current = look(&root, "a").unwrap();
    fs::remove_file(home.path().join("a")).unwrap();
    symlink(&secret, home.path().join("a")).unwrap();
    assert!(matches!(current.replace(b"ours"), Err(FileError::Changed(_))));
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
}

#[test]
fn a_synced_write_has_the_same_content() {
    let (home, root) = world();
    let root = root.with_durability(Durability::Synced);
    look(&root, "a").unwrap().replace(b"one").unwrap();
    look(&root, "a").unwrap().replace(b"two").unwrap();
    assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "two");
}

#[test]
fn a_full_disk_changes_nothing() {
    let error = FileError::of("a", io::Error::from(Errno::NOSPC));
    assert_eq!(
        error.to_string(),
        "`a` was not changed: the disk is full; free space, or write less"
    );
    let (home, root) = world();
    fs::write(home.path().join("a"), "old").unwrap();
    drop(look(&root, "a").unwrap().stage(b"new", None, None).unwrap());
    assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "old");
    assert_eq!(names(home.path()), ["a"], "what was staged is gone");
}

#[test]
fn a_replaced_file_keeps_its_owner() {
    use std::os::unix::fs::chown;

    let (home, root) = world();
    let path = home.path().join("a");
    fs::write(&path, "old").unwrap();
    if chown(&path, Some(12_345), Some(23_456)).is_err() {
        // Only an administrator can show it.
        return;
    }
    look(&root, "a").unwrap().replace(b"new").unwrap();
    let metadata = path.metadata().unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (12_345, 23_456));
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}
