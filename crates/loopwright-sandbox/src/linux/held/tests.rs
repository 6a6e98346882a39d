//! What sockets hold, as the kernel says it.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use super::{Query, attribute, memory_of, message_of, sockets};

#[test]
fn data_that_waits_in_a_socket_is_counted() {
    let (mut one, _other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    let sent = one.write(&vec![1; 100_000]).unwrap();
    match sockets() {
        Ok(held) => assert!(held >= sent as u64, "{held} of {sent}"),
        Err(error) => println!("left out: this kernel does not list sockets: {error}"),
    }
}

#[test]
fn an_answer_is_read_as_far_as_it_goes() {
    let body: Vec<u8> = [vec![9; 16], vec![12, 0, 4, 0, 7, 0, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(memory_of(&body, &Query::local()), (0, 7));
    for length in 0..body.len() {
        memory_of(&body[..length], &Query::local());
        assert_eq!(message_of(&body[..length.min(15)]), None);
    }
    assert_eq!(attribute(&[0, 0, 0, 0]), None);
}
