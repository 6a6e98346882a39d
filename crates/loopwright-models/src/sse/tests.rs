use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

type Owned = (String, String, bool);

fn events_of(pieces: &[&[u8]]) -> Vec<Owned> {
    let mut events = Vec::new();
    let mut take = |event: Event<'_>| -> Result<(), Infallible> {
        let data = String::from_utf8_lossy(event.data).into_owned();
        events.push((event.kind.to_owned(), data, event.terminated));
        Ok(())
    };
    let mut decoder = Decoder::new();
    for piece in pieces {
        decoder.push(piece, &mut take).unwrap();
    }
    decoder.finish(&mut take).unwrap();
    events
}

/// Checks what a stream means, whole and byte by byte.
fn check(stream: &str, expect: &[(&str, &str, bool)]) {
    let expect: Vec<Owned> =
        expect.iter().map(|(kind, data, end)| ((*kind).into(), (*data).into(), *end)).collect();
    assert_eq!(events_of(&[stream.as_bytes()]), expect, "whole");
    let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(events_of(&bytes), expect, "byte by byte");
}

#[test]
fn an_event_ends_at_a_blank_line() {
    check("data: a\n\ndata: b\n\n", &[("message", "a", true), ("message", "b", true)]);
}

#[test]
fn every_line_ending_is_understood() {
    check("data: a\r\n\r\ndata: b\r\n\r\n", &[("message", "a", true), ("message", "b", true)]);
    check("data: a\r\rdata: b\r\r", &[("message", "a", true), ("message", "b", true)]);
    check("data: a\r\n\ndata: b\n\r\n", &[("message", "a", true), ("message", "b", true)]);
}

#[test]
fn comments_blank_lines_and_unknown_fields_say_nothing() {
    check("\n\n: keepalive\n\nfoo: bar\nid: 7\nretry: 5\n\n", &[]);
    check(": c\ndata: a\n: c\nid: 7\n\n", &[("message", "a", true)]);
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_only() {
    check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[("message", "a", true)]);
    check("\u{feff}\ndata: a\n\n", &[("message", "a", true)]);
}

#[test]
fn one_space_after_the_colon_is_optional() {
    check("data:a\n\ndata:  b\n\n", &[("message", "a", true), ("message", " b", true)]);
}

#[test]
fn data_lines_are_joined() {
    check("data: a\ndata: b\ndata:\ndata: c\n\n", &[("message", "a\nb\n\nc", true)]);
    check("data\n\n", &[("message", "", true)]);
}

#[test]
fn the_type_belongs_to_one_event() {
    check(
        "event: error\ndata: a\n\ndata: b\n\nevent: x\n\ndata: c\n\n",
        &[("error", "a", true), ("message", "b", true), ("message", "c", true)],
    );
    check("data: a\nevent: late\n\n", &[("late", "a", true)]);
}

#[test]
fn an_open_event_is_handed_out_at_the_end() {
    check("data: a", &[("message", "a", false)]);
    check("data: a\n", &[("message", "a", false)]);
    check("data: a\r", &[("message", "a", false)]);
    check("event: x\n", &[]);
}

#[test]
fn a_refused_event_ends_the_push() {
    let mut seen = 0;
    let refused = Decoder::new().push(b"data: a\n\ndata: b\n\n", |_| {
        seen += 1;
        Err("no")
    });
    assert_eq!((refused, seen), (Err("no"), 1));
}

/// Rewrites a stream in a way that must not change what it means.
fn rewrite(events: &[(Option<&str>, Vec<String>)], line_end: &str, noise: u8) -> String {
    let (space, end) = (if noise & 2 != 0 { "" } else { " " }, line_end);
    let mut lines = Vec::new();
    for (kind, data) in events {
        if noise & 4 != 0 {
            lines.extend([": comment".to_owned(), String::new()]);
        }
        if noise & 8 != 0 {
            lines.extend(["id: 1".to_owned(), "retry: 10".to_owned()]);
        }
        lines.extend(kind.map(|kind| format!("event:{space}{kind}")));
        lines.extend(data.iter().map(|line| format!("data:{space}{line}")));
        lines.push(String::new());
        if noise & 16 != 0 {
            lines.push(String::new());
        }
    }
    lines.push(String::new());
    let mark = if noise & 1 != 0 { "\u{feff}" } else { "" };
    mark.to_owned() + &lines.join(end)
}

fn cut<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

fn streams() -> impl Strategy<Value = Vec<(Option<&'static str>, Vec<String>)>> {
    let kind = prop_oneof![Just(None), Just(Some("ping")), Just(Some("error"))];
    // A leading space would be one that the form without a space loses.
    let line = "[a-zé😀:{}\"]{1}[a-zé😀:{}\" ]{0,8}";
    prop::collection::vec((kind, prop::collection::vec(line, 1..4)), 0..6)
}

proptest! {
    #[test]
    fn neither_rewriting_nor_cutting_changes_the_events(
        events in streams(),
        line_end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
        noise in 0_u8..32,
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let expect: Vec<Owned> = events
            .iter()
            .map(|(kind, data)| (kind.unwrap_or("message").into(), data.join("\n"), true))
            .collect();
        let stream = rewrite(&events, line_end, noise);
        prop_assert_eq!(events_of(&cut(stream.as_bytes(), &cuts)), expect);
    }

    #[test]
    fn cutting_garbage_changes_nothing(
        bytes in prop::collection::vec(
            prop::sample::select(b"\r\n: datevn\xEF\xBB\xBF\x00".to_vec()), 0..200),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        prop_assert_eq!(events_of(&cut(&bytes, &cuts)), events_of(&[&bytes]));
    }
}
