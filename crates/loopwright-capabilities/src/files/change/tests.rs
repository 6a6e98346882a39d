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
    let root = WorkspaceRoot::new(home.path()).journal(journal.clone());
    fs::write(home.path().join("old"), "one").unwrap();
    write(&root, "new", "a");
    edit(&root, "old", "one", "two");
    write(&root, "old", "three");
    write(&root, "old", "three");
    let told: Vec<(String, Option<u64>, u64)> = journal
        .changes()
        .into_iter()
        .map(|it| (it.path, it.before.map(|it| it.bytes), it.after.bytes))
        .collect();
    let of = |path: &str, before, after| (path.to_owned(), before, after);
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
    let root = WorkspaceRoot::new(home.path()).journal(journal.clone());
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
fn what_cannot_be_put_on_record_is_not_done() {
    let home = tempfile::tempdir().unwrap();
    let root = WorkspaceRoot::new(home.path()).journal(Arc::new(Refuses));
    let args = WriteFileArgs { path: "a".into(), content: "x".into(), ..WriteFileArgs::default() };
    let error = WriteFile::in_dir(root).write(&args).unwrap_err();
    assert!(matches!(error, FileError::Unrecorded { .. }));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
