use std::os::unix::fs::symlink;

use super::*;

/// Looks through a folder after something was done there.
fn swept(root: &Path, done: impl FnOnce()) -> Vec<String> {
    let protected = [".git/hooks".into(), ".git/config".into()];
    let (screen, kept) = (Screen::standard(), Kept::of(root, &protected));
    let (path, of_covered, covered) = (root.into(), screen.clone(), Kept::default());
    let obeyed = Kept::default();
    let of_root = Root { path, screen, kept, obeyed, of_covered, covered };
    let sweep = Sweep::beginning(vec![of_root], Vec::new());
    done();
    sweep.run(&[])
}

#[test]
fn files_that_did_not_appear_are_not_mentioned() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".envrc"), "mine").unwrap();
    assert_eq!(swept(folder.path(), || {}), [""; 0]);
    let notes = swept(folder.path(), || fs::write(folder.path().join("plain"), "").unwrap());
    assert_eq!(notes, [""; 0]);
    assert!(folder.path().join(".envrc").exists());
}

#[test]
fn new_files_are_quarantined_at_any_depth() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b");
    fs::create_dir_all(&deep).unwrap();
    let notes = swept(folder.path(), || fs::write(deep.join(".envrc"), "evil").unwrap());
    assert!(
        notes[0].starts_with(
            "a/b/.envrc runs code when a shell enters the folder; it was moved to .loopwright-quarantine/"
        ),
        "{notes:?}"
    );
    assert!(!deep.join(".envrc").exists());
    let kept = fs::read_dir(folder.path().join(FOLDER)).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read_to_string(kept.path()).unwrap(), "evil");
}

#[test]
fn a_folder_that_held_something_before_stays_and_what_is_new_in_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let editor = folder.path().join("a/.vscode");
    fs::create_dir_all(&editor).unwrap();
    fs::write(editor.join("settings.json"), "mine").unwrap();
    let notes = swept(folder.path(), || fs::write(editor.join("tasks.json"), "evil").unwrap());
    assert!(
        notes[0]
            .starts_with("a/.vscode/tasks.json is applied by editors when they open the folder; "),
        "{notes:?}"
    );
    assert_eq!(names(&editor), ["settings.json"]);
}

#[test]
fn a_refused_change_of_a_file_is_undone_and_an_allowed_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("sub/.envrc", "mine", "evil"),
        ("sub/.husky/pre-commit", "mine", "evil"),
        ("pyproject.toml", "[tool.mypy]\nplugins = []\n", "[tool.mypy]\nplugins = ['./evil.py']\n"),
        ("lib/.git/config", "[core]\n\tbare = false\n", "[core]\n\thooksPath = x\n"),
        ("plain.txt", "mine", "new"),
        ("setup.cfg", "[mypy]\nplugins = a.py\n", "[mypy]\nplugins = a.py\nstrict = true\n"),
        ("lib/.git/HEAD", "ref: refs/heads/main\n", "ref: refs/heads/new\n"),
    ];
    for (path, before, _) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, before).unwrap();
    }
    let mut notes = swept(folder.path(), || {
        for (path, _, after) in files {
            fs::write(folder.path().join(path), after).unwrap();
        }
    });
    notes.sort();
    let named: Vec<_> = notes.iter().map(|it| it.split(' ').next().unwrap()).collect();
    assert_eq!(
        named,
        ["lib/.git/config", "pyproject.toml", "sub/.envrc", "sub/.husky/pre-commit"],
        "{notes:?}"
    );
    let is_undone = |it: &String| it.ends_with(", and the original was restored");
    assert!(notes.iter().all(is_undone), "{notes:?}");
    for (path, before, after) in files {
        let now = fs::read_to_string(folder.path().join(path)).unwrap();
        assert_eq!(now, if named.contains(&path) { before } else { after }, "{path}");
    }
}

#[test]
fn a_file_that_was_removed_stays_removed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/.envrc"), "mine").unwrap();
    assert_eq!(
        swept(folder.path(), || fs::remove_dir_all(folder.path().join("a")).unwrap()),
        [""; 0]
    );
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn rights_that_were_taken_are_no_hindrance() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let notes = swept(folder.path(), || {
        fs::write(folder.path().join(".envrc"), "evil").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    });
    let is_moved = |it: &String| it.contains("was moved to .loopwright-quarantine/");
    assert!(notes.iter().any(is_moved), "{notes:?}");
}

#[test]
fn the_owner_can_enter_the_folder_after_a_command_has_closed_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let notes = swept(folder.path(), || {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o005)).unwrap();
    });
    assert_eq!(folder_mode(folder.path()), Some(0o705));
    let shown = folder.path().display();
    assert_eq!(
        notes,
        [format!(
            "the owner permissions of {shown} were restored, because the folder could not be entered without them"
        )]
    );
}

