use super::*;

/// Writes a message with these headers, all of them texts.
pub(crate) fn message(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in headers {
        bytes.push(u8::try_from(name.len()).unwrap());
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(7);
        bytes.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    raw_message(&bytes, payload.as_bytes())
}

/// Writes an event.
pub(crate) fn event(kind: &str, payload: &str) -> Vec<u8> {
    message(&[(":event-type", kind), (":message-type", "event")], payload)
}

fn raw_message(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = PRELUDE + headers.len() + payload.len() + CHECKSUM;
    let mut bytes = u32::try_from(length).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(&u32::try_from(headers.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(headers);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

type Split = (Vec<(String, String)>, Result<(), Fault<()>>);

fn split_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Split {
    let mut events = Vec::new();
    let mut decoder = Decoder::default();
    let mut take = |event: Event<'_>| {
        events.push((event.kind.to_owned(), String::from_utf8_lossy(event.data).into_owned()));
        Ok(())
    };
    for piece in pieces {
        if let Err(fault) = decoder.push(piece, &mut take) {
            return (events, Err(fault));
        }
    }
    (events, decoder.finish())
}

fn some(kind: &str, data: &str) -> (String, String) {
    (kind.to_owned(), data.to_owned())
}

#[test]
fn the_empty_message_of_the_protocols_own_tests_is_read() {
    let bytes = [0, 0, 0, 16, 0, 0, 0, 0, 0x05, 0xC2, 0x48, 0xEB, 0x7D, 0x98, 0xC8, 0xFF];
    assert_eq!(Frame::first(&bytes), Ok(Some((Frame::default(), 16))));
}

#[test]
fn events_are_told_apart_however_they_arrive() {
    let bytes = [event("a", "{1}"), event("b", ""), event("c", "{2}")].concat();
    let expect = (vec![some("a", "{1}"), some("b", ""), some("c", "{2}")], Ok(()));
    for size in [1, 2, 7, 50, bytes.len()] {
        assert_eq!(split_pieces(bytes.chunks(size)), expect, "{size}");
    }
}

#[test]
fn headers_of_every_type_are_passed_over() {
    let mut headers = Vec::new();
    for (kind, length) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
        headers.extend_from_slice(&[1, b'x', kind]);
        headers.extend(std::iter::repeat_n(0, length));
    }
    headers.extend_from_slice(
        b"\x01x\x06\0\x02ab\x0d:message-type\x07\0\x05event\x0b:event-type\x07\0\x01k",
    );
    let bytes = raw_message(&headers, b"p");
    assert_eq!(split_pieces([&bytes[..]]), (vec![some("k", "p")], Ok(())));
}

#[test]
fn exceptions_and_errors_are_errors() {
    let exception = |payload| {
        message(&[(":message-type", "exception"), (":exception-type", "slowDown")], payload)
    };
    let headers =
        [(":message-type", "error"), (":error-code", "slowDown"), (":error-message", "m")];
    for bytes in
        [exception(r#"{"message":"m"}"#), exception(r#"{"Message":"m"}"#), message(&headers, "")]
    {
        let expect = vec![some("error", r#"{"code":"slowDown","message":"m"}"#)];
        assert_eq!(split_pieces([&bytes[..]]), (expect, Ok(())));
    }
    let expect = vec![some("error", r#"{"code":"slowDown","message":""}"#)];
    assert_eq!(split_pieces([&exception("?")[..]]), (expect, Ok(())));
}

#[test]
fn a_changed_byte_is_noticed() {
    let bytes = event("a", "{1}");
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x40;
        let (events, end) = split_pieces([&bytes[..]]);
        assert_eq!(events, [], "{at}");
        assert!(end.is_err(), "{at}");
    }
}

#[test]
fn a_stream_that_breaks_off_within_a_message_is_broken() {
    let bytes = event("a", "{1}");
    for cut in 1..bytes.len() {
        let expect = (Vec::new(), Err(Fault::Broken("the response was cut off")));
        assert_eq!(split_pieces([&bytes[..cut]]), expect, "{cut}");
    }
}

#[test]
fn lengths_and_headers_that_make_no_sense_are_broken() {
    let mut short = 15_u32.to_be_bytes().to_vec();
    short.extend_from_slice(&0_u32.to_be_bytes());
    short.extend_from_slice(&crc32fast::hash(&short).to_be_bytes());
    short.extend_from_slice(b"abc");
    let broken = |message| (Vec::new(), Err(Fault::Broken(message)));
    assert_eq!(split_pieces([&short[..]]), broken("an event is shorter than its headers"));
    for headers in
        [&b"\x05abc"[..], b"\x01a\x0A", b"\x01a\x07\xFF\xFFa", b"\x0b:event-type\x07\0\x01\xFF"]
    {
        let bytes = raw_message(headers, b"{}");
        let expect = broken("the headers of an event are malformed");
        assert_eq!(split_pieces([&bytes[..]]), expect, "{headers:?}");
    }
}
