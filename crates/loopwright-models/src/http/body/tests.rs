use http::header::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

fn framing(list: &[(&'static str, &'static str)]) -> Result<Framing, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in list {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    Framing::of(200, &headers).map_err(|error| error.to_string())
}

/// Reads a body that comes in pieces of so many bytes: what it is, and whether its end was seen.
fn read(mut framing: Framing, text: &[u8], pieces: usize) -> io::Result<(Vec<u8>, bool)> {
    let (mut buffer, mut body) = (BytesMut::new(), Vec::new());
    let mut coming = text.chunks(pieces);
    loop {
        match framing.take(&mut buffer)? {
            Piece::Bytes(bytes) => body.extend_from_slice(&bytes),
            Piece::End => return Ok((body, true)),
            Piece::Missing(_) => match coming.next() {
                Some(more) => buffer.extend_from_slice(more),
                None => return Ok((body, false)),
            },
        }
    }
}

#[test]
fn headers_say_where_a_body_ends() {
    assert_eq!(framing(&[]), Ok(Framing::UntilClose));
    assert_eq!(framing(&[("content-length", "12")]), Ok(Framing::Length(12)));
    assert_eq!(
        framing(&[("content-length", "3, 3"), ("content-length", "3")]),
        Ok(Framing::Length(3))
    );
    let chunked = Ok(Framing::Chunked(Chunk::Size));
    assert_eq!(framing(&[("transfer-encoding", "Chunked"), ("content-length", "3")]), chunked);
    assert_eq!(
        framing(&[("content-encoding", "identity"), ("transfer-encoding", "chunked")]),
        chunked
    );
    assert_eq!(Framing::of(204, &HeaderMap::new()).unwrap(), Framing::Length(0));
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let number = Err("the response length is not a number".to_owned());
    for length in ["", "-1", "+1", "1x", "99999999999999999999", "1, 2"] {
        assert_eq!(framing(&[("content-length", length)]), number, "{length}");
    }
    for (header, words) in [
        (
            ("transfer-encoding", "gzip, chunked"),
            "the response has an encoding that was not requested",
        ),
        (
            ("content-encoding", "gzip"),
            "the response is compressed, although compression was not \
            requested",
        ),
    ] {
        assert_eq!(framing(&[header]), Err(words.to_owned()));
    }
}

#[test]
fn chunks_are_put_together_wherever_they_are_cut() {
    let text = b"5\r\nhello\r\n1;a=b\r\n \r\n00A\nto you all\r\n0\r\nx: y\r\n\r\n";
    for pieces in 1..=text.len() {
        let read = read(Framing::Chunked(Chunk::Size), text, pieces).unwrap();
        assert_eq!(read, (b"hello to you all".to_vec(), true), "{pieces}");
    }
    for end in 0..text.len() {
        let (body, is_whole) = read(Framing::Chunked(Chunk::Size), &text[..end], 7).unwrap();
        assert!(b"hello to you all".starts_with(&body[..]) && !is_whole, "{end}");
    }
}

#[test]
fn an_invalid_chunk_is_refused() {
    for text in ["x\r\n", "\r\n", "-1\r\n", "1 1\r\nab", "1\r\nab\r\n", "11111111111111111\r\n"] {
        let error = read(Framing::Chunked(Chunk::Size), text.as_bytes(), 64).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text}");
    }
    let endless = vec![b'1'; MAX_LINE + 1];
    let error = read(Framing::Chunked(Chunk::Size), &endless, MAX_LINE + 1).unwrap_err();
    assert_eq!(error.to_string(), "a line between chunks is too long");
}

#[test]
fn trailers_after_the_last_chunk_are_bounded() {
    let trailer = |lines: usize| [b"0\r\n".to_vec(), b"x: yyyyyyyyyyy\r\n".repeat(lines)].concat();
    let fits = [trailer(4096), b"\r\n".to_vec()].concat();
    assert_eq!(read(Framing::Chunked(Chunk::Size), &fits, 100).unwrap(), (Vec::new(), true));
    let error = read(Framing::Chunked(Chunk::Size), &trailer(5000), 100).unwrap_err();
    assert_eq!(error.to_string(), "the response trailers are too long");
}

#[test]
fn a_body_of_a_length_takes_no_more() {
    let mut buffer = BytesMut::from("abcdef");
    let mut framing = Framing::Length(4);
    assert_eq!(framing.take(&mut buffer).unwrap(), Piece::Bytes("abcd".into()));
    assert_eq!(framing.take(&mut buffer).unwrap(), Piece::End);
    assert_eq!(buffer, "ef");
    assert_eq!(read(Framing::UntilClose, b"abc", 2).unwrap(), (b"abc".to_vec(), false));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_hold_more_than_there_is(
        text in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'3'), any::<u8>()], 0..80),
        pieces in 1_usize..9,
    ) {
        if let Ok((body, _)) = read(Framing::Chunked(Chunk::Size), &text, pieces) {
            prop_assert!(body.len() <= text.len());
        }
    }
}