#[test]
fn a_link_in_place_of_the_quarantine_is_not_followed() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(home.path(), folder.path().join(FOLDER)).unwrap();
    let notes = swept(folder.path(), || fs::write(folder.path().join(".envrc"), "evil").unwrap());
    assert!(notes[0].contains("moved to .envrc.quarantined-"), "{notes:?}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_link_is_moved_like_a_file_and_not_followed() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(home.path().join("hooks"), "mine").unwrap();
    let notes = swept(folder.path(), || {
        symlink(home.path(), folder.path().join(".git")).unwrap();
        symlink(home.path(), folder.path().join("plain")).unwrap();
    });
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(names(folder.path()), [FOLDER]);
    assert_eq!(fs::read_to_string(home.path().join("hooks")).unwrap(), "mine");
}

#[test]
fn an_older_folder_under_a_new_name_goes_with_all_that_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("sub/plain")).unwrap();
    fs::write(at("sub/plain/tasks.json"), "evil").unwrap();
    fs::create_dir_all(at("build")).unwrap();
    fs::write(at("build/config.toml"), "evil").unwrap();
    let notes = swept(folder.path(), || {
        fs::rename(at("sub/plain"), at("sub/.vscode")).unwrap();
        // It is not alone in being new.
        fs::write(at("sub/.vscode/more"), "").unwrap();
        fs::rename(at("build"), at("sub/.cargo")).unwrap();
    });
    assert_eq!(names(&at("sub")), [".cargo"]);
    assert_eq!(names(&at("sub/.cargo")), [""; 0]);
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn an_older_folder_that_becomes_a_repository_brings_no_settings_along() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("sub/plain/objects")).unwrap();
    fs::create_dir_all(at("sub/plain/refs")).unwrap();
    fs::write(at("sub/plain/HEAD"), "ref: refs/heads/main").unwrap();
    fs::write(at("sub/plain/config"), "[core]\n\tfsmonitor = ./run.sh\n").unwrap();
    let notes = swept(folder.path(), || fs::rename(at("sub/plain"), at("sub/.git")).unwrap());
    assert!(!at("sub/.git/config").exists(), "{notes:?}");
}

#[test]
fn an_existing_folder_keeps_its_content_among_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("sub/.git")).unwrap();
    fs::write(at("sub/.git/config"), "[core]\n\teditor = ./mine\n").unwrap();
    fs::create_dir_all(at("sub/.idea")).unwrap();
    fs::write(at("sub/.idea/mine"), "").unwrap();
    let notes = swept(folder.path(), || {
        fs::write(at("sub/new"), "").unwrap();
        fs::write(at("sub/.git/index"), "").unwrap();
        fs::write(at("sub/.idea/theirs"), "").unwrap();
    });
    assert!(at("sub/.git/config").exists() && at("sub/.idea/mine").exists(), "{notes:?}");
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn protected_files_that_were_changed_or_removed_are_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(".git").join(name);
    fs::create_dir_all(at("hooks")).unwrap();
    fs::write(at("config"), "[alias]\n\tst = !mine\n").unwrap();
    for hook in ["pre-commit", "post-commit"] {
        fs::write(at("hooks").join(hook), "mine").unwrap();
    }
    let notes = swept(folder.path(), || {
        fs::write(at("config"), "[alias]\n\tst = !evil\n").unwrap();
        fs::write(at("hooks/pre-commit"), "evil").unwrap();
        fs::write(at("hooks/pre-push"), "evil").unwrap();
        fs::remove_file(at("hooks/post-commit")).unwrap();
    });
    let read = |name: &str| fs::read_to_string(at(name)).unwrap_or_default();
    assert_eq!(read("config"), "[alias]\n\tst = !mine\n");
    let hooks = ["hooks/pre-commit", "hooks/post-commit", "hooks/pre-push"].map(read);
    assert_eq!(hooks, ["mine", "mine", ""]);
    let ending = |end: &str| notes.iter().filter(|it| it.ends_with(end)).count();
    let changed = ending(", and the original was restored");
    let removed = notes.iter().filter(|it| it.starts_with("the earlier content of ")).count();
    assert_eq!((changed, removed, notes.len()), (2, 1, 4), "{notes:?}");
}

#[test]
fn a_link_is_not_followed_when_a_protected_file_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    fs::create_dir_all(root.join(".git")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(root.join(".git/config"), "mine").unwrap();
    swept(&root, || {
        fs::remove_dir_all(root.join(".git")).unwrap();
        symlink(&outside, root.join(".git")).unwrap();
    });
    assert_eq!(names(&outside), [""; 0]);
}

