use std::fs;

use super::*;

fn world() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for path in [
        "main.rs",
        "notes",
        "src/main.rs",
        "src/a/test/x.rs",
        "src/a/test/y.rs",
        "src/a/Config.toml",
        "target/main.rs",
        ".github/ci.yml",
    ] {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    fs::write(home.path().join(".gitignore"), "target\n").unwrap();
    home
}

#[track_caller]
fn check(args: serde_json::Value, expect: &str) {
    let home = world();
    let tool = SearchFiles::in_dir(home.path());
    let args: SearchFilesArgs = serde_json::from_value(args).unwrap();
    let said = tool.search(&args, &CancellationToken::new());
    assert_eq!(said.unwrap_or_else(|error| format!("error: {error}")), expect);
}

use serde_json::json;

#[test]
fn a_pattern_is_a_path_a_glob_a_name_or_a_part() {
    check(json!({ "pattern": "./main.rs" }), "Found 1 file.\n[./main.rs]\nmain.rs");
    check(json!({ "pattern": "src/main.rs" }), "Found 1 file.\n[src/main.rs]\nsrc/main.rs");
    check(json!({ "pattern": "main.rs" }), "Found 2 files.\n[main.rs]\nmain.rs\nsrc/main.rs");
    check(json!({ "pattern": "*.rs" }), "Found 1 file.\n[*.rs]\nmain.rs");
    check(json!({ "pattern": "conf" }), "Found 1 file.\n[conf]\nsrc/a/Config.toml");
    check(json!({ "pattern": "CONF" }), "No files found for CONF.");
}

#[test]
fn globs_have_their_whole_meaning() {
    let rows = "src/a/test/x.rs\nsrc/a/test/y.rs";
    check(
        json!({ "pattern": "src/**/test/*.rs" }),
        &format!("Found 2 files.\n[src/**/test/*.rs]\n{rows}"),
    );
    check(json!({ "pattern": "**/{x,y}.rs" }), &format!("Found 2 files.\n[**/{{x,y}}.rs]\n{rows}"));
    check(json!({ "pattern": "**/*.yml" }), "Found 1 file.\n[**/*.yml]\n.github/ci.yml");
    check(
        json!({ "pattern": "*.toml" }),
        "No files found for *.toml.\n[`*.toml` matches only at the top level; try `**/*.toml`]",
    );
}

#[test]
fn ignored_files_are_found_on_request() {
    check(
        json!({ "pattern": "main.rs", "include_ignored": true }),
        "Found 3 files.\n[main.rs]\nmain.rs\nsrc/main.rs\ntarget/main.rs",
    );
    check(
        json!({ "pattern": "target/main.rs" }),
        "Found 1 file.\n[target/main.rs]\ntarget/main.rs",
    );
}

#[test]
fn several_patterns_share_the_room() {
    let home = world();
    let tool = SearchFiles::in_dir(home.path()).with_max_results(2);
    let args: SearchFilesArgs =
        serde_json::from_value(json!({ "patterns": ["**/*.rs", "none.txt"], "pattern": "notes" }))
            .unwrap();
    assert_eq!(
        tool.search(&args, &CancellationToken::new()).unwrap(),
        "Found 5 files.\n[notes]\nnotes\n[**/*.rs]\nmain.rs\n... and 3 more; narrow the pattern to see them"
    );
}

#[test]
fn a_pattern_that_makes_no_sense_is_refused() {
    check(json!({}), "error: no search pattern; pass `pattern`");
    check(json!({ "pattern": " ", "patterns": [] }), "error: no search pattern; pass `pattern`");
    let outside =
        |it: &str| format!("error: `{it}` is outside the working directory; use a path inside it");
    for pattern in ["../x", "/etc/passwd", "../*.rs", "src/../../*", "/etc/*"] {
        check(json!({ "pattern": pattern }), &outside(pattern));
    }
    check(
        json!({ "pattern": "a[b" }),
        "error: invalid pattern `a[b`: unclosed character class; missing ']'",
    );
}

#[test]
fn up_to_thirty_two_patterns_are_looked_for() {
    let home = world();
    let tool = SearchFiles::in_dir(home.path());
    let search = |count: usize| {
        let patterns: Vec<_> = (0..count).map(|it| format!("{it}.rs")).collect();
        let args = serde_json::from_value(json!({ "patterns": patterns })).unwrap();
        tool.search(&args, &CancellationToken::new())
    };
    assert!(search(32).is_ok());
    let error = search(33).unwrap_err().to_string();
    assert!(error.contains("pass at most 32 patterns"), "{error}");
}

#[test]
fn skipped_folders_are_reported() {
    let cut = "[There are too many files to search all of them; search in a subdirectory.]";
    let unread = "[2 directories could not be read.]";
    assert_eq!(notes(Missed { is_cut: true, folders: 2 }), [cut, unread]);
    assert_eq!(notes(Missed { is_cut: false, folders: 2 }), [unread]);
    assert!(notes(Missed::default()).is_empty());
}
