use super::*;

#[track_caller]
fn check(path: &str, expect: bool) {
    let root = tempfile::tempdir().unwrap();
    let screen = Screen::standard().refuse("secrets/keys").allow(".npmrc");
    let found = judge(&screen, root.path(), Path::new(path), Some(b"text"));
    assert_eq!(found.is_some(), expect, "{path}: {found:?}");
}

#[test]
fn files_that_programs_execute_are_protected_at_any_depth() {
    check(".git/hooks", true);
    check(".git/hooks/pre-commit", true);
    check("sub/module/.git/hooks/pre-commit", true);
    check(".GIT/Hooks/pre-commit", true);
    check(".claude/settings.json", true);
    check("a/.vscode/tasks.json", true);
    check("secrets/keys/id", true);
    check(".git", true);
    check(".git/config", true);
    check(".GIT/rebase-merge/git-rebase-todo", true);
    check("web/.envrc", true);
}

#[test]
fn everything_else_is_not() {
    check("", false);
    check("src/main.rs", false);
    check(".github/workflows/ci.yml", false);
    check(".gitignore", false);
    check("git/hooks/x", false);
    check(".git/HEAD", false);
    check("secrets/other", false);
    check("web/.npmrc", false);
}

#[test]
fn the_last_file_that_makes_a_repository_of_a_folder_with_settings_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let judged = |path: &str| {
        judge(&Screen::standard(), root.path(), Path::new(path), Some(b"ref: refs/heads/main"))
    };
    write("bare/objects/x", "");
    write("bare/refs/x", "");
    assert_eq!(judged("bare/HEAD"), None);
    write("bare/config", "[core]\n\tbare = true\n");
    assert_eq!(judged("bare/HEAD"), None);
    write("bare/config", "[core]\n\tfsmonitor = ./run\n");
    assert!(judged("bare/HEAD").is_some());
    // And the other way round.
    write("bare/HEAD", "ref: refs/heads/main");
    assert!(judged("bare/config").is_some() && judged("bare/hooks/post-checkout").is_some());
}

#[test]
fn a_file_that_chooses_a_toolchain_is_judged_by_what_it_holds() {
    let root = tempfile::tempdir().unwrap();
    let judged = |content| {
        let path = Path::new("rust-toolchain.toml");
        judge(&Screen::standard(), root.path(), path, content).is_some()
    };
    assert!(!judged(None) && !judged(Some(b"[toolchain]\nchannel = '1.90'")));
    assert!(judged(Some(b"[toolchain]\npath = '/tmp/x'")));
}
