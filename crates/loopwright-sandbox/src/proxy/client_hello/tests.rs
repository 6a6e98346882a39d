use proptest::prelude::*;

use super::{ClientHello, read};

/// A first message with these extensions, in one record.
pub(crate) fn with_extensions(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, value) in extensions {
        list.extend(kind.to_be_bytes());
        list.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        list.extend(value);
    }
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    hello.extend(u16::try_from(list.len()).unwrap().to_be_bytes());
    hello.extend(list);
    record(&message(&hello))
}

pub(crate) fn server_name(name: &str) -> (u16, Vec<u8>) {
    let length = u16::try_from(name.len()).unwrap();
    let mut value = (length + 3).to_be_bytes().to_vec();
    value.push(0);
    value.extend(length.to_be_bytes());
    value.extend(name.as_bytes());
    (0, value)
}

fn message(hello: &[u8]) -> Vec<u8> {
    let length = u32::try_from(hello.len()).unwrap().to_be_bytes();
    [&[1, length[1], length[2], length[3]], hello].concat()
}

fn record(body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[22, 3, 1, length[0], length[1]], body].concat()
}

#[test]
fn the_name_of_the_server_is_found() {
    let hello = with_extensions(&[(10, vec![0, 2, 0, 29]), server_name("Example.com")]);
    assert_eq!(read(&hello), ClientHello::Named("example.com".to_owned()));
}

#[test]
fn a_message_is_read_at_every_length_and_over_several_records() {
    let hello = with_extensions(&[server_name("example.com")]);
    for length in 0..hello.len() {
        assert_eq!(read(&hello[..length]), ClientHello::Partial, "{length}");
    }
    let body = &hello[5..];
    for at in 1..body.len() {
        let spread = [record(&body[..at]), record(&body[at..])].concat();
        assert_eq!(read(&spread), ClientHello::Named("example.com".to_owned()), "{at}");
    }
}

#[test]
fn other_protocols_and_hidden_or_missing_names_are_refused() {
    let two = with_extensions(&[server_name("example.com"), server_name("other.com")]);
    let hidden = with_extensions(&[server_name("example.com"), (0xFE0D, vec![0, 1])]);
    let address = with_extensions(&[server_name("127.0.0.1")]);
    let with_zero = with_extensions(&[server_name("example.com\0.other.com")]);
    let unnamed = with_extensions(&[(10, vec![])]);
    let ssh = b"SSH-2.0-OpenSSH_9.2\r\n".to_vec();
    let http = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    for bytes in [two, hidden, address, with_zero, unnamed, ssh, http] {
        assert!(matches!(read(&bytes), ClientHello::Refused(_)), "{bytes:?}");
    }
}

#[test]
fn a_message_without_an_end_is_refused() {
    let endless: Vec<u8> = std::iter::repeat_n(record(&[1]), 1)
        .chain(std::iter::repeat_n(record(&[0]), 4000))
        .flatten()
        .collect();
    assert!(matches!(read(&endless), ClientHello::Refused(_) | ClientHello::Named(_)));
    let large = record(&[1, 0xFF, 0xFF, 0xFF]);
    assert!(matches!(read(&large), ClientHello::Refused(_)));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        drop(read(&bytes));
        drop(read(&record(&message(&bytes))));
    }

    #[test]
    fn a_changed_byte_never_yields_another_name_than_the_one_that_is_sent(
        at in 0_usize..120, to in any::<u8>(),
    ) {
        let mut hello = with_extensions(&[server_name("granted.example"), (16, vec![0, 3, 2, b'h', b'2'])]);
        let at = at % hello.len();
        hello[at] = to;
        if let ClientHello::Named(name) = read(&hello) {
            // The name is among the bytes that the server reads, too.
            let text = hello.to_ascii_lowercase();
            prop_assert!(text.windows(name.len()).any(|part| part == name.as_bytes()));
        }
    }
}