/// A repository with a submodule and a worktree, by what makes them so.
fn inner_repositories(root: &Path) {
    for folder in [".git", ".git/modules/sub"] {
        fs::create_dir_all(root.join(folder).join("objects")).unwrap();
        fs::create_dir_all(root.join(folder).join("refs")).unwrap();
        fs::write(root.join(folder).join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }
    fs::create_dir_all(root.join(".git/worktrees/wt")).unwrap();
    for (name, content) in [("HEAD", "ref: refs/heads/wt\n"), ("commondir", "../..\n")] {
        fs::write(root.join(".git/worktrees/wt").join(name), content).unwrap();
    }
}

#[test]
fn the_index_of_a_worktree_and_of_a_submodule_stays_where_git_has_put_it() {
    let folder = tempfile::tempdir().unwrap();
    inner_repositories(folder.path());
    let files = [
        ".git/worktrees/wt/index",
        ".git/worktrees/wt/HEAD",
        ".git/worktrees/wt/logs/HEAD",
        ".git/modules/sub/index",
        ".git/modules/sub/objects/aa/bb",
    ];
    let at = |path: &str| folder.path().join(path);
    for path in [".git/worktrees/wt/index", ".git/modules/sub/index"] {
        fs::write(at(path), "old").unwrap();
    }
    let notes = swept(folder.path(), || {
        for path in files {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            // Git replaces files.
            fs::write(at("new"), "new").unwrap();
            fs::rename(at("new"), at(path)).unwrap();
        }
    });
    assert_eq!(notes, [""; 0]);
    for path in files {
        assert_eq!(fs::read_to_string(at(path)).unwrap(), "new", "{path}");
    }
}

#[test]
fn what_git_obeys_in_a_submodule_and_a_worktree_has_its_earlier_content_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    inner_repositories(folder.path());
    let files = [
        ".git/modules/sub/config",
        ".git/modules/sub/hooks/pre-commit",
        ".git/modules/sub/info/attributes",
        ".git/modules/sub/objects/info/alternates",
        ".git/modules/sub/rebase-merge/git-rebase-todo",
        ".git/worktrees/wt/commondir",
        ".git/worktrees/wt/config.worktree",
        ".git/worktrees/wt/gitdir",
    ];
    let at = |path: &str| folder.path().join(path);
    for path in files {
        fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        fs::write(at(path), "mine").unwrap();
    }
    let notes = swept(folder.path(), || {
        for path in files {
            fs::write(at(path), "evil").unwrap();
        }
    });
    let is_undone = |it: &String| it.ends_with(", and the original was restored");
    assert_eq!(notes.iter().filter(|it| is_undone(it)).count(), files.len(), "{notes:?}");
    for path in files {
        assert_eq!(fs::read_to_string(at(path)).unwrap(), "mine", "{path}");
    }
}

#[test]
fn a_folder_that_is_moved_away_leaves_its_earlier_files_and_links_behind() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at("a/.vscode")).unwrap();
    fs::write(at("a/.vscode/settings.json"), "mine").unwrap();
    symlink("settings.json", at("a/.vscode/link")).unwrap();
    symlink("b.txt", at("a/plain")).unwrap();
    let notes = swept(folder.path(), || {
        fs::remove_dir_all(at("a/.vscode")).unwrap();
        fs::create_dir(at("a/.vscode")).unwrap();
        fs::write(at("a/.vscode/tasks.json"), "evil").unwrap();
        fs::remove_file(at("a/plain")).unwrap();
        symlink("/etc", at("a/plain")).unwrap();
    });
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(names(&at("a/.vscode")), ["link", "settings.json"]);
    assert_eq!(fs::read_to_string(at("a/.vscode/link")).unwrap(), "mine");
    assert_eq!(fs::read_link(at("a/plain")).unwrap(), Path::new("b.txt"));
}

#[test]
fn a_file_that_is_too_large_to_restore_is_named_as_one_without_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("a/.vscode")).unwrap();
    let large = folder.path().join("a/.vscode/tasks.json");
    fs::write(&large, vec![b' '; (1 << 20) + 1]).unwrap();
    let notes = swept(folder.path(), || {
        fs::write(&large, "evil").unwrap();
    });
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].ends_with(
            "there is no copy of its earlier content: check the file, and then move it back"
        ),
        "{notes:?}"
    );
    let kept = fs::read_dir(folder.path().join(FOLDER)).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read_to_string(kept.path()).unwrap(), "evil");
    assert!(!large.exists());
}
