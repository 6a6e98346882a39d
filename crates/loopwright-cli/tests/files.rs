//! `files`: the tools by hand.

use std::fs;

use crate::terminal::Terminal;
use crate::world::World;

#[test]
fn a_file_is_written_edited_and_read() {
    let world = World::new();
    let run = |line: &[&str]| world.run(&[&["files"], line].concat());
    let done = run(&["write", "-C", ".", "b.txt", "-one\n"]);
    assert_eq!(
        (done.status, done.stdout.as_str(), done.stderr.as_str()),
        (0, "Successfully wrote b.txt (5 bytes, 2 lines, streamed atomically).\n", "")
    );
    assert_eq!(run(&["write", "b.txt", "other"]).status, 2);
    assert_eq!(run(&["edit", "b.txt", "-one", "two"]).status, 0);
    assert_eq!(run(&["read", "b.txt"]).stdout, "     1\ttwo\n");
    assert_eq!(run(&["list"]).stdout, "[dir] .git\n[file] a.txt\n[file] b.txt\n");
    assert_eq!(run(&["search", "b.txt"]).stdout, "Found 1 file.\n[b.txt]\nb.txt\n");
    assert_eq!(run(&["grep", "tw."]).stdout, "a.txt:2:two\nb.txt:1:two\n");
}

#[test]
fn a_refused_file_operation_ends_with_8() {
    let world = World::new().file("secret", "s");
    for line in [["read", "../secret"], ["read", "/etc/passwd"], ["list", ".."], ["search", "../*"]]
    {
        let done = world.run(&["files", line[0], line[1]]);
        assert_eq!((done.status, done.stdout.as_str()), (8, ""), "{line:?}");
        assert!(done.stderr.contains("is outside the working directory"), "{}", done.stderr);
    }
    let done = world.run(&["files", "write", "--create-dirs", ".git/hooks/pre-commit", "evil"]);
    assert_eq!(done.status, 8);
    assert!(done.stderr.contains("is protected"), "{}", done.stderr);
    let done = world.run(&["files", "read", "-C", "missing", "a"]);
    assert_eq!(done.status, 2);
}

#[test]
fn control_characters_of_files_are_escaped_in_a_terminal_and_whole_in_a_pipe() {
    let text = "one \u{1b}[2J\u{1b}]0;title\u{7} \u{9b}31m \u{202e}two";
    let world = World::new().file("project/b.txt", text);
    fs::write(world.path("project/\u{1b}[31mred.txt"), "").unwrap();
    for line in [["files", "read", "b.txt"], ["files", "grep", "one"], ["files", "list", "."]] {
        let seen = Terminal::new(80).run(&world, &line);
        let steering: Vec<char> =
            seen.written.chars().filter(|c| c.is_control() && !"\r\n\t".contains(*c)).collect();
        assert_eq!((seen.status, steering), (0, vec![]), "{line:?} {:?}", seen.written);
        assert!(!seen.written.contains('\u{202e}'), "{line:?}");
    }
    assert_eq!(world.run(&["files", "read", "b.txt"]).stdout, format!("     1\t{text}\n"));
}
