use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn sweep_one(root: &Path, path: &str) -> Vec<String> {
    sweep(&[Absent { root: root.into(), path: path.into() }])
}

#[test]
fn what_did_not_appear_is_not_mentioned() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(sweep_one(folder.path(), ".git/hooks"), [""; 0]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_appeared_is_kept_in_another_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".envrc"), "evil").unwrap();
    let notes = sweep_one(folder.path(), ".envrc");
    assert!(
        notes[0]
            .starts_with(".envrc is protected: the new one was moved to .loopwright-quarantine/"),
        "{notes:?}"
    );
    assert!(!folder.path().join(".envrc").exists());
    let kept = fs::read_dir(folder.path().join(FOLDER)).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read_to_string(kept.path()).unwrap(), "evil");
}

#[test]
fn a_link_in_place_of_the_quarantine_is_not_followed() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(home.path(), folder.path().join(FOLDER)).unwrap();
    fs::write(folder.path().join(".envrc"), "evil").unwrap();
    let notes = sweep_one(folder.path(), ".envrc");
    assert!(notes[0].contains("moved to .envrc.quarantined-"), "{notes:?}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_link_on_the_way_is_moved_away_and_not_followed() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(home.path().join("hooks"), "mine").unwrap();
    symlink(home.path(), folder.path().join(".git")).unwrap();
    let notes = sweep_one(folder.path(), ".git/hooks");
    assert!(notes[0].contains("was moved to"), "{notes:?}");
    assert!(folder.path().join(".git").symlink_metadata().is_err());
    assert_eq!(fs::read_to_string(home.path().join("hooks")).unwrap(), "mine");
}

#[test]
fn a_link_itself_is_moved_like_a_file() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(home.path(), folder.path().join(".claude")).unwrap();
    assert_eq!(sweep_one(folder.path(), ".claude").len(), 1);
    assert!(folder.path().join(".claude").symlink_metadata().is_err());
    assert!(home.path().exists());
}
