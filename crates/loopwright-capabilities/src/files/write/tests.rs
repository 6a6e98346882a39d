use std::fs;

use loopwright_core::{ChangedFile, FilesChanged};

use super::*;

fn world() -> (tempfile::TempDir, WriteFile) {
    let home = tempfile::tempdir().unwrap();
    let tool = WriteFile::in_dir(home.path());
    (home, tool)
}

fn args(path: &str, content: &str) -> WriteFileArgs {
    WriteFileArgs { path: path.to_owned(), content: content.to_owned(), ..WriteFileArgs::default() }
}

fn said(tool: &WriteFile, args: &WriteFileArgs) -> String {
    tool.write(args).map_or_else(|error| format!("error: {error}"), |it| it.to_text())
}

#[test]
fn a_new_file_is_written_and_counted() {
    let (home, tool) = world();
    let text = said(&tool, &args("a.txt", "one\ntwo\nthree"));
    assert_eq!(text, "Successfully wrote a.txt (13 bytes, 3 lines, streamed atomically).");
    assert_eq!(fs::read_to_string(home.path().join("a.txt")).unwrap(), "one\ntwo\nthree");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_exists_is_replaced_only_when_told() {
    let (home, tool) = world();
    said(&tool, &args("a", "old"));
    assert_eq!(said(&tool, &args("a", "old")), "No change: a already has exactly this content.");
    let refused = said(&tool, &args("a", "new"));
    assert!(
        refused.starts_with("error: `a` was not changed: it exists with different content"),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "old");
    let replace = WriteFileArgs { overwrite: Some(true), ..args("a", "new") };
    assert!(said(&tool, &replace).starts_with("Successfully wrote a (3 bytes"));
    assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "new");
}

#[test]
fn a_directory_is_made_only_when_told() {
    let (home, tool) = world();
    let refused = said(&tool, &args("x/y/a", "text"));
    assert!(refused.contains("its directory does not exist"), "{refused}");
    let create = WriteFileArgs { create_dirs: Some(true), ..args("x/y/a", "text") };
    assert!(said(&tool, &create).starts_with("Successfully wrote x/y/a"));
    assert_eq!(fs::read_to_string(home.path().join("x/y/a")).unwrap(), "text");
}

struct Refusing;

impl crate::files::FileJournal for Refusing {
    fn record(&self, _: &FileChange, _: Option<&[u8]>) -> Result<(), BoxError> {
        Err("the disk is full".into())
    }
}

#[test]
fn a_write_that_fails_leaves_no_directory_behind() {
    let (home, _) = world();
    fs::create_dir(home.path().join("there")).unwrap();
    let tool = WriteFile::in_dir(
        WorkspaceRoot::new(home.path()).with_journal(std::sync::Arc::new(Refusing)),
    );
    for path in ["x/y/a", "there/y/z/a", "x/../a", "x/.git/hooks/a", "x/y/.", "new/there/"] {
        let create = WriteFileArgs { create_dirs: Some(true), ..args(path, "text") };
        assert!(said(&tool, &create).starts_with("error: "), "{path}");
        let left: Vec<_> =
            fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!((path, left), (path, vec!["there".into()]));
        assert_eq!(fs::read_dir(home.path().join("there")).unwrap().count(), 0, "{path}");
    }
}

#[test]
fn a_text_is_read_whole_or_not_at_all_however_long_its_file_says_it_is() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a"), "12345").unwrap();
    fs::write(home.path().join("b"), b"\xff").unwrap();
    let root = WorkspaceRoot::new(home.path());
    assert_eq!(root.read_text("a", 5).unwrap(), Some("12345".to_owned()));
    assert_eq!(root.read_text("a", 4).unwrap(), None);
    assert_eq!(root.read_text("b", 4).unwrap(), None);
    // It says that it is empty, and has no end.
    let endless = WorkspaceRoot::new("/proc/self").read_text("pagemap", 1 << 16);
    assert!(!matches!(endless, Ok(Some(_))), "{endless:?}");
}

#[test]
fn programs_are_told_what_was_changed() {
    let (_home, tool) = world();
    let output = tool.write(&args("a", "x")).unwrap();
    assert_eq!(output.files, ChangedFile::created("a").into());
    let change: FileChange = serde_json::from_value((*output.value.unwrap()).clone()).unwrap();
    let after = change.after.map(|it| it.bytes);
    assert_eq!((change.path.as_str(), change.before, after), ("a", None, Some(1)));
    let replace = WriteFileArgs { overwrite: Some(true), ..args("a", "y") };
    assert_eq!(tool.write(&replace).unwrap().files, ChangedFile::modified("a").into());
    let same = tool.write(&replace).unwrap();
    assert_eq!(same.files, FilesChanged::None, "what changes nothing is no change");
    assert_eq!(tool.writes(&replace), Writes::path("a"));
}

#[test]
fn other_names_of_a_replaced_file_are_told() {
    let (home, tool) = world();
    fs::write(home.path().join("a"), "old").unwrap();
    fs::hard_link(home.path().join("a"), home.path().join("b")).unwrap();
    let replace = WriteFileArgs { overwrite: Some(true), ..args("a", "new") };
    assert!(said(&tool, &replace).ends_with("which keep the previous content."));
    assert_eq!(fs::read_to_string(home.path().join("b")).unwrap(), "old");
}

#[test]
fn too_much_is_not_written() {
    let (home, tool) = world();
    let tool = tool.with_max_bytes(3);
    assert_eq!(
        said(&tool, &args("a", "four")),
        "error: `a` is 4 bytes, more than the limit of 3 bytes; write less, or split the content into several files"
    );
    assert!(!home.path().join("a").exists());
}

/// How often a file is opened while something is done.
#[cfg(target_os = "linux")]
fn opened(path: &std::path::Path, done: impl FnOnce()) -> usize {
    use rustix::fs::inotify;
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    // Of two events that are the same and follow each other, the kernel keeps one.
    let both = inotify::WatchFlags::OPEN | inotify::WatchFlags::CLOSE_NOWRITE;
    inotify::add_watch(&watch, path, both).unwrap();
    done();
    let mut space = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut space);
    let events = std::iter::from_fn(|| events.next().ok().map(|event| event.events()));
    events.filter(|event| event.contains(inotify::ReadFlags::OPEN)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn the_settings_of_git_are_read_once_a_write() {
    let (home, tool) = world();
    fs::create_dir(home.path().join(".git")).unwrap();
    let settings = home.path().join(".git/config");
    fs::write(&settings, "[core]\n\thooksPath = ci\n").unwrap();
    let create = |path| WriteFileArgs { create_dirs: Some(true), ..args(path, "text") };
    for (path, begin) in [("a", "Successfully"), ("x/y/z", "Successfully"), ("ci/b", "error: ")] {
        let count = opened(&settings, || {
            let text = said(&tool, &create(path));
            assert!(text.starts_with(begin), "{text}");
        });
        assert_eq!(count, 1, "{path}");
    }
}
