use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    home
}

fn walked(home: &tempfile::TempDir, start: &str, rules: Rules) -> Vec<String> {
    let root = WorkspaceRoot::new(home.path());
    let mut seen = Vec::new();
    let missed = walk(&root, "grep", start, rules, &CancellationToken::new(), &mut |visit| {
        if visit.kind != FileType::Directory {
            seen.push(visit.path.to_str().unwrap().to_owned());
        }
        Ok(Next::On)
    });
    assert_eq!(missed.unwrap(), Missed::default());
    seen
}

#[test]
fn files_are_visited_in_order_and_links_are_not_followed() {
    let home = tree(&[("b/c.txt", ""), ("a.txt", ""), ("b/a.txt", ""), (".git/config", "")]);
    symlink("b", home.path().join("z")).unwrap();
    symlink("..", home.path().join("b/up")).unwrap();
    assert_eq!(walked(&home, ".", Rules::Honoured), ["a.txt", "b/a.txt", "b/c.txt", "b/up", "z"]);
}

#[test]
fn rules_of_nearer_directories_win() {
    let home = tree(&[
        (".gitignore", "target/\n*.log\n/only_top\n# comment\n"),
        (".git/info/exclude", "private\n"),
        ("target/x", ""),
        ("a.log", ""),
        ("only_top", ""),
        ("private", ""),
        ("sub/.gitignore", "!keep.log\n"),
        ("sub/.ignore", "secret*\n"),
        ("sub/keep.log", ""),
        ("sub/other.log", ""),
        ("sub/only_top", ""),
        ("sub/secret.txt", ""),
        ("sub/target/x", ""),
    ]);
    let kept = [".gitignore", "sub/.gitignore", "sub/.ignore", "sub/keep.log", "sub/only_top"];
    assert_eq!(walked(&home, ".", Rules::Honoured), kept);
    assert_eq!(walked(&home, "sub", Rules::Honoured), kept[1..]);
    assert_eq!(walked(&home, ".", Rules::Disregarded).len(), 12);
}

#[test]
fn a_path_is_excluded_by_the_rules_above_it_and_with_its_folder() {
    let home = tree(&[
        (".gitignore", "target/\n*.log\n"),
        (".git/info/exclude", "private\n"),
        ("sub/.gitignore", "!keep.log\n/own\n"),
        ("sub/target/a.md", ""),
    ]);
    let root = WorkspaceRoot::new(home.path());
    let paths = [
        "target/x/y.md",
        "sub/target",
        "private/a.md",
        "sub/other.log",
        "sub/keep.log",
        "sub/own/a.md",
        "own/a.md",
        "sub/a.md",
    ];
    let excluded = paths.map(|path| root.excludes(path));
    assert_eq!(excluded, [true, true, true, true, false, true, false, false]);
}

#[test]
fn a_walk_ends_when_it_is_told() {
    let home = tree(&[("a", ""), ("b", "")]);
    let root = WorkspaceRoot::new(home.path());
    let mut seen = 0;
    let stop = CancellationToken::new();
    walk(&root, "grep", ".", Rules::Honoured, &stop, &mut |_| {
        seen += 1;
        Ok(Next::Enough)
    })
    .unwrap();
    assert_eq!(seen, 1);
    stop.cancel();
    let error =
        walk(&root, "grep", ".", Rules::Honoured, &stop, &mut |_| Ok(Next::On)).unwrap_err();
    assert!(matches!(error, FileError::Cancelled));
}

#[test]
fn a_walk_that_is_too_deep_says_so() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("d/".repeat(MAX_LEVELS + 2))).unwrap();
    let root = WorkspaceRoot::new(home.path());
    let stop = CancellationToken::new();
    let missed = walk(&root, "grep", ".", Rules::Honoured, &stop, &mut |_| Ok(Next::On)).unwrap();
    assert_eq!(missed, Missed { is_cut: true, folders: 0 });
}

#[test]
fn a_walk_that_is_cancelled_visits_nothing_more() {
    let home = tree(&[("a", ""), ("b", "")]);
    let (root, stop) = (WorkspaceRoot::new(home.path()), CancellationToken::new());
    let mut seen = 0;
    let walked = walk(&root, "grep", ".", Rules::Honoured, &stop, &mut |_| {
        seen += 1;
        stop.cancel();
        Ok(Next::On)
    });
    assert!(matches!(walked, Err(FileError::Cancelled)));
    assert_eq!(seen, 1);
}
