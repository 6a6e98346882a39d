use std::os::unix::fs::symlink;

use super::super::tests::{repository_in, run_git};
use super::super::{Worktree, WorktreeError};
use super::*;

/// A folder for a project, and a repository of the user elsewhere with the file `a.txt`.
fn places() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let real = home.path().canonicalize().unwrap();
    let (project, private) = (real.join("project"), real.join("private"));
    fs::create_dir(&project).unwrap();
    fs::create_dir(&private).unwrap();
    let private = repository_in(&private);
    (home, project, private)
}

/// Fails unless the folder is refused, and nothing of the other repository is used.
fn refused(project: &Path, private: &Path) -> WorktreeError {
    let refused = Worktree::enter(project, "agent-1").unwrap_err();
    assert!(!project.join(".claude").exists(), "{refused}");
    assert!(!private.join(".git/worktrees").exists(), "{refused}");
    assert!(!private.join(".git/refs/heads/worktree-agent-1").exists(), "{refused}");
    refused
}

#[test]
fn a_folder_that_names_a_repository_elsewhere_has_no_worktrees() {
    type Make = fn(&Path, &Path);
    let ways: [Make; 4] = [
        |git, private| fs::write(git, format!("gitdir: {}\n", private.display())).unwrap(),
        |git, private| symlink(private, git).unwrap(),
        |git, private| {
            fs::create_dir(git).unwrap();
            fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(git.join("commondir"), private.display().to_string()).unwrap();
        },
        |git, private| {
            let own = git.with_file_name("own");
            fs::create_dir(&own).unwrap();
            fs::write(own.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(own.join("commondir"), private.display().to_string()).unwrap();
            fs::write(own.join("gitdir"), git.display().to_string()).unwrap();
            fs::write(git, "gitdir: own\n").unwrap();
        },
    ];
    for make in ways {
        let (_home, project, private) = places();
        make(&project.join(".git"), &private.join(".git"));
        let error = refused(&project, &private);
        assert!(matches!(error, WorktreeError::Elsewhere { .. }), "{error}");
        let told = error.to_string();
        assert!(told.contains(&format!("{}/.git points to", project.display())), "{told}");
        assert!(told.contains("`git worktree add`"), "{told}");
    }
}

#[test]
fn a_worktree_that_belongs_to_another_folder_is_refused() {
    let (home, project, private) = places();
    let other = home.path().canonicalize().unwrap().join("other");
    run_git(&private, &["worktree", "add", "--quiet", other.to_str().unwrap()]);
    fs::copy(other.join(".git"), project.join(".git")).unwrap();
    let error = Worktree::enter(&project, "agent-1").unwrap_err();
    assert!(matches!(error, WorktreeError::Elsewhere { .. }), "{error}");
    symlink(other.join(".git"), project.join("link")).unwrap();
    fs::rename(project.join("link"), project.join(".git")).unwrap();
    let error = Worktree::enter(&project, "agent-1").unwrap_err();
    assert!(matches!(error, WorktreeError::Elsewhere { .. }), "{error}");
    assert!(!project.join(".claude").exists());
}

#[test]
fn a_repository_that_uses_files_of_another_one_is_refused() {
    for name in ["objects", "refs", "refs/heads", "logs", "HEAD", "config", "objects/pack"] {
        let (_home, project, private) = places();
        let project = repository_in(&project);
        let own = project.join(".git").join(name);
        if own.is_dir() {
            fs::remove_dir_all(&own).unwrap();
        } else {
            fs::remove_file(&own).unwrap();
        }
        symlink(private.join(".git").join(name), &own).unwrap();
        let error = refused(&project, &private);
        assert!(
            matches!(&error, WorktreeError::ForeignFile(path) if *path == own),
            "{name}: {error}"
        );
    }
    let (_home, project, private) = places();
    let project = repository_in(&project);
    let alternates = project.join(".git/objects/info/alternates");
    fs::write(&alternates, format!("{}/.git/objects\n", private.display())).unwrap();
    let error = refused(&project, &private);
    assert!(matches!(&error, WorktreeError::Alternates(path) if *path == alternates), "{error}");
}

#[test]
fn worktrees_and_submodules_of_the_user_have_worktrees() {
    let (home, project, private) = places();
    let other = home.path().canonicalize().unwrap().join("other");
    run_git(&private, &["worktree", "add", "--quiet", other.to_str().unwrap()]);
    let tree = Worktree::enter(&other, "agent-1").unwrap();
    assert_eq!(fs::read_to_string(tree.path().join("a.txt")).unwrap(), "one\n");
    assert_eq!(tree.leave().unwrap(), None);
    // The folder of a repository that is elsewhere, as that of a submodule.
    let git = home.path().canonicalize().unwrap().join("separate.git");
    run_git(&project, &["init", "--quiet", "--separate-git-dir", git.to_str().unwrap()]);
    fs::write(project.join("b.txt"), "two\n").unwrap();
    run_git(&project, &["add", "."]);
    run_git(&project, &["commit", "--quiet", "-m", "begin"]);
    assert!(matches!(Repository::of(&project), Err(WorktreeError::Elsewhere { .. })));
    run_git(&project, &["config", "core.worktree", "../project"]);
    let tree = Worktree::enter(&project, "agent-1").unwrap();
    assert_eq!(fs::read_to_string(tree.path().join("b.txt")).unwrap(), "two\n");
}

#[test]
fn commands_read_the_settings_of_a_repository_only_if_git_needs_them() {
    let (_home, _project, private) = places();
    let of = |folder: &Path| {
        let paths = Repository::of(folder).unwrap().read_by_commands();
        let names = paths.iter().map(|it| it.strip_prefix(folder.join(".git")).unwrap().to_owned());
        names.collect::<Vec<PathBuf>>()
    };
    let names: Vec<PathBuf> = ["HEAD", "objects", "refs", "info"].map(Into::into).into();
    assert_eq!(of(&private), names);
    run_git(&private, &["config", "core.repositoryFormatVersion", "1"]);
    run_git(&private, &["config", "extensions.objectFormat", "sha1"]);
    assert!(of(&private).contains(&"config".into()));
}
