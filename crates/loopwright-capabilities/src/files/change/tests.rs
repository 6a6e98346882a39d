use std::fs;

use super::*;
use crate::files::{EditFile, EditFileArgs, WriteFile, WriteFileArgs};

struct Refuses;

impl FileJournal for Refuses {
    fn record(&self, _: &FileChange, _: Option<&[u8]>) -> Result<(), BoxError> {
        Err("the disk of the journal is full".into())
    }
}

fn write(root: &WorkspaceRoot, path: &str, content: &str) {
    let args = WriteFileArgs {
        path: path.to_owned(),
        content: content.to_owned(),
        overwrite: Some(true),
        create_dirs: None,
    };
    WriteFile::in_dir(root.clone()).write(&args).unwrap();
}

fn edit(root: &WorkspaceRoot, path: &str, old: &str, new: &str) {
    let args = EditFileArgs {
        path: path.to_owned(),
        old_string: Some(old.to_owned()),
        new_string: Some(new.to_owned()),
        ..EditFileArgs::default()
    };
    EditFile::in_dir(root.clone()).edit(&args).unwrap();
}

#[test]
fn every_change_is_on_record_and_can_be_undone() {
    let home = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryFileJournal::new());
    let root = WorkspaceRoot::new(home.path()).with_journal(journal.clone());
    fs::write(home.path().join("old"), "one").unwrap();
    write(&root, "new", "a");
    edit(&root, "old", "one", "two");
    write(&root, "old", "three");
    write(&root, "old", "three");
    let told: Vec<(String, Option<u64>, Option<u64>)> = journal
        .changes()
        .into_iter()
        .map(|it| (it.path, it.before.map(|it| it.bytes), it.after.map(|it| it.bytes)))
        .collect();
    let of = |path: &str, before, after| (path.to_owned(), before, Some(after));
    let expect = [of("new", None, 1), of("old", Some(3), 3), of("old", Some(3), 5)];
    assert_eq!(told, expect, "what changes nothing is no change");

    let undone = journal.rewind(&root, 1).unwrap();
    assert_eq!(undone.iter().map(|it| &it.1).collect::<Vec<_>>(), [&UndoOutcome::Restored; 2]);
    assert_eq!(fs::read_to_string(home.path().join("old")).unwrap(), "one");
    assert!(home.path().join("new").exists());
    journal.rewind(&root, 0).unwrap();
    assert!(!home.path().join("new").exists());
    assert_eq!(journal.changes(), []);
}

#[test]
fn a_change_that_others_built_on_is_not_undone() {
    let home = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryFileJournal::new());
    let root = WorkspaceRoot::new(home.path()).with_journal(journal.clone());
    write(&root, "a", "ours");
    write(&root, "b", "ours");
    fs::write(home.path().join("a"), "theirs").unwrap();
    fs::remove_file(home.path().join("b")).unwrap();
    let undone: Vec<UndoOutcome> =
        journal.rewind(&root, 0).unwrap().into_iter().map(|it| it.1).collect();
    assert_eq!(undone, [UndoOutcome::Unchanged, UndoOutcome::Conflict]);
    assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "theirs");
}

#[test]
fn a_change_that_cannot_be_recorded_is_not_made() {
    let home = tempfile::tempdir().unwrap();
    let root = WorkspaceRoot::new(home.path()).with_journal(Arc::new(Refuses));
    let args = WriteFileArgs { path: "a".into(), content: "x".into(), ..WriteFileArgs::default() };
    let error = WriteFile::in_dir(root).write(&args).unwrap_err();
    assert!(matches!(error, FileError::Unrecorded { .. }));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

/// A folder with a file `old` that only its owner reads, and a root that records changes of it.
fn recorded() -> (tempfile::TempDir, Arc<MemoryFileJournal>, WorkspaceRoot) {
    let home = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryFileJournal::new());
    let root = WorkspaceRoot::new(home.path()).with_journal(journal.clone());
    fs::write(home.path().join("old"), "text").unwrap();
    fs::set_permissions(home.path().join("old"), fs::Permissions::from_mode(0o600)).unwrap();
    (home, journal, root)
}

fn outcomes(journal: &MemoryFileJournal, root: &WorkspaceRoot) -> Vec<UndoOutcome> {
    journal.rewind(root, 0).unwrap().into_iter().map(|it| it.1).collect()
}

