use std::fs;

use serde_json::json;

use super::*;

fn check(content: &str, args: serde_json::Value, expect: &str, after: &str) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("f"), content).unwrap();
    let tool = EditFile::in_dir(home.path());
    let args: EditFileArgs = serde_json::from_value(args).unwrap();
    let said = tool.edit(&args).map_or_else(|error| format!("error: {error}"), |it| it.to_text());
    assert_eq!(said, expect);
    assert_eq!(fs::read_to_string(home.path().join("f")).unwrap(), after);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn one_edit_or_several() {
    check(
        "a b a",
        json!({ "path": "f", "old_string": "b", "new_string": "xy" }),
        "Replaced 1 occurrence in f (5 bytes before, 6 after; written atomically).",
        "a xy a",
    );
    check(
        "a b a",
        json!({ "path": "f", "old_string": "a", "new_string": "x", "replace_all": true }),
        "Replaced 2 occurrences in f (5 bytes before, 5 after; written atomically).",
        "x b x",
    );
    check(
        "a b c",
        json!({ "path": "f", "edits": [
            { "old_string": "a", "new_string": "1" },
            { "old_string": "c", "new_string": "3" },
        ] }),
        "Replaced 2 occurrences in f (5 bytes before, 5 after; written atomically).",
        "1 b 3",
    );
}

#[test]
fn several_edits_are_made_together_or_not_at_all() {
    check(
        "a b",
        json!({ "path": "f", "edits": [
            { "old_string": "a", "new_string": "1" },
            { "old_string": "z", "new_string": "3" },
        ] }),
        "error: `f` was not changed: edit 2 of 2: old_string was not found; read the file again and \
         copy the text exactly, without line numbers",
        "a b",
    );
}

#[test]
fn arguments_that_contradict_each_other_are_refused() {
    let error = "error: `f` was not changed: pass either old_string and new_string, or edits";
    check("a", json!({ "path": "f" }), error, "a");
    check("a", json!({ "path": "f", "old_string": "a" }), error, "a");
    check("a", json!({ "path": "f", "edits": [] }), error, "a");
}

#[test]
fn a_match_in_a_large_file_is_found_anywhere() {
    let filler = "x".repeat(4 << 20);
    let content = format!("{filler}needle{filler}");
    check(
        &content,
        json!({ "path": "f", "old_string": "xneedlex", "new_string": "-" }),
        "Replaced 1 occurrence in f (8388614 bytes before, 8388607 after; written atomically).",
        &content.replace("xneedlex", "-"),
    );
}

#[test]
fn a_file_that_is_not_there_is_not_made() {
    check(
        "",
        json!({ "path": "g", "old_string": "a", "new_string": "b" }),
        "error: `g` does not exist; look for it with `list_dir` or `search_files`",
        "",
    );
}
