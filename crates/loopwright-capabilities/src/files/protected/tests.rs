use super::*;

#[track_caller]
fn check(path: &str, expect: bool) {
    let mut protected = Protected::standard();
    protected.add("secrets/keys");
    assert_eq!(protected.covers(Path::new(path)), expect, "{path}");
}

#[test]
fn what_programs_act_on_is_protected_at_any_depth() {
    check(".git/hooks", true);
    check(".git/hooks/pre-commit", true);
    check("sub/module/.git/hooks/pre-commit", true);
    check(".GIT/Hooks/pre-commit", true);
    check(".claude/settings.json", true);
    check("a/.vscode/tasks.json", true);
    check("secrets/keys/id", true);
    check(".git", true);
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
}
