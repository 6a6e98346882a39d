use proptest::prelude::*;

use super::*;

fn captured(pieces: &[&[u8]], head: usize, tail: usize) -> CapturedOutput {
    let mut capture = Capture::new(head, tail);
    for piece in pieces {
        capture.push(piece);
    }
    capture.finish()
}

#[test]
fn a_short_stream_is_kept_whole() {
    let captured = captured(&[b"abc", b"def"], 4, 4);
    assert_eq!((captured.omitted(), captured.to_text()), (0, "abcdef".into()));
}

#[test]
fn the_middle_of_a_long_stream_is_left_out() {
    let captured = captured(&[b"abcdefgh"], 2, 3);
    assert_eq!(captured, CapturedOutput { head: "ab".into(), tail: "fgh".into(), total: 8 });
    assert_eq!(captured.to_text(), "ab\n[3 bytes omitted]\nfgh");
}

#[test]
fn the_window_at_the_end_slides_to_the_last_byte() {
    let captured = captured(&[b"0123456789", b"ab", b"c"], 0, 4);
    assert_eq!(captured.tail, Bytes::from("9abc"));
}

#[test]
fn cuts_fall_on_whole_characters() {
    let captured = captured(&["aé€😀é€z".as_bytes()], 2, 3);
    assert_eq!(captured.to_text(), "a\n[14 bytes omitted]\nz");
    // What ends with a whole character ends there, wherever the last four bytes begin.
    let captured = self::captured(&["€€zzz".as_bytes()], 6, 1);
    assert_eq!(captured.to_text(), "€€\n[2 bytes omitted]\nz");
}

#[test]
fn nothing_can_be_kept_and_everything_is_counted() {
    let captured = captured(&[b"abc"], 0, 0);
    assert_eq!((captured.total, captured.to_text()), (3, "\n[3 bytes omitted]\n".into()));
}

proptest! {
    #[test]
    fn head_and_tail_are_those_of_the_whole(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
        head in 0_usize..30,
        tail in 0_usize..30,
    ) {
        let borrowed: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let whole = pieces.concat();
        let captured = captured(&borrowed, head, tail);
        prop_assert_eq!(captured.total, whole.len() as u64);
        prop_assert!(whole.starts_with(&captured.head) && whole.ends_with(&captured.tail));
        let kept = whole.len().min(head + tail);
        prop_assert_eq!(captured.head.len() + captured.tail.len(), kept);
        captured.to_text();
    }
}
