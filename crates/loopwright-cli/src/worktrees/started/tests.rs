use std::os::unix::fs::symlink;

use super::super::tests::{repository_in, run_git};
use super::*;

/// A repository with a worktree `tree` and a folder `other` beside it.
fn places() -> (tempfile::TempDir, PathBuf, PathBuf, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let real = home.path().canonicalize().unwrap();
    let (main, tree, other) = (real.join("main"), real.join("tree"), real.join("other"));
    fs::create_dir(&main).unwrap();
    fs::create_dir(&other).unwrap();
    let main = repository_in(&main);
    run_git(&main, &["worktree", "add", "--quiet", tree.to_str().unwrap()]);
    (home, main, tree, other)
}

#[test]
fn a_worktree_of_a_repository_that_names_it_is_read_with_the_repository() {
    let (_home, main, tree, _other) = places();
    let shared = main.join(".git");
    let names = ["HEAD", "objects", "refs", "info", "worktrees/tree", "packed-refs"];
    let paths = names.map(|name| shared.join(name)).into();
    let reach = GitReach::of(&tree);
    assert_eq!(reach, GitReach::ReadOnly { shared: shared.clone(), paths });
    assert_eq!(
        reach.note(&[]).unwrap(),
        format!(
            "commands can read the repository of this git worktree, {}, but cannot commit; to allow commits, pass `--add-dir {}`",
            shared.display(),
            main.display()
        )
    );
    assert_eq!(reach.note(&[main]), None);
}

#[test]
fn a_file_that_leads_to_a_repository_that_does_not_name_the_folder_shows_nothing() {
    let (_home, main, tree, other) = places();
    let shared = main.join(".git");
    let own = shared.join("worktrees/tree");
    for target in [&shared, &own] {
        fs::write(other.join(".git"), format!("gitdir: {}\n", target.display())).unwrap();
        let reach = GitReach::of(&other);
        assert_eq!(reach, GitReach::Foreign { target: target.clone() });
        assert_eq!(reach.paths(), <[PathBuf; 0]>::default());
    }
    // The folder of the worktree is in the project, and names the file back.
    let made = other.join("made");
    fs::create_dir(&made).unwrap();
    fs::write(made.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(made.join("commondir"), shared.display().to_string()).unwrap();
    fs::write(made.join("gitdir"), other.join(".git").display().to_string()).unwrap();
    fs::write(other.join(".git"), "gitdir: made\n").unwrap();
    assert_eq!(GitReach::of(&other), GitReach::Foreign { target: shared });
    assert!(matches!(GitReach::of(&tree), GitReach::ReadOnly { .. }));
}

#[test]
fn links_of_a_repository_that_came_with_the_folder_show_nothing() {
    let (_home, main, _tree, other) = places();
    let shared = other.with_file_name("shared");
    fs::create_dir_all(shared.join("refs")).unwrap();
    fs::write(shared.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(shared.join("config"), "[core]\n\tworktree = ../other\n").unwrap();
    for name in ["objects", "info", "index", "packed-refs"] {
        symlink(&main, shared.join(name)).unwrap();
    }
    fs::write(other.join(".git"), "gitdir: ../shared\n").unwrap();
    let paths = ["HEAD", "refs"].map(|name| shared.join(name)).into();
    assert_eq!(GitReach::of(&other), GitReach::ReadOnly { shared, paths });
}

#[test]
fn in_a_folder_of_a_repository_the_note_names_the_root() {
    let (_home, main, _tree, other) = places();
    let below = main.join("a");
    fs::create_dir(&below).unwrap();
    let reach = GitReach::of(&below);
    assert_eq!(reach, GitReach::Above { root: main.clone() });
    assert_eq!(
        reach.note(&[]).unwrap(),
        format!(
            "the root of the repository is above this folder, so git and the files there are out of reach; to use them, start with `-C {}`",
            main.display()
        )
    );
    for whole in [main, other] {
        assert_eq!(GitReach::of(&whole), GitReach::Whole);
        assert_eq!(GitReach::of(&whole).note(&[]), None);
    }
}
