use super::*;

pub(super) fn run_git(folder: &Path, arguments: &[&str]) {
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(arguments);
    let done = git.current_dir(folder).env("HOME", folder).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

pub(super) fn repository_in(folder: &Path) -> PathBuf {
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
    fs::remove_file(own.join(BASE)).unwrap();
    fs::remove_file(own.join("index")).unwrap();
    fs::write(own.join("index.lock"), "").unwrap();
    fs::write(folder.join(".git/refs/heads/worktree-agent-1.lock"), "").unwrap();
    fs::remove_file(tree.path().join("a.txt")).unwrap();
    Worktree::enter(&folder, "agent-1").unwrap();
    assert_eq!(fs::read_to_string(tree.path().join("a.txt")).unwrap(), "one\n");
    assert!(!own.join("index.lock").exists());
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

#[test]
fn a_worktree_that_is_made_again_after_a_commit_is_removed_when_nothing_was_changed() {
    let home = tempfile::tempdir().unwrap();
    let folder = repository_in(home.path());
    Worktree::enter(&folder, "agent-1").unwrap();
    fs::remove_file(folder.join(".git/worktrees/agent-1").join(BASE)).unwrap();
    run_git(&folder, &["commit", "--quiet", "--allow-empty", "-m", "more"]);
    let again = Worktree::enter(&folder, "agent-1").unwrap();
    assert_eq!(again.leave().unwrap(), None);
}

#[test]
fn no_setting_and_no_mark_in_the_index_hides_what_was_changed() {
    let settings: [&[&[&str]]; 8] = [
        &[&["config", "core.ignoreStat", "true"]],
        &[&["config", "core.checkStat", "minimal"], &["config", "core.trustctime", "false"]],
        &[&["config", "core.fileMode", "false"]],
        &[&["config", "core.sparseCheckout", "true"], &["config", "index.sparse", "true"]],
        &[&["config", "status.showUntrackedFiles", "no"]],
        &[&["config", "diff.ignoreSubmodules", "all"]],
        &[&["config", "core.autocrlf", "input"]],
        &[&["config", "core.splitIndex", "true"], &["config", "core.untrackedCache", "true"]],
    ];
    let marks = ["", "--assume-unchanged", "--skip-worktree"];
    for (lines, mark) in settings.iter().flat_map(|it| marks.map(|mark| (*it, mark))) {
        let home = tempfile::tempdir().unwrap();
        let folder = repository_in(home.path());
        for line in lines {
            run_git(&folder, line);
        }
        let unchanged = Worktree::enter(&folder, "agent-1").unwrap();
        assert_eq!(unchanged.leave().unwrap(), None, "{lines:?}");
        let tree = Worktree::enter(&folder, "agent-1").unwrap();
        if !mark.is_empty() {
            run_git(tree.path(), &["update-index", mark, "a.txt"]);
        }
        // The size stays.
        fs::write(tree.path().join("a.txt"), "two\n").unwrap();
        let left = tree.leave().unwrap().unwrap_or_default();
        assert!(left.contains("0 commits, 1 changed file not"), "{lines:?} {mark}: {left}");
    }
}

#[test]
fn a_mode_that_was_changed_counts_whatever_the_settings_say() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let folder = repository_in(home.path());
    run_git(&folder, &["config", "core.fileMode", "false"]);
    let tree = Worktree::enter(&folder, "agent-1").unwrap();
    fs::set_permissions(tree.path().join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(tree.leave().unwrap().unwrap().contains("1 changed file not"));
}

#[test]
fn a_file_that_no_committed_pattern_names_counts_as_a_change() {
    let ignored_by = |path: &str, pattern: &str| {
        let home = tempfile::tempdir().unwrap();
        let folder = repository_in(home.path());
        let excludes = home.path().join("excludes");
        fs::write(&excludes, "").unwrap();
        run_git(&folder, &["config", "core.excludesFile", excludes.to_str().unwrap()]);
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, pattern).unwrap();
        if path.ends_with(".gitignore") {
            run_git(&folder, &["add", "--force", path]);
            run_git(&folder, &["commit", "--quiet", "-m", "patterns"]);
        }
        let tree = Worktree::enter(&folder, "agent-1").unwrap();
        fs::create_dir(tree.path().join("new")).unwrap();
        fs::write(tree.path().join("new/b.txt"), "work\n").unwrap();
        tree.leave().unwrap().is_none()
    };
    // Settings of the user and of the repository.
    assert!(!ignored_by("excludes", "new\n"));
    assert!(!ignored_by(".git/info/exclude", "*\n"));
    // A pattern that says nothing about what it excludes.
    assert!(!ignored_by(".gitignore", "*\n"));
    assert!(!ignored_by(".gitignore", "/*\n!a.txt\n"));
    assert!(!ignored_by(".gitignore", "other\n"));
    // What a build makes again.
    assert!(ignored_by(".gitignore", "/new\n"));
    assert!(ignored_by(".gitignore", "*.txt\n"));
}

#[test]
fn a_file_that_a_new_gitignore_excludes_counts_as_a_change() {
    let home = tempfile::tempdir().unwrap();
    let folder = repository_in(home.path());
    let tree = Worktree::enter(&folder, "agent-1").unwrap();
    fs::write(tree.path().join(".gitignore"), "*\n").unwrap();
    fs::write(tree.path().join("b.txt"), "work\n").unwrap();
    assert!(tree.leave().unwrap().unwrap().contains("2 changed files not"));
}

#[test]
fn a_file_that_attributes_make_look_changed_does_not_count() {
    let home = tempfile::tempdir().unwrap();
    let folder = repository_in(home.path());
    fs::write(folder.join("dos.txt"), "one\r\n").unwrap();
    run_git(&folder, &["add", "."]);
    run_git(&folder, &["commit", "--quiet", "-m", "text"]);
    fs::write(folder.join(".gitattributes"), "*.txt text\n").unwrap();
    run_git(&folder, &["add", ".gitattributes"]);
    run_git(&folder, &["commit", "--quiet", "-m", "attributes"]);
    let tree = Worktree::enter(&folder, "agent-1").unwrap();
    assert_eq!(tree.leave().unwrap(), None);
}

#[test]
fn a_repository_whose_path_is_no_text_has_worktrees() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&folder).unwrap();
    let folder = repository_in(&folder);
    let tree = Worktree::enter(&folder, "agent-1").unwrap();
    assert_eq!(fs::read_to_string(tree.path().join("a.txt")).unwrap(), "one\n");
    assert_eq!(tree.leave().unwrap(), None);
    assert!(!tree.path().exists());
}