#[test]
fn a_deleted_file_comes_back_with_content_mode_and_time() {
    let (home, journal, root) = recorded();
    let path = home.path().join("old");
    let before = fs::metadata(&path).unwrap();
    let change = root.remove("old").unwrap();
    assert_eq!(change.changed_file(), ChangedFile::deleted("old"));
    assert_eq!((journal.changes(), path.exists()), (vec![change], false));
    assert_eq!(outcomes(&journal, &root), [UndoOutcome::Restored]);
    let after = fs::metadata(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(after.permissions(), before.permissions());
}

#[test]
fn a_deletion_is_not_undone_over_a_new_file() {
    let (home, journal, root) = recorded();
    root.remove("old").unwrap();
    fs::write(home.path().join("old"), "new").unwrap();
    assert_eq!(outcomes(&journal, &root), [UndoOutcome::Conflict]);
    assert_eq!(fs::read_to_string(home.path().join("old")).unwrap(), "new");
    assert!(matches!(root.remove("missing"), Err(FileError::Missing(_))));
    assert!(matches!(
        root.remove(".git/hooks/x"),
        Err(FileError::Protected(_) | FileError::Missing(_))
    ));
}

#[test]
fn a_moved_file_goes_back() {
    let (home, journal, root) = recorded();
    let change = root.rename("old", "folder/new").unwrap();
    assert_eq!(change.changed_file(), ChangedFile::moved("old", "folder/new"));
    let at = |path: &str| fs::read_to_string(home.path().join(path)).ok();
    assert_eq!((at("old"), at("folder/new")), (None, Some("text".to_owned())));
    assert_eq!(outcomes(&journal, &root), [UndoOutcome::Restored]);
    assert_eq!((at("old"), at("folder/new")), (Some("text".to_owned()), None));
    assert_eq!(change.undo(&root, None).unwrap(), UndoOutcome::Unchanged);
}

#[test]
fn a_move_is_not_undone_over_other_changes() {
    let (home, journal, root) = recorded();
    root.rename("old", "new").unwrap();
    fs::write(home.path().join("old"), "theirs").unwrap();
    assert_eq!(outcomes(&journal, &root), [UndoOutcome::Conflict]);
    root.remove("old").unwrap();
    let move_back = root.rename("new", "old").unwrap();
    fs::write(home.path().join("old"), "theirs").unwrap();
    assert_eq!(move_back.undo(&root, None).unwrap(), UndoOutcome::Conflict);
}

#[test]
fn a_move_replaces_no_file() {
    let (home, journal, root) = recorded();
    fs::write(home.path().join("taken"), "theirs").unwrap();
    assert!(matches!(root.rename("old", "taken"), Err(FileError::Exists(_))));
    assert!(matches!(root.rename("missing", "b"), Err(FileError::Missing(_))));
    assert!(matches!(root.rename("old", ".envrc"), Err(FileError::Protected(_))));
    assert!(matches!(root.rename("old", "../old"), Err(FileError::Outside(_))));
    assert_eq!(journal.changes(), []);
    assert_eq!(fs::read_to_string(home.path().join("taken")).unwrap(), "theirs");
}

#[test]
fn a_written_file_is_recorded_once() {
    let (home, journal, root) = recorded();
    let change = root.write("folder/new", b"x").unwrap().unwrap();
    assert_eq!(change.changed_file(), ChangedFile::created("folder/new"));
    assert_eq!(root.write("folder/new", b"x").unwrap(), None);
    let change = root.write("old", b"x").unwrap().unwrap();
    assert_eq!(change.changed_file(), ChangedFile::modified("old"));
    assert_eq!(outcomes(&journal, &root), [UndoOutcome::Restored, UndoOutcome::Removed]);
    assert_eq!(fs::read_to_string(home.path().join("old")).unwrap(), "text");
    assert!(!home.path().join("folder/new").exists());
}

#[test]
fn a_change_is_stored_without_what_it_lacks() {
    let version = r#"{"sha256":"aa","bytes":1,"mode":420}"#;
    let read = |text: &str| serde_json::from_str::<FileChange>(text).unwrap();
    let created = format!(r#"{{"path":"a","after":{version}}}"#);
    assert_eq!(read(&created).changed_file(), ChangedFile::created("a"));
    let deleted = format!(r#"{{"path":"a","before":{version}}}"#);
    assert_eq!(read(&deleted).changed_file(), ChangedFile::deleted("a"));
    let moved = format!(r#"{{"path":"b","from":"a","before":{version},"after":{version}}}"#);
    for text in [created, deleted, moved] {
        assert_eq!(serde_json::to_string(&read(&text)).unwrap(), text);
    }
}

#[test]
fn a_resolved_path_has_no_links() {
    let (home, _, root) = recorded();
    fs::create_dir(home.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("../old", home.path().join("folder/link")).unwrap();
    let resolved = |path: &str| root.resolve(path).ok();
    assert_eq!(resolved("folder/link").as_deref(), Some("old"));
    assert_eq!(resolved("folder/../new").as_deref(), Some("new"));
    assert_eq!(resolved(home.path().join("old").to_str().unwrap()).as_deref(), Some("old"));
    assert_eq!((resolved("missing/new"), resolved("../old")), (None, None));
}
