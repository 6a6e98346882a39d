use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;

use super::*;

/// A directory with a secret beside it, and links of all kinds.
fn world() -> (tempfile::TempDir, WorkspaceRoot) {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("root");
    fs::create_dir_all(base.join("sub/deep")).unwrap();
    fs::write(base.join("a.txt"), "a").unwrap();
    fs::write(base.join("sub/b.txt"), "b").unwrap();
    fs::write(home.path().join("secret"), "secret").unwrap();
    fs::create_dir(home.path().join("root-evil")).unwrap();
    fs::write(home.path().join("root-evil/x"), "secret").unwrap();
    let link = |to: &str, name: &str| symlink(to, base.join(name)).unwrap();
    link("../secret", "out");
    link("../nothing", "dangling_out");
    link("sub/new.txt", "dangling_in");
    link("a.txt", "in");
    link("sub", "folder");
    link("..", "up");
    link("../../a.txt", "sub/deep/back");
    link("/etc/passwd", "absolute_out");
    link(base.join("sub").to_str().unwrap(), "absolute_in");
    link("loop_b", "loop_a");
    link("loop_a", "loop_b");
    let root = WorkspaceRoot::new(&base);
    (home, root)
}

fn said(root: &WorkspaceRoot, path: &str) -> String {
    match root.read(path) {
        Ok((mut file, _, real)) => {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            format!("{}: {text}", real.display())
        }
        Err(FileError::Outside(_)) => "outside".to_owned(),
        Err(FileError::Missing(_)) => "missing".to_owned(),
        Err(FileError::LinkLoop(_)) => "loop".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_path_that_stays_inside_is_followed() {
    let (home, root) = world();
    let check = |path: &str, expect: &str| assert_eq!(said(&root, path), expect, "{path}");
    check("a.txt", "a.txt: a");
    check("./sub/../a.txt", "a.txt: a");
    check("sub/deep/../../a.txt", "a.txt: a");
    check("in", "a.txt: a");
    check("folder/b.txt", "sub/b.txt: b");
    check("folder/../a.txt", "a.txt: a");
    check("sub/deep/back", "a.txt: a");
    check("absolute_in/b.txt", "sub/b.txt: b");
    check(home.path().join("root/a.txt").to_str().unwrap(), "a.txt: a");
    check("nothing", "missing");
    check("dangling_in", "missing");
    check("nothing/a.txt", "missing");
    check("loop_a", "loop");
    check("sub", "`sub` is a directory, not a regular file; list it with `list_dir`");
    check(
        "a.txt/b",
        "`a.txt/b` is not a directory; pass a directory, or read the file with `read_file`",
    );
}

#[test]
fn a_path_that_leads_out_is_refused() {
    let (home, root) = world();
    let evil = home.path().join("root-evil/x");
    for path in [
        "..",
        "../secret",
        "../root/a.txt",
        "../nothing",
        "sub/../../secret",
        "out",
        "up/secret",
        "up/root/a.txt",
        "absolute_out",
        "/etc/passwd",
        "/no/such/file",
        "/",
        evil.to_str().unwrap(),
    ] {
        assert_eq!(said(&root, path), "outside", "{path}");
    }
    assert_eq!(said(&root, "dangling_out"), "outside", "not even what is missing is told");
    for path in ["", "a\0b"] {
        assert!(matches!(root.read(path), Err(FileError::NotAPath(_))), "{path:?}");
    }
}

#[test]
fn devices_and_pipes_are_neither_read_nor_written() {
    let (home, root) = world();
    let fifo = home.path().join("root/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    assert_eq!(said(&root, "pipe"), "`pipe` is a named pipe, not a regular file; name a file");
    let refused = root.target("pipe", Parents::Expect).unwrap_err();
    assert!(matches!(refused, FileError::NotAFile { kind: "a named pipe", .. }));
    let socket = home.path().join("root/socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(said(&root, "socket"), "`socket` is a socket, not a regular file; name a file");
}

#[test]
fn a_target_is_where_links_lead_and_not_protected() {
    let (home, root) = world();
    let check = |path: &str, expect: &str| {
        let target = root.target(path, Parents::Expect).unwrap();
        assert_eq!(target.path(), Path::new(expect), "{path}");
    };
    check("new", "new");
    check("folder/new", "sub/new");
    check("dangling_in", "sub/new.txt");
    fs::create_dir_all(home.path().join("root/.git/hooks")).unwrap();
    symlink(".git/hooks", home.path().join("root/innocent")).unwrap();
    for path in [".git/hooks/pre-commit", "innocent/pre-commit", ".envrc", ".claude/x/y"] {
        let refused = root.target(path, Parents::Create).unwrap_err();
        assert!(matches!(refused, FileError::Protected(_)), "{path}: {refused}");
    }
    assert!(!home.path().join("root/.claude").exists(), "nothing is made on the way");
}

#[test]
fn directories_are_made_where_that_is_asked_for() {
    let (home, root) = world();
    assert!(matches!(root.target("x/y/z", Parents::Expect), Err(FileError::Missing(_))));
    let target = root.target("folder/x/y/z", Parents::Create).unwrap();
    assert_eq!(target.path(), Path::new("sub/x/y/z"));
    assert!(home.path().join("root/sub/x/y").is_dir());
    assert!(matches!(root.target("q/../../z", Parents::Create), Err(FileError::Missing(_))));
    assert!(!home.path().join("root/q").exists());
    assert!(matches!(root.target("up/q/z", Parents::Create), Err(FileError::Outside(_))));
    assert!(!home.path().join("q").exists());
}

#[test]
fn a_path_that_is_too_deep_opens_no_more_than_so_many_directories() {
    let (home, root) = world();
    symlink(".", home.path().join("root/here")).unwrap();
    assert_eq!(said(&root, &format!("{}a.txt", "here/".repeat(40))), "a.txt: a");
    assert_eq!(said(&root, &format!("{}a.txt", "here/".repeat(41))), "loop");
    fs::create_dir_all(home.path().join("root").join("d/".repeat(300))).unwrap();
    assert_eq!(
        said(&root, &format!("{}a", "d/".repeat(257))),
        format!("`{}a` cannot be used", "d/".repeat(257))
    );
    assert_eq!(said(&root, &format!("{}a", "d/".repeat(256))), "missing");
}

#[test]
fn a_root_that_is_not_there_is_named() {
    let error = WorkspaceRoot::new("/no/such/root").read("a").unwrap_err();
    assert_eq!(error.to_string(), "the working directory `/no/such/root` cannot be opened");
}

#[test]
fn an_absolute_link_leads_from_the_root_wherever_it_stands() {
    let (home, root) = world();
    let base = home.path().join("root");
    symlink(base.join("a.txt"), base.join("sub/deep/absolute")).unwrap();
    symlink(base.join("sub"), base.join("sub/deep/folder")).unwrap();
    assert_eq!(said(&root, "sub/deep/absolute"), "a.txt: a");
    assert_eq!(said(&root, "sub/deep/folder/b.txt"), "sub/b.txt: b");
    fs::write(base.join("sub/deep/a.txt"), "another").unwrap();
    assert_eq!(said(&root, "sub/deep/absolute"), "a.txt: a");
}
