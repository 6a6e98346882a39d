use loopwright_core::messages::{InferenceRequest, Message, ModelOrigin, Transcript, Turn};

use crate::{Quirks, RequestEncoder, WireApi, prefix_reuse::EncodedRequest};

fn encoder(wire: WireApi) -> RequestEncoder {
    let origin = ModelOrigin { wire: wire.name().into(), provider: "p".into(), model: "m".into() };
    RequestEncoder::new(wire, origin.into(), Quirks::default())
}

fn said(text: &str) -> Turn {
    Turn::from_message(Message::user(text)).unwrap()
}

/// Writes a request after another one, which must make no difference to it.
#[track_caller]
fn check(
    wire: WireApi,
    request: &InferenceRequest,
    before: Option<EncodedRequest>,
) -> Option<EncodedRequest> {
    let (body, written) = encoder(wire).encode_after(request, before, None);
    assert_eq!(body, encoder(wire).encode(request), "{wire}");
    written
}

/// The wires on which marks or sides are put between turns write every request anew.
fn goes_on(wire: WireApi) -> bool {
    !["anthropic-messages", "bedrock-converse"].contains(&wire.name())
}

#[test]
fn a_request_that_goes_on_is_what_it_would_be_by_itself() {
    for wire in WireApi::ALL.iter().copied() {
        let mut request = InferenceRequest { system: Some("s".into()), ..Default::default() };
        let instruction = Turn::from_message(Message::system("i")).unwrap();
        request.prompt.head = [instruction, said("h")].into_iter().collect();
        let mut written = None;
        for step in 0..5 {
            request.prompt.turns.push(said(&format!("turn {step}")));
            request.prompt.tail = vec![Message::user(format!("now {step}"))];
            written = check(wire, &request, written);
            assert_eq!(written.is_some(), goes_on(wire), "{wire}");
        }
    }
}

#[test]
fn a_request_of_another_wire_is_not_gone_on_from() {
    let mut request = InferenceRequest::default();
    request.prompt.turns.push(said("a"));
    for (one, other) in WireApi::ALL.iter().zip(WireApi::ALL.iter().cycle().skip(1)) {
        let written = check(*one, &request, None);
        check(*other, &request, written);
    }
}

#[test]
fn a_request_that_does_not_go_on_is_written_anew() {
    let mut request = InferenceRequest { system: Some("s".into()), ..Default::default() };
    request.prompt.turns = [said("a"), said("b")].into_iter().collect();
    let other = |change: &dyn Fn(&mut InferenceRequest)| {
        let mut other = request.clone();
        change(&mut other);
        for wire in WireApi::ALL.iter().copied() {
            check(wire, &other, check(wire, &request, None));
        }
    };
    other(&|it| it.system = Some("t".into()));
    other(&|it| it.system = None);
    other(&|it| it.options.temperature = Some(0.5));
    other(&|it| it.prompt.turns = it.prompt.turns.prefix(1));
    other(&|it| it.prompt.turns = Transcript::new());
    other(&|it| it.prompt.turns = [said("a"), said("c"), said("d")].into_iter().collect());
    other(&|it| it.prompt.head = [said("h")].into_iter().collect());
    other(&|it| it.prompt.dialect = loopwright_core::messages::ToolCallFormat::Text);
}

#[test]
fn a_request_that_is_still_being_sent_stays_as_it_is() {
    let mut request = InferenceRequest::default();
    request.prompt.turns.push(said("a"));
    let (sent, written) = encoder(WireApi::OpenAiChat).encode_after(&request, None, None);
    let copy = sent.clone().to_vec();
    request.prompt.turns.push(said("b"));
    let (next, _) = encoder(WireApi::OpenAiChat).encode_after(&request, written, None);
    assert_eq!(sent, copy);
    assert_eq!(next, encoder(WireApi::OpenAiChat).encode(&request));
}

#[test]
fn only_a_long_conversation_is_kept_while_a_model_responds() {
    let is_kept = |text: &str| {
        let mut request = InferenceRequest { system: Some(text.into()), ..Default::default() };
        request.prompt.turns.push(said("a"));
        let short = check(WireApi::OpenAiChat, &request, None).unwrap().is_worth_keeping();
        request.prompt.turns.push(said(text));
        let long = check(WireApi::OpenAiChat, &request, None).unwrap().is_worth_keeping();
        [short, long]
    };
    assert_eq!(is_kept("b"), [false, false]);
    assert_eq!(is_kept(&"b".repeat(65_536)), [false, true]);
}
