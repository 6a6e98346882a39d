use std::io::Write as _;

use super::*;

fn two() -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, 7, b"head", b"body").unwrap();
    write(&mut bytes, 7, b"", b"").unwrap();
    bytes
}

#[test]
fn a_frame_is_read_as_it_was_written() {
    let bytes = two();
    let scan = scan(&bytes, 7);
    let parts: Vec<_> = scan.frames.iter().map(|it| (it.head.clone(), it.body.clone())).collect();
    assert_eq!(parts, [(20..24, 24..28), (56..56, 56..56)]);
    assert_eq!((&bytes[20..24], &bytes[24..28]), (&b"head"[..], &b"body"[..]));
    assert_eq!((scan.end, scan.ending), (7 + bytes.len() as u64, LogTail::Clean));
}

#[test]
fn a_frame_is_none_at_another_place() {
    assert_eq!(read(&two(), 8, 0), None);
    assert_eq!(scan(&two(), 6), Scan { frames: vec![], end: 6, ending: LogTail::CorruptTail });
}

#[test]
fn any_changed_byte_is_noticed() {
    let bytes = two();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 0x10;
        let Scan { frames, ending, .. } = scan(&changed, 7);
        let expect = if place < 36 {
            (0, LogTail::CorruptMiddle { again: 43 })
        } else {
            (1, LogTail::CorruptTail)
        };
        assert_eq!((frames.len(), ending), expect, "byte {place}");
    }
}

#[test]
fn a_frame_is_found_after_any_bytes() {
    for before in [&b""[..], b"\xfe", b"\xfeLW\xfeLWf", &[0xfe; 50]] {
        let mut bytes = before.to_vec();
        write(&mut bytes, 0, b"head", b"").unwrap();
        assert_eq!(find(&bytes, 0, 0).map(|it| it.at.start), Some(before.len()));
        assert_eq!(find(&bytes, 0, before.len() + 1), None);
    }
}

#[test]
fn long_frames_are_read_by_their_beginning_and_by_their_end() {
    let mut file = tempfile::tempfile().unwrap();
    let (head, body) = (vec![b'h'; 9_000], vec![b'b'; 9_000]);
    let mut bytes = two();
    bytes.splice(..0, *b"1234567");
    let at = bytes.len() as u64;
    write(&mut bytes, 0, &head, &body).unwrap();
    file.write_all(&bytes).unwrap();
    let end = bytes.len() as u64;
    let whole = OwnedFrame { at, head: head.clone(), body };
    assert!(head_at(&mut file, at).unwrap() == Some(head));
    assert!(beginning_at(&mut file, at).unwrap().as_ref() == Some(&whole));
    assert!(ending_at(&mut file, end).unwrap() == Some(whole));
    let short = OwnedFrame { at: 7, head: b"head".to_vec(), body: b"body".to_vec() };
    assert_eq!(beginning_at(&mut file, 7).unwrap(), Some(short.clone()));
    assert_eq!(ending_at(&mut file, 43).unwrap(), Some(short));
    for elsewhere in [0, 6, 8, 42, 44, end - 1, end + 1, end + 1_000_000] {
        assert_eq!(beginning_at(&mut file, elsewhere).unwrap(), None);
        assert_eq!(ending_at(&mut file, elsewhere).unwrap(), None);
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let mut bytes = two();
    for place in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let before = std::mem::replace(&mut bytes[place], value);
            for end in 0..=bytes.len() {
                let scan = scan(&bytes[..end], 7);
                assert!(scan.end <= 7 + end as u64);
            }
            bytes[place] = before;
        }
    }
}
