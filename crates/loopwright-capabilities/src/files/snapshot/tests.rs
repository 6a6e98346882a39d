use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::files::{MemoryFileJournal, UndoOutcome, WorkspaceRoot};

fn recorded() -> (TempDir, Arc<MemoryFileJournal>, WorkspaceRoot) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a"), "before").unwrap();
    let journal = Arc::new(MemoryFileJournal::new());
    let root = WorkspaceRoot::new(home.path()).with_journal(journal.clone());
    (home, journal, root)
}

fn undone(journal: &MemoryFileJournal, root: &WorkspaceRoot) -> Vec<(String, UndoOutcome)> {
    let undone = journal.rewind(root, 0).unwrap();
    undone.into_iter().map(|(change, came)| (change.path, came)).collect()
}

#[test]
fn a_file_that_is_formatted_after_an_edit_is_undone_to_what_it_was_before() {
    let (home, journal, root) = recorded();
    let at = home.path();
    root.write("a", b"edited").unwrap();
    root.write("new", b"made").unwrap();
    let snapshot = root.snapshot(["a", "new", "folder/none"]);
    fs::write(at.join("a"), "edited, formatted").unwrap();
    fs::write(at.join("new"), "made, formatted").unwrap();
    let changes = snapshot.record_changes().unwrap();
    let paths: Vec<&str> = changes.iter().map(|it| &*it.path).collect();
    assert_eq!(paths, ["a", "new"]);
    let expected = [
        ("new", UndoOutcome::Restored),
        ("a", UndoOutcome::Restored),
        ("new", UndoOutcome::Removed),
        ("a", UndoOutcome::Restored),
    ];
    assert_eq!(undone(&journal, &root), expected.map(|(path, came)| (path.to_owned(), came)));
    assert_eq!(fs::read_to_string(at.join("a")).unwrap(), "before");
    assert!(!at.join("new").exists());
}

#[test]
fn a_later_change_by_the_user_is_still_a_conflict() {
    let (home, journal, root) = recorded();
    root.write("a", b"edited").unwrap();
    let snapshot = root.snapshot(["a"]);
    fs::write(home.path().join("a"), "edited, formatted").unwrap();
    assert_eq!(snapshot.record_changes().unwrap().len(), 1);
    fs::write(home.path().join("a"), "mine").unwrap();
    let conflict = ("a".to_owned(), UndoOutcome::Conflict);
    assert_eq!(undone(&journal, &root), [conflict.clone(), conflict]);
    assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "mine");
}

#[test]
fn a_change_of_time_and_mode_alone_is_recorded_and_undone() {
    let (home, journal, root) = recorded();
    let path = home.path().join("a");
    let before = fs::metadata(&path).unwrap();
    let snapshot = root.snapshot(["a"]);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(9)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(snapshot.record_changes().unwrap().len(), 1);
    assert_eq!(undone(&journal, &root), [("a".to_owned(), UndoOutcome::Restored)]);
    let after = fs::metadata(&path).unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(after.permissions(), before.permissions());
}

#[test]
fn a_change_of_attributes_that_is_undone_already_is_unchanged() {
    let (home, journal, root) = recorded();
    let path = home.path().join("a");
    let restored = |expected: [UndoOutcome; 2]| {
        let change = journal.changes().pop().unwrap();
        let undo = || change.undo(&root, Some(b"before".as_slice())).unwrap();
        assert_eq!([undo(), undo()], expected);
    };
    let snapshot = root.snapshot(["a"]);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(9)).unwrap();
    assert_eq!(snapshot.record_changes().unwrap().len(), 1);
    restored([UndoOutcome::Restored, UndoOutcome::Unchanged]);
    let snapshot = root.snapshot(["a"]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(snapshot.record_changes().unwrap().len(), 1);
    restored([UndoOutcome::Restored, UndoOutcome::Unchanged]);
}

#[test]
fn what_nothing_changes_is_not_recorded() {
    let (home, journal, root) = recorded();
    assert_eq!(root.snapshot(["a", "missing"]).record_changes().unwrap(), []);
    assert_eq!(journal.changes(), []);
    let without = WorkspaceRoot::new(home.path());
    let snapshot = without.snapshot(["a"]);
    fs::write(home.path().join("a"), "changed").unwrap();
    assert_eq!(snapshot.record_changes().unwrap(), []);
}
