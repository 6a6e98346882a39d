//! The events of a stream do not depend on how its bytes arrive.
#![no_main]

use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use loopwright_models::sse::{Decoder, Event};

type Events = Vec<(String, Vec<u8>, bool)>;

fn events<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Events {
    let mut events = Vec::new();
    let mut take = |event: Event<'_>| -> Result<(), Infallible> {
        events.push((event.kind.to_owned(), event.data.to_vec(), event.terminated));
        Ok(())
    };
    let mut decoder = Decoder::new();
    for piece in pieces {
        let Ok(()) = decoder.push(piece, &mut take);
    }
    let Ok(()) = decoder.finish(&mut take);
    events
}

fuzz_target!(|data: &[u8]| {
    let Some((size, body)) = data.split_first() else { return };
    let whole = events(std::iter::once(body));
    assert_eq!(whole, events(body.chunks(1)));
    assert_eq!(whole, events(body.chunks(usize::from(*size).max(1))));
});
