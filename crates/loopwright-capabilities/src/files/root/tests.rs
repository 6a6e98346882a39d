use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::files::{
    Grep, GrepArgs, ListDir, ListDirArgs, MemoryFileJournal, SearchFiles, SearchFilesArgs,
    UndoOutcome, WriteFile, WriteFileArgs,
};

/// A directory, a folder beside it that is added, and one that is not.
struct World {
    home: tempfile::TempDir,
    journal: Arc<MemoryFileJournal>,
    root: WorkspaceRoot,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("work/a.txt", "a");
        write("docs/b.txt", "b");
        write("docs/deep/c.txt", "c");
        write("docs-evil/x", "secret");
        write("secret", "secret");
        let link = |to: &str, name: &str| symlink(to, home.path().join(name)).unwrap();
        link("../docs/b.txt", "work/to_docs");
        link("../secret", "work/to_secret");
        link("../secret", "docs/to_secret");
        link("../work/a.txt", "docs/to_work");
        link("docs", "by_link");
        let journal = Arc::new(MemoryFileJournal::new());
        let root = WorkspaceRoot::new(home.path().join("work"))
            .with_folder(home.path().join("docs"))
            .with_journal(journal.clone());
        Self { home, journal, root }
    }

    fn path(&self, path: &str) -> String {
        self.home.path().join(path).to_str().unwrap().to_owned()
    }

    fn write(&self, path: &str) -> Result<(), FileError> {
        let args = WriteFileArgs {
            path: path.to_owned(),
            content: "new".to_owned(),
            overwrite: Some(true),
            create_dirs: Some(true),
        };
        WriteFile::in_dir(self.root.clone()).write(&args).map(drop)
    }

    fn reads(&self, path: &str) -> String {
        match self.root.read_text(path, 100) {
            Ok(text) => text.unwrap(),
            Err(FileError::Outside(_)) => "outside".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

#[test]
fn files_of_an_added_folder_are_reached_and_nothing_else_beside_it() {
    let world = World::new();
    let check = |path: &str, expect: &str| assert_eq!(world.reads(path), expect, "{path}");
    check("a.txt", "a");
    check(&world.path("docs/b.txt"), "b");
    check("../docs/b.txt", "b");
    check("../docs/deep/../b.txt", "b");
    check("../docs/../work/a.txt", "a");
    check(&world.path("docs/../work/a.txt"), "a");
    check("to_docs", "b");
    check(&world.path("docs/to_work"), "a");
    for path in [
        "../secret",
        "../docs/../secret",
        "../docs-evil/x",
        "../docs-evil/../docs-evil/x",
        "../by_link/b.txt",
        "../../docs/b.txt",
        "to_secret",
        "..",
        "/",
        "/etc/passwd",
    ] {
        check(path, "outside");
    }
    check(&world.path("docs/to_secret"), "outside");
    check(&world.path("docs/../secret"), "outside");
    check(&world.path("docs-evil/x"), "outside");
    check(&world.path("by_link/b.txt"), "outside");
}

#[test]
fn a_directory_below_an_added_folder_keeps_its_paths() {
    let world = World::new();
    let root = WorkspaceRoot::new(world.path("work")).with_folder(world.home.path());
    let resolved = |path: &str| root.resolve(path).unwrap();
    assert_eq!(resolved(&world.path("work/a.txt")), "a.txt");
    assert_eq!(resolved("../work/a.txt"), "a.txt");
    assert_eq!(resolved("../secret"), world.path("secret"));
    assert_eq!(world.home.path().join("secret"), PathBuf::from(resolved("to_secret")));
}

#[test]
fn a_change_in_an_added_folder_is_protected_recorded_and_undone() {
    let world = World::new();
    for path in ["../docs/.envrc", "../docs/.git/hooks/post-checkout", "../docs/deep/.mcp.json"] {
        let refused = world.write(path);
        assert!(matches!(refused, Err(FileError::Protected(_))), "{path}: {refused:?}");
    }
    world.write("../docs/b.txt").unwrap();
    world.write(&world.path("docs/made/d.txt")).unwrap();
    let changes = world.journal.changes();
    let told: Vec<_> = changes.iter().map(|it| (it.path.clone(), it.folders.clone())).collect();
    let folders = || vec![world.path("docs")];
    let expect =
        [(world.path("docs/b.txt"), folders()), (world.path("docs/made/d.txt"), folders())];
    assert_eq!(told, expect);

    // A rewind of another process knows the directory alone.
    let alone = WorkspaceRoot::new(world.path("work"));
    let undone = world.journal.rewind(&alone, 0).unwrap();
    let came: Vec<_> = undone.iter().map(|it| &it.1).collect();
    assert_eq!(came, [&UndoOutcome::Removed, &UndoOutcome::Restored]);
    assert_eq!(fs::read_to_string(world.path("docs/b.txt")).unwrap(), "b");
    assert!(!PathBuf::from(world.path("docs/made/d.txt")).exists());
}

#[test]
fn added_folders_are_listed_and_searched_where_a_call_names_them() {
    let world = World::new();
    let stop = CancellationToken::new();
    let docs = world.path("docs");
    let list = ListDirArgs { path: Some(docs.clone()), offset: None };
    let listed = ListDir::in_dir(world.root.clone()).list(&list, &stop).unwrap();
    assert!(listed.contains("b.txt") && listed.contains("deep"), "{listed}");

    let mut grep: GrepArgs =
        serde_json::from_value(serde_json::json!({ "pattern": "^c$", "path": docs })).unwrap();
    for glob in [None, Some("*.txt"), Some("deep/*.txt")] {
        grep.glob = glob.map(str::to_owned);
        let found = Grep::in_dir(world.root.clone()).grep(&grep, &stop).unwrap();
        assert!(found.contains(&format!("{docs}/deep/c.txt:1:c")), "{glob:?}: {found}");
    }

    let search = |pattern: String| {
        let args = serde_json::from_value::<SearchFilesArgs>(serde_json::json!({
            "pattern": pattern
        }));
        SearchFiles::in_dir(world.root.clone()).search(&args.unwrap(), &stop)
    };
    let all = search(format!("{docs}/**/*.txt")).unwrap();
    assert!(all.contains("deep/c.txt") && all.contains("b.txt"), "{all}");
    assert!(!search("*.txt".to_owned()).unwrap().contains("b.txt"));
    let other = search(format!("{}/**", world.path("docs-evil")));
    assert!(matches!(other, Err(FileError::Outside(_))), "{other:?}");
}

#[test]
fn a_hidden_path_is_not_read_listed_or_written_and_an_absolute_protection_holds_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
    for file in ["own/a", "other/own/a", "set/b", "other/set/b"] {
        std::fs::create_dir_all(at(file).parent().unwrap()).unwrap();
        std::fs::write(at(file), "old").unwrap();
    }
    let root = WorkspaceRoot::new(folder.path())
        .hide(at("own"), "it is private")
        .protect(at("set/b").to_str().unwrap());
    let text = |path: &str| root.read_text(path, 9);
    let private = "`own/a` is not permitted (it is private); continue without it";
    assert_eq!(text("own/a").unwrap_err().to_string(), private);
    assert_eq!(text("other/own/a").unwrap().as_deref(), Some("old"));
    assert_eq!(text("set/b").unwrap().as_deref(), Some("old"));
    assert!(matches!(root.write("own/a", b"new"), Err(FileError::NotPermitted { .. })));
    assert!(matches!(root.write("own/new", b"new"), Err(FileError::NotPermitted { .. })));
    assert!(matches!(root.write("set/b", b"new"), Err(FileError::Protected(_))));
    root.write("other/set/b", b"new").unwrap();
    root.write("other/own/a", b"new").unwrap();
    assert_eq!(std::fs::read(at("own/a")).unwrap(), b"old");
}

#[test]
fn a_path_in_a_copy_is_hidden_if_the_same_path_in_the_original_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
    for file in ["own/a", "b", "set/c", "copies/one/own/a", "copies/one/b", "copies/one/set/c"] {
        std::fs::create_dir_all(at(file).parent().unwrap()).unwrap();
        std::fs::write(at(file), "old").unwrap();
    }
    std::fs::create_dir_all(at("more")).unwrap();
    let root = WorkspaceRoot::new(folder.path())
        .hide(at("own"), "it is private")
        .protect(at("set/c").to_str().unwrap())
        .with_folder(at("set"))
        .with_folder(at("more"))
        .with_copies(at("copies"), at(""));
    let copy = root.clone().hide(at("copies"), "it is private");
    let copy = copy.in_copy(at("copies/one"), &at(""), &at("copies/one"));
    for (root, prefix) in [(&root, "copies/one/"), (&copy, "")] {
        let text = |path: &str| root.read_text(&format!("{prefix}{path}"), 9);
        assert!(matches!(text("own/a"), Err(FileError::NotPermitted { .. })), "{prefix}");
        assert_eq!(text("b").unwrap().as_deref(), Some("old"));
    }
    assert_eq!(copy.read_text("set/c", 9).unwrap().as_deref(), Some("old"));
    assert!(matches!(copy.write("set/c", b"new"), Err(FileError::Protected(_))));
    assert_eq!(copy.folders().collect::<Vec<_>>(), [at("copies/one/set")]);
}

#[test]
fn nothing_in_a_read_only_directory_is_changed_except_in_folders_that_were_added() {
    let mut world = World::new();
    let open = world.path("work/open");
    world.root = world.root.clone().with_folder(open).with_read_only_directory("ask");
    fs::create_dir(world.home.path().join("work/open")).unwrap();
    for path in ["a.txt", "new.txt", "new/deep.txt", "open/../a.txt", &world.path("work/a.txt")] {
        let error = world.write(path).unwrap_err().to_string();
        assert_eq!(error, format!("`{path}` was not changed: ask"));
    }
    assert_eq!(fs::read_to_string(world.path("work/a.txt")).unwrap(), "a");
    assert!(!Path::new(&world.path("work/new.txt")).exists());
    assert!(!Path::new(&world.path("work/new")).exists());
    let (by_path, below) = (world.path("docs/b.txt"), world.path("work/open/b.txt"));
    for path in ["../docs/deep/c.txt", "to_docs", "open/a.txt", &by_path, &below] {
        world.write(path).unwrap();
    }
    assert_eq!(fs::read_to_string(by_path).unwrap(), "new");
}
