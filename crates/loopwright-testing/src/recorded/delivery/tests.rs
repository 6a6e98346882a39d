use super::*;

const STREAM: &str = "event: a\ndata: {\"é\":1}\n\ndata: 2\n\n";

#[test]
fn pieces_are_the_body_in_order() {
    for chunking in [Chunking::Awkward, Chunking::One, Chunking::Whole] {
        assert_eq!(chunking.pieces(STREAM.as_bytes()).concat(), STREAM.as_bytes());
        assert!(chunking.pieces(b"").is_empty());
    }
}

#[test]
fn awkward_pieces_cut_where_decoders_go_wrong() {
    let pieces = Chunking::Awkward.pieces("xxxxxx\r\n\n\nxxxxxé".as_bytes());
    for (end, begin) in [(&b"\r"[..], &b"\n"[..]), (b"\n", b"\n"), (b"\xC3", b"\xA9")] {
        let is_cut = |pair: &[&[u8]]| pair[0].ends_with(end) && pair[1].starts_with(begin);
        assert!(pieces.windows(2).any(is_cut), "{end:?}{begin:?} is not cut: {pieces:?}");
    }
}

#[test]
fn a_stream_is_rewritten_by_the_rules() {
    let check = |mutation: Mutation, expect: &str| {
        let mutated = mutation.apply("data: 1\n\ndata: 2\n\n".as_bytes());
        assert_eq!(String::from_utf8(mutated).unwrap(), expect, "{mutation:?}");
    };
    check(Mutation::CrLf, "data: 1\r\n\r\ndata: 2\r\n\r\n");
    check(Mutation::Cr, "data: 1\r\rdata: 2\r\r");
    check(
        Mutation::Comments,
        ": connected\n\ndata: 1\n\n: keep-alive\n\ndata: 2\n\n: keep-alive\n\n",
    );
    check(Mutation::NoSpace, "data:1\n\ndata:2\n\n");
    check(Mutation::Bom, "\u{feff}data: 1\n\ndata: 2\n\n");
    check(Mutation::IdRetry, "data: 1\n\nid: 1\nretry: 3000\ndata: 2\n\n");
    check(Mutation::BlankLines, "\ndata: 1\n\n\n\ndata: 2\n\n\n\n");
}

#[test]
fn events_lines_and_frames_cover_the_body() {
    assert_eq!(events(STREAM.as_bytes()), [0..25, 25..34]);
    assert_eq!(lines(b"a\nb"), [0..2, 2..3]);
    assert_eq!(frames(b"\0\0\0\x05x\0\0\0\x09y"), [0..5, 5..10]);
    assert!(frames(b"\0\0\0\0").is_empty());
}
