//! Changes of files by tools, commands and hooks, undone together.

use std::fs;

use serde_json::json;

use super::Place;
use crate::server::{streamed, streamed_call, streamed_tool};
use crate::world::World;

#[test]
fn what_a_hook_makes_of_changed_files_is_undone_with_the_call() {
    let line = "for f in a.txt made.txt; do [ ! -f $f ] || echo formatted >> $f; done";
    let hook = json!({ "type": "command", "command": line });
    let group = json!({ "matcher": "Edit|Bash", "hooks": [hook] });
    let hooks = json!({ "hooks": { "PostToolUse": [group] } }).to_string();
    let edit = json!({ "path": "a.txt", "old_string": "one", "new_string": "two" });
    let replies = [
        streamed_tool("", "edit_file", &edit),
        streamed_call("", "echo made > made.txt; echo three >> a.txt"),
        streamed("Done.", "stop"),
    ];
    let place = Place::within(World::new().file(".config/loopwright/hooks.json", &hooks), replies);
    let read = |name: &str| fs::read_to_string(place.world.path("project").join(name)).ok();
    let before = read("a.txt");
    let id = place.ran(&["Edit."]);
    let edited = "two\ntwo\nformatted\nthree\nformatted\n";
    assert_eq!(
        (read("a.txt").as_deref(), read("made.txt").as_deref()),
        (Some(edited), Some("made\nformatted\n"))
    );
    let done = place.sessions(&["rewind", "--files", &id, "0"]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(!done.stderr.contains("not restored"), "{}", done.stderr);
    assert_eq!((read("a.txt"), read("made.txt")), (before, None));
}

#[test]
fn a_rewind_names_commands_whose_changes_it_cannot_undo_and_keeps_the_undo_for_the_right_folder() {
    let start = json!({ "command": "echo late > late.txt" });
    let replies = [
        streamed_tool("", "bash_start", &start),
        streamed_call("", "rm a.txt; echo made > made.txt"),
        streamed("Done.", "stop"),
    ];
    let place = Place::new(replies);
    let read = |name: &str| fs::read_to_string(place.world.path("project").join(name)).ok();
    let before = read("a.txt");
    let id = place.ran(&["Start."]);
    let [project, away] = ["project", "away"].map(|name| place.world.path(name));
    fs::rename(&project, &away).unwrap();
    fs::create_dir(&project).unwrap();
    let rewind = || place.sessions(&["rewind", "--files", &id, "0"]);
    let done = rewind();
    let told = "file changes that `echo late > late.txt` (bash_start) may have made were not undone
";
    assert!(done.status == 0 && done.stderr.contains(told), "{}", done.stderr);
    for path in ["a.txt", "made.txt"] {
        let told = format!("{path} was not restored: another folder is now at the path");
        assert!(done.stderr.contains(&told), "{}", done.stderr);
    }
    assert_eq!(read("a.txt"), None);
    fs::remove_dir_all(&project).unwrap();
    fs::rename(&away, &project).unwrap();
    let done = rewind();
    assert_eq!((read("a.txt"), read("made.txt")), (before, None), "{}", done.stderr);
}

#[test]
fn rewinding_undoes_what_commands_and_file_tools_did_in_turn() {
    let edit = |new: &str| {
        let arguments = json!({"path": "made.txt", "old_string": "one", "new_string": new});
        streamed_tool("", "edit_file", &arguments)
    };
    let run = |command: &str| streamed_call("", command);
    let replies = [
        run("echo one > made.txt; mkdir -p d; echo in > d/f; rm a.txt"),
        edit("two"),
        run("echo three >> made.txt; mv d e"),
        streamed("Done.", "stop"),
    ];
    let place = Place::new(replies);
    let read = |name: &str| fs::read_to_string(place.world.path("project").join(name)).ok();
    let id = place.ran(&["Write."]);
    let now = ["made.txt", "e/f", "d/f", "a.txt"].map(read);
    assert_eq!(now, [Some("two\nthree\n".into()), Some("in\n".into()), None, None]);
    let rewind = |step: &str| place.sessions(&["rewind", "--files", &id, step]);
    let done = rewind("2");
    assert_eq!(done.status, 0, "{}", done.stderr);
    let now = ["made.txt", "e/f", "d/f", "a.txt"].map(read);
    assert_eq!(now, [Some("two\n".into()), None, Some("in\n".into()), None]);
    let done = rewind("0");
    assert_eq!(done.status, 0, "{}", done.stderr);
    let now = ["made.txt", "e/f", "d/f", "a.txt"].map(read);
    assert_eq!(now, [None, None, None, Some("one\ntwo\n".into())]);
    assert!(done.stderr.contains("made.txt removed"), "{}", done.stderr);
}
