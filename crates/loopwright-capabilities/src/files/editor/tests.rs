use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::files::{
    EditFile, EditFileArgs, Grep, GrepArgs, MemoryFileJournal, ReadFile, ReadFileArgs, UndoOutcome,
    WriteFile, WriteFileArgs,
};

/// An editor that saves what it writes.
#[derive(Default)]
struct Editor {
    buffers: Mutex<BTreeMap<PathBuf, String>>,
    /// The calls, in order.
    calls: Mutex<Vec<String>>,
    refuses: bool,
    is_read_only: bool,
}

impl EditorFiles for Editor {
    fn read(&self, path: &Path) -> Option<String> {
        let name = path.file_name().unwrap().to_str().unwrap();
        self.calls.lock().unwrap().push(format!("read {name}"));
        self.buffers.lock().unwrap().get(path).cloned()
    }

    fn write(&self, path: &Path, content: &str) -> io::Result<bool> {
        if self.is_read_only {
            return Ok(false);
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        self.calls.lock().unwrap().push(format!("write {name}"));
        if self.refuses {
            return Err(io::Error::other("the buffer is read-only"));
        }
        fs::write(path, content)?;
        self.buffers.lock().unwrap().insert(path.to_path_buf(), content.to_owned());
        Ok(true)
    }
}

struct World {
    home: tempfile::TempDir,
    editor: Arc<Editor>,
    journal: Arc<MemoryFileJournal>,
    root: WorkspaceRoot,
}

impl World {
    /// A directory with `a.txt`, which has other text in the editor, and `b.txt`.
    fn new(editor: Editor) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("a.txt"), "saved\n").unwrap();
        fs::write(home.path().join("b.txt"), "saved\n").unwrap();
        let (editor, journal) = (Arc::new(editor), Arc::new(MemoryFileJournal::new()));
        editor.buffers.lock().unwrap().insert(home.path().join("a.txt"), "unsaved\n".to_owned());
        let root = WorkspaceRoot::new(home.path())
            .with_journal(Arc::clone(&journal) as Arc<dyn crate::files::FileJournal>)
            .with_editor(Arc::clone(&editor) as Arc<dyn EditorFiles>);
        Self { home, editor, journal, root }
    }

    fn read(&self, path: &str) -> String {
        let args = ReadFileArgs { path: path.into(), ..ReadFileArgs::default() };
        let output = ReadFile::in_dir(self.root.clone()).read(&args, &CancellationToken::new());
        output.unwrap().to_text()
    }

    fn write(&self, path: &str, content: &str) -> Result<(), FileError> {
        let (path, content) = (path.into(), content.into());
        let args = WriteFileArgs { path, content, overwrite: Some(true), create_dirs: None };
        WriteFile::in_dir(self.root.clone()).write(&args).map(drop)
    }

    fn edit(&self, path: &str, old: &str, new: &str) -> Result<(), FileError> {
        let args = EditFileArgs {
            path: path.into(),
            old_string: Some(old.into()),
            new_string: Some(new.into()),
            ..EditFileArgs::default()
        };
        EditFile::in_dir(self.root.clone()).edit(&args).map(drop)
    }

    fn on_disk(&self, path: &str) -> String {
        fs::read_to_string(self.home.path().join(path)).unwrap()
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.editor.calls.lock().unwrap())
    }
}

#[test]
fn tools_read_unsaved_text_and_searches_read_the_disk() {
    let world = World::new(Editor::default());
    assert!(world.read("a.txt").contains("\tunsaved"), "{}", world.read("a.txt"));
    assert!(world.read("b.txt").contains("\tsaved"));
    assert_eq!(world.root.read_text("a.txt", 99).unwrap().unwrap(), "unsaved\n");
    assert_eq!(world.on_disk("a.txt"), "saved\n");
    let args = GrepArgs { pattern: "saved".into(), ..GrepArgs::default() };
    world.calls();
    let found = Grep::in_dir(world.root.clone()).grep(&args, &CancellationToken::new()).unwrap();
    assert!(!found.contains("unsaved") && found.contains("a.txt"), "{found}");
    assert_eq!(world.calls(), Vec::<String>::new());
}

#[test]
fn an_edit_applies_to_unsaved_text_and_is_undone_to_it() {
    let world = World::new(Editor::default());
    world.edit("a.txt", "unsaved", "edited").unwrap();
    assert_eq!(world.calls(), ["read a.txt", "write a.txt"]);
    assert_eq!(world.on_disk("a.txt"), "edited\n");
    let names: Vec<_> = fs::read_dir(world.home.path()).unwrap().flatten().collect();
    assert_eq!(names.len(), 2, "a temporary file is left: {names:?}");
    let undone = world.journal.rewind(&world.root, 0).unwrap();
    let undone: Vec<_> = undone.iter().map(|(change, it)| (&*change.path, it)).collect();
    assert_eq!(undone, [("a.txt", &UndoOutcome::Restored)]);
    assert_eq!(world.on_disk("a.txt"), "unsaved\n");
}

#[test]
fn a_new_file_is_written_through_the_editor_and_its_folder_stays() {
    let world = World::new(Editor::default());
    world.root.write("new/c.txt", b"text").unwrap();
    assert_eq!(
        (world.calls(), world.on_disk("new/c.txt")),
        (vec!["write c.txt".into()], "text".into())
    );
}

#[test]
fn protected_files_and_binary_files_do_not_reach_the_editor() {
    let world = World::new(Editor::default());
    let protected = world.root.write(".git/hooks/post-commit", b"x");
    assert!(matches!(protected, Err(FileError::Protected(_))), "{protected:?}");
    world.root.write("image", &[0, 159, 146, 150]).unwrap();
    world.root.read_bytes("image", 99).unwrap();
    assert_eq!(world.calls(), Vec::<String>::new());
}

#[test]
fn a_refusal_of_the_editor_changes_nothing() {
    let world = World::new(Editor { refuses: true, ..Editor::default() });
    assert!(matches!(world.write("b.txt", "x"), Err(FileError::Io { .. })));
    assert_eq!(world.on_disk("b.txt"), "saved\n");
}

#[test]
fn an_editor_that_only_reads_leaves_writing_to_the_tools() {
    let world = World::new(Editor { is_read_only: true, ..Editor::default() });
    world.edit("a.txt", "unsaved", "edited").unwrap();
    assert_eq!(world.on_disk("a.txt"), "edited\n");
}
