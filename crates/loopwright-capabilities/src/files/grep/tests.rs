use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;

fn world() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (path, content) in [
        ("a.rs", "fn main() {\n    go();\n}\n"),
        ("b.txt", "one\r\ngo.\r\nthree\r\n"),
        ("sub/c.rs", "// go\n// stop\n// Go\n"),
        ("target/d.rs", "go\n"),
        ("binary", "go\0go\n"),
        (".gitignore", "target\n"),
    ] {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    symlink("/etc/passwd", home.path().join("link")).unwrap();
    home
}

fn said(tool: &Grep, args: serde_json::Value) -> String {
    let args: GrepArgs = serde_json::from_value(args).unwrap();
    tool.grep(&args, &CancellationToken::new()).unwrap_or_else(|error| format!("error: {error}"))
}

#[track_caller]
fn check(args: serde_json::Value, expect: &str) {
    let home = world();
    assert_eq!(said(&Grep::in_dir(home.path()), args), expect);
}

#[test]
fn matching_lines_have_path_and_number() {
    check(json!({ "pattern": "go" }), "a.rs:2:    go();\nb.txt:2:go.\nsub/c.rs:1:// go");
    check(json!({ "pattern": "^go.$" }), "b.txt:2:go.");
    check(json!({ "pattern": "root:" }), "(no matches)");
    check(
        json!({ "pattern": "go", "ignore_case": true, "glob": "*.rs" }),
        "a.rs:2:    go();\nsub/c.rs:1:// go\nsub/c.rs:3:// Go",
    );
    check(json!({ "pattern": "go", "glob": "sub/*.rs" }), "sub/c.rs:1:// go");
    check(json!({ "pattern": "go.", "literal": true }), "b.txt:2:go.");
    check(json!({ "pattern": "go", "path": "sub" }), "sub/c.rs:1:// go");
    check(json!({ "pattern": "go", "path": "b.txt" }), "b.txt:2:go.");
    check(json!({ "pattern": "go", "files_only": true }), "a.rs\nb.txt\nsub/c.rs");
    check(json!({ "pattern": "^go$", "include_ignored": true }), "target/d.rs:1:go");
}

#[test]
fn lines_around_are_shown_when_asked_for() {
    check(
        json!({ "pattern": "stop", "context": 1 }),
        "sub/c.rs-1-// go\nsub/c.rs:2:// stop\nsub/c.rs-3-// Go",
    );
}

#[test]
fn matches_shown_by_grep_are_bounded() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a"), "go\n".repeat(500)).unwrap();
    fs::write(home.path().join("b"), format!("go {}\n", "ä".repeat(500))).unwrap();
    let tool = Grep::in_dir(home.path()).with_max_results(2);
    assert_eq!(
        said(&tool, json!({ "pattern": "go" })),
        "a:1:go\na:2:go\n[Stopped after 2 matches; there may be more. Narrow the pattern, path or glob.]"
    );
    let cut = said(&tool, json!({ "pattern": "go", "path": "b" }));
    assert_eq!(cut, format!("b:1:go {}…", "ä".repeat(198)));
    let small = Grep::in_dir(home.path()).with_max_bytes(20);
    assert!(
        said(&small, json!({ "pattern": "go" })).starts_with("a:1:go\na:2:go\n[Stopped after 2")
    );
}

#[test]
fn a_pattern_that_makes_no_sense_is_refused() {
    let home = world();
    let said = said(&Grep::in_dir(home.path()), json!({ "pattern": "a(" }));
    assert!(said.starts_with("error: invalid pattern `a(`: "), "{said}");
    assert!(said.ends_with("; pass literal=true if the pattern is plain text"), "{said}");
}

#[test]
fn nothing_outside_is_searched() {
    check(
        json!({ "pattern": "root", "path": "link" }),
        "error: `link` is outside the working directory; use a path inside it",
    );
    check(
        json!({ "pattern": "root", "path": "/etc" }),
        "error: `/etc` is outside the working directory; use a path inside it",
    );
}
