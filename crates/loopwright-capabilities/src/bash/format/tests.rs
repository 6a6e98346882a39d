use loopwright_sandbox::Limit;

use super::*;

fn said(output: &Output, policy: &BashPolicy) -> String {
    report(output, policy, 120.0)
}

#[track_caller]
fn check(output: &Output, expect: &str) {
    assert_eq!(said(output, &BashPolicy::default()), expect);
}

#[test]
fn a_command_is_told_by_its_output() {
    check(&Output::exited(0, "hello\n", ""), "hello");
    check(&Output::exited(0, "", ""), "(no output)");
    check(&Output::exited(0, " \n", ""), "(no output)");
    check(&Output::exited(1, "", ""), "Exit code: 1");
    check(&Output::exited(2, "out\n", "err\n"), "Exit code: 2\n\nout\n\nSTDERR:\nerr");
    let noted = Output { notes: vec!["moved away".into()], ..Output::exited(0, "", "") };
    check(&noted, "[moved away]");
}

#[test]
fn an_end_that_was_not_its_own_comes_first() {
    let ended = |outcome| Output { outcome, ..Output::exited(0, "so far", "") };
    check(
        &ended(ExitOutcome::TimedOut(TimeoutKind::Wall)),
        "The command timed out after 120 seconds and was stopped.\n\nExit code: 124\n\nso far",
    );
    check(
        &ended(ExitOutcome::Signalled(11)),
        "The command was terminated by signal 11.\n\nExit code: 139\n\nso far",
    );
    check(
        &ended(ExitOutcome::LimitReached(Limit::Memory)),
        "The command used more memory than allowed.\n\nExit code: 137\n\nso far",
    );
}

#[test]
fn long_output_is_shown_by_its_beginning_and_its_end() {
    let output = Output::exited(0, "0123456789ABCDEFGHIJ", "");
    assert_eq!(
        said(&output, &BashPolicy::with_limits(10, 4, 6)),
        "[output truncated]\n0123\n...\nEFGHIJ\n[10 of 20 captured bytes of stdout are shown; limit the output, or redirect it to a file and read parts of it with read_file]"
    );
    let shown = |policy: BashPolicy| said(&output, &policy).lines().nth(1).unwrap().to_owned();
    assert_eq!(shown(BashPolicy::with_limits(10, 0, 6)), "ABCDEFGHIJ");
    assert_eq!(shown(BashPolicy::with_limits(10, 10, 6)), "0123456789");
    assert_eq!(shown(BashPolicy::with_limits(10, 99, 6)), "0123456789");
    assert_eq!(said(&output, &BashPolicy::with_limits(10, 2, 3)).lines().nth(3), Some("CDEFGHIJ"));
    assert_eq!(said(&output, &BashPolicy::with_limits(0, 0, 0)), "0123456789ABCDEFGHIJ");
    assert_eq!(said(&output, &BashPolicy::with_limits(20, 1, 1)), "0123456789ABCDEFGHIJ");
}

#[test]
fn output_beyond_the_capture_says_so() {
    let stdout = CapturedOutput {
        head: "a".repeat(1024).into(),
        tail: "z".repeat(3072).into(),
        total: 9000,
    };
    let output = Output { stdout, ..Output::exited(0, "", "") };
    assert_eq!(
        said(&output, &BashPolicy::with_limits(10, 4, 6)),
        "[output truncated]\naaaa\n...\nzzzzzz\n[stdout had 9000 bytes, which exceeds the capture limit of 4096 bytes; limit the output, or redirect it to a file and read parts of it with read_file]"
    );
}

#[test]
fn characters_are_not_cut() {
    let output = Output::exited(0, "ääääääääää", "");
    let shown = said(&output, &BashPolicy::with_limits(10, 3, 7));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[1..4], ["ä", "...", "äää"]);
    assert!(!shown.contains('\u{FFFD}'));
}

#[test]
fn only_the_beginning_or_only_the_end_is_shown_without_dots() {
    assert_eq!(window(b"abcdef", b"abcdef", 2, 0), "ab");
    assert_eq!(window(b"abcdef", b"abcdef", 0, 2), "ef");
    assert_eq!(window(b"abcdef", b"abcdef", 2, 2), "ab\n...\nef");
}
