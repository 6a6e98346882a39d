use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use super::*;

fn list(root: &std::path::Path, path: &str, most: usize, offset: i64) -> String {
    let args = ListDirArgs { path: Some(path.to_owned()), offset: Some(offset) };
    let tool = ListDir::in_dir(root).with_max_entries(most);
    tool.list(&args, &CancellationToken::new()).unwrap_or_else(|error| format!("error: {error}"))
}

#[test]
fn directories_come_first_and_case_does_not_count() {
    let home = tempfile::tempdir().unwrap();
    for folder in ["zoo", "Bar"] {
        fs::create_dir(home.path().join(folder)).unwrap();
    }
    for file in ["b.txt", "A.txt", "c.txt"] {
        fs::write(home.path().join(file), "").unwrap();
    }
    symlink("/etc", home.path().join("link")).unwrap();
    let all = "[dir] Bar\n[dir] zoo\n[file] A.txt\n[file] b.txt\n[file] c.txt\n[link] link";
    assert_eq!(list(home.path(), ".", 50, 0), all);
    assert_eq!(
        list(home.path(), ".", 3, 0),
        "[dir] Bar\n[dir] zoo\n[file] A.txt\n[3 more entries; use offset=3 to see them]"
    );
    assert_eq!(list(home.path(), ".", 3, 3), "[file] b.txt\n[file] c.txt\n[link] link");
    assert_eq!(list(home.path(), ".", 3, 9), "(the directory has 6 entries, none after offset 9)");
    assert_eq!(list(home.path(), "zoo", 3, 0), "(empty directory)");
}

#[test]
fn listing_a_path_that_is_no_directory_is_refused() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a"), "").unwrap();
    symlink("/etc", home.path().join("out")).unwrap();
    let error = |path: &str| list(home.path(), path, 5, 0);
    assert!(error("a").contains("is not a directory"));
    assert!(error("b").contains("does not exist"));
    assert!(error("out").contains("is outside the working directory"));
    assert!(error("..").contains("is outside the working directory"));
    assert!(error("/").contains("is outside the working directory"));
}

#[test]
fn a_name_cannot_forge_a_line() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a\n[dir] forged"), "").unwrap();
    fs::write(home.path().join(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    assert_eq!(
        list(home.path(), ".", 5, 0),
        "[file] a\\n[dir] forged\n[file] caf\\xE9 (the name is not UTF-8; to use the file, rename it with a command)"
    );
}
