//! `files`: the tools by hand.

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
fn what_is_refused_ends_with_8() {
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
