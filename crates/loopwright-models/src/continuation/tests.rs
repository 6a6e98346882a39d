use loopwright_core::messages::{InferenceRequest, Message, Origin, Transcript, Turn};

use crate::{Encoder, Quirks, Wire, continuation::Written};

fn encoder(wire: Wire) -> Encoder {
    let origin = Origin { wire: wire.name().into(), provider: "p".into(), model: "m".into() };
    Encoder::new(wire, origin.into(), Quirks::default())
}

fn said(text: &str) -> Turn {
    Turn::said(Message::user(text)).unwrap()
}

/// Writes a request after another one, and tells whether it is what it would be by itself.
#[track_caller]
fn check(request: &InferenceRequest, before: Option<Written>) -> Option<Written> {
    let mut after = None;
    for wire in Wire::ALL {
        // Requests of other wires are never gone on from.
        let (body, written) = encoder(*wire).encode_after(request, None);
        assert_eq!(body, encoder(*wire).encode(request), "{wire}");
        after = after.or(written.filter(|_| *wire == Wire::OpenAiChat));
    }
    let (body, written) = encoder(Wire::OpenAiChat).encode_after(request, before);
    assert_eq!(body, encoder(Wire::OpenAiChat).encode(request));
    drop((body, after));
    written
}

#[test]
fn a_request_that_goes_on_is_what_it_would_be_by_itself() {
    let mut request = InferenceRequest { system: Some("s".into()), ..Default::default() };
    let mut written = None;
    for step in 0..5 {
        request.prompt.turns.push(said(&format!("turn {step}")));
        request.prompt.tail = vec![Message::user(format!("now {step}"))];
        written = check(&request, written);
        assert!(written.is_some());
    }
}

#[test]
fn a_request_that_does_not_go_on_is_written_anew() {
    let first = |request: &InferenceRequest| {
        let (_, written) = encoder(Wire::OpenAiChat).encode_after(request, None);
        written
    };
    let mut request = InferenceRequest { system: Some("s".into()), ..Default::default() };
    request.prompt.turns = [said("a"), said("b")].into_iter().collect();
    let other = |change: &dyn Fn(&mut InferenceRequest)| {
        let mut other = request.clone();
        change(&mut other);
        check(&other, first(&request));
    };
    other(&|it| it.system = Some("t".into()));
    other(&|it| it.system = None);
    other(&|it| it.options.temperature = Some(0.5));
    other(&|it| it.prompt.turns = it.prompt.turns.first(1));
    other(&|it| it.prompt.turns = Transcript::new());
    other(&|it| it.prompt.turns = [said("a"), said("c"), said("d")].into_iter().collect());
    other(&|it| it.prompt.head = [said("h")].into_iter().collect());
    other(&|it| it.prompt.dialect = loopwright_core::messages::Dialect::Text);
}

#[test]
fn a_request_that_is_still_being_sent_stays_as_it_is() {
    let mut request = InferenceRequest::default();
    request.prompt.turns.push(said("a"));
    let (sent, written) = encoder(Wire::OpenAiChat).encode_after(&request, None);
    let copy = sent.clone().to_vec();
    request.prompt.turns.push(said("b"));
    let (next, _) = encoder(Wire::OpenAiChat).encode_after(&request, written);
    assert_eq!(sent, copy);
    assert_eq!(next, encoder(Wire::OpenAiChat).encode(&request));
}
