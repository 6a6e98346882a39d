use super::*;

fn run_git(folder: &Path, arguments: &[&str]) {
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(arguments);
    let done = git.current_dir(folder).env("HOME", folder).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn repository_in(folder: &Path) -> PathBuf {
    let folder = folder.canonicalize().unwrap();
    run_git(&folder, &["init", "--quiet"]);
    fs::write(folder.join("a.txt"), "one\n").unwrap();
    run_git(&folder, &["add", "."]);
    run_git(&folder, &["commit", "--quiet", "-m", "begin"]);
    folder
}

#[test]
fn a_worktree_that_was_begun_is_completed_and_found_again() {
    let home = tempfile::tempdir().unwrap();
    let folder = repository_in(home.path());
    let tree = Worktree::enter(&folder, "agent-1").unwrap();
    let own = folder.join(".git/worktrees/agent-1");
    // The program was killed while it wrote the files.
    fs::remove_file(own.join("index")).unwrap();
    fs::remove_file(tree.path().join("a.txt")).unwrap();
    Worktree::enter(&folder, "agent-1").unwrap();
    assert_eq!(fs::read_to_string(tree.path().join("a.txt")).unwrap(), "one\n");
    // What is changed stays.
    fs::write(tree.path().join("a.txt"), "two\n").unwrap();
    let again = Worktree::enter(&folder, "agent-1").unwrap();
    assert_eq!(fs::read_to_string(again.path().join("a.txt")).unwrap(), "two\n");
    assert!(again.leave().unwrap().unwrap().contains("0 commits, 1 changed file not"));
    // The folder was deleted by hand.
    fs::remove_dir_all(tree.path()).unwrap();
    let again = Worktree::enter(&folder, "agent-1").unwrap();
    assert_eq!(fs::read_to_string(again.path().join("a.txt")).unwrap(), "one\n");
    assert_eq!(again.leave().unwrap(), None);
    assert!(!own.exists() && !again.path().exists());
}

#[test]
fn commits_count_as_changes() {
    let home = tempfile::tempdir().unwrap();
    let folder = repository_in(home.path());
    let tree = Worktree::enter(&folder, "agent-1").unwrap();
    fs::write(tree.path().join("b.txt"), "two\n").unwrap();
    run_git(tree.path(), &["add", "."]);
    run_git(tree.path(), &["commit", "--quiet", "-m", "more"]);
    let left = tree.leave().unwrap().unwrap();
    assert!(
        left.contains("on the branch worktree-agent-1: 1 commit, 0 changed files not"),
        "{left}"
    );
}

#[test]
fn files_in_a_submodule_count_as_changes_and_its_settings_are_not_read() {
    let home = tempfile::tempdir().unwrap();
    let folder = repository_in(home.path());
    let commit = format!("160000,{},sub", "1".repeat(40));
    run_git(&folder, &["update-index", "--add", "--cacheinfo", &commit]);
    run_git(&folder, &["commit", "--quiet", "-m", "submodule"]);
    let tree = Worktree::enter(&folder, "agent-1").unwrap();
    let sub = tree.path().join("sub");
    let marker = home.path().join("ran");
    let program = format!("touch {}; cat", marker.display());
    run_git(&sub, &["init", "--quiet"]);
    fs::write(sub.join(".gitattributes"), "*.txt filter=evil\n").unwrap();
    fs::write(sub.join("b.txt"), "two\n").unwrap();
    run_git(&sub, &["add", "."]);
    run_git(&sub, &["commit", "--quiet", "-m", "begin"]);
    run_git(&sub, &["config", "filter.evil.clean", &program]);
    fs::write(sub.join("b.txt"), "six\n").unwrap();
    assert!(tree.leave().unwrap().is_some());
    assert!(!marker.exists());
}

#[test]
fn a_link_on_the_way_to_the_worktrees_is_refused() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = repository_in(home.path());
    std::os::unix::fs::symlink(other.path(), folder.join(".claude")).unwrap();
    let refused = Worktree::enter(&folder, "agent-1").unwrap_err();
    assert!(matches!(refused, WorktreeError::LeadsOut(_)), "{refused}");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
}

#[test]
fn the_settings_of_a_repository_do_not_choose_where_its_worktrees_are() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = repository_in(home.path());
    run_git(&folder, &["config", "core.worktree", other.path().to_str().unwrap()]);
    let tree = Worktree::enter(&folder, "agent-1").unwrap();
    assert_eq!(tree.path(), folder.join(".claude/worktrees/agent-1"));
    assert_eq!(fs::read_to_string(tree.path().join("a.txt")).unwrap(), "one\n");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
}
