use std::io::{BufReader, Cursor};

use super::*;

const START: Start = Start { line: 0, byte: 0, at: At::Beginning };

fn page(text: &[u8], lines: u64, bytes: usize) -> Page {
    read(&mut BufReader::with_capacity(7, text), START, Bounds { lines, bytes }).unwrap()
}

#[track_caller]
fn check(text: &str, lines: u64, bytes: usize, expect: &str, end: End) {
    let page = page(text.as_bytes(), lines, bytes);
    assert_eq!((page.text.as_str(), page.end), (expect, end));
}

#[test]
fn lines_have_numbers_six_wide() {
    check("one\ntwo\n", 10, 1000, "     1\tone\n     2\ttwo\n", End::File);
    check("no end", 10, 1000, "     1\tno end\n", End::File);
    check("a\r\n\n", 10, 1000, "     1\ta\r\n     2\t\n", End::File);
}

#[test]
fn a_page_ends_at_its_bounds_and_not_before() {
    check("a\nb\n", 2, 1000, "     1\ta\n     2\tb\n", End::File);
    check("a\nb\nc", 2, 1000, "     1\ta\n     2\tb\n", End::Full);
    check("a\nb\n", 2, 18, "     1\ta\n     2\tb\n", End::File);
    check("a\nb\n", 2, 17, "     1\ta\n", End::Full);
    check("a\n", 1, 1, "     1\ta\n", End::File);
}

#[test]
fn a_line_longer_than_a_page_is_shown_in_part() {
    let text = format!("{}\nnext\n", "ä".repeat(5000));
    let first = page(text.as_bytes(), 5, 1000);
    assert_eq!(first.text, format!("     1\t{}…\n", "ä".repeat(2048)));
    assert_eq!((first.line, first.byte, first.end), (0, 4096, End::LongLine));
    let start = Start { line: 0, byte: 4096, at: At::Middle };
    let mut rest = BufReader::new(&text.as_bytes()[4096..]);
    let rest = read(&mut rest, start, Bounds { lines: 5, bytes: 8000 }).unwrap();
    assert_eq!(rest.text, format!("     1\t…{}\n     2\tnext\n", "ä".repeat(2952)));
    assert_eq!((rest.line, rest.byte, rest.end), (2, 10006, End::File));
}

#[test]
fn an_odd_character_is_never_cut() {
    let text = format!("x{}", "€".repeat(3000));
    let page = page(text.as_bytes(), 1, 100);
    assert_eq!(page.text, format!("     1\tx{}…\n", "€".repeat(1365)));
    assert!(!page.has_noise);
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_reported() {
    let page = page(b"caf\xe9\na\0b\n", 5, 1000);
    assert_eq!(page.text, "     1\tcaf\u{FFFD}\n     2\ta\u{FFFD}b\n");
    assert!(page.has_noise);
}

#[test]
fn lines_are_skipped_and_counted() {
    let skipped = |text: &str, lines| {
        let mut reader = BufReader::with_capacity(3, Cursor::new(text.to_owned()));
        skip(&mut reader, lines, &CancellationToken::new()).unwrap()
    };
    assert_eq!(skipped("a\nbb\nccc\n", 0), (0, 0));
    assert_eq!(skipped("a\nbb\nccc\n", 2), (2, 5));
    assert_eq!(skipped("a\nbb\nccc\n", 3), (3, 9));
    assert_eq!(skipped("a\nbb\nccc\n", 4), (3, 9));
    assert_eq!(skipped("a\nbb", 2), (2, 4));
    assert_eq!(skipped("a\nbb", 9), (2, 4));
    assert_eq!(skipped("", 1), (0, 0));
}

#[test]
fn skipping_lines_ends_when_the_call_is_dropped() {
    let stop = CancellationToken::new();
    stop.cancel();
    let error = skip(&mut BufReader::new(&b"a\nb\n"[..]), 1, &stop).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Interrupted);
}
