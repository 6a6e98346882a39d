//! What holds for any bytes whatever: reading them neither panics nor depends on how they arrive, and
//! what is passed on on the way is what the answer says in the end.

use std::{collections::BTreeMap, sync::Arc};

use loopwright_core::{
    Delta, ModelError,
    messages::{Content, InferenceResponse, ModelOrigin},
};
use loopwright_models::{ErrorContext, ResponseDecoder, WireApi};

/// What came of reading some bytes.
struct Read {
    answer: Result<InferenceResponse, ModelError>,
    fragments: Fragments,
}

#[derive(Debug, Default, PartialEq)]
struct Fragments {
    text: String,
    reasoning: String,
    /// By their position in the answer; a call is named when its name is known.
    calls: BTreeMap<usize, (String, String)>,
    ends: usize,
}

impl Fragments {
    fn take(&mut self, delta: Delta<'_>) {
        assert_eq!(self.ends, 0, "something came after the end: {delta:?}");
        match delta {
            Delta::Text(text) => self.text += text,
            Delta::Reasoning(text) => self.reasoning += text,
            Delta::ToolCall { index, name, .. } => {
                let before = self.calls.insert(index.into(), (name.to_owned(), String::new()));
                assert_eq!(before, None, "a call begins once");
            }
            Delta::ToolArguments { index, fragment } => {
                let call = self.calls.get_mut(&index.into());
                call.expect("a call begins before it goes on").1 += fragment;
            }
            Delta::End => self.ends += 1,
            _ => {}
        }
    }

    /// What an answer says.
    fn of(answer: &InferenceResponse) -> Self {
        let mut said = Self { ends: 1, ..Self::default() };
        for part in answer.message.parts() {
            match part.content() {
                Content::Text(text) => said.text += text,
                Content::Reasoning(text) => said.reasoning += text,
                Content::ToolCall(call) => {
                    let call = (call.name.to_string(), call.arguments.to_string());
                    said.calls.insert(said.calls.len(), call);
                }
                _ => {}
            }
        }
        said
    }
}

/// Returns `true` if an answer is made of numbered blocks. If a server lets two of them take turns, which
/// none is known to do, their fragments come in another order than they stand in the answer.
fn has_numbered_blocks(wire: WireApi) -> bool {
    ["anthropic-messages", "bedrock-converse", "cohere-chat"].contains(&wire.name())
}

fn sorted(text: &str) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

fn read<'a>(wire: WireApi, streamed: bool, pieces: impl Iterator<Item = &'a [u8]>) -> Read {
    let origin = ModelOrigin { wire: wire.name().into(), provider: "p".into(), model: "m".into() };
    let mut fragments = Fragments::default();
    let mut deltas = |delta: Delta<'_>| fragments.take(delta);
    let context = ErrorContext::new("p");
    let mut decoder = ResponseDecoder::new(wire, Arc::new(origin), context, streamed);
    let mut pushed = Ok(());
    for piece in pieces {
        pushed = decoder.push(piece, &mut deltas);
        if pushed.is_err() {
            break;
        }
    }
    let answer = match pushed {
        Ok(()) => decoder.finish(&mut deltas),
        Err(error) => Err(error),
    };
    Read { answer, fragments }
}

/// Reads the bytes in one piece, one by one, and in pieces of some size.
///
/// # Panics
///
/// Panics if the three differ, or an answer is not what was passed on.
pub(crate) fn check(wire: WireApi, streamed: bool, body: &[u8], size: u8) {
    let whole = read(wire, streamed, std::iter::once(body));
    let bytes = read(wire, streamed, body.chunks(1));
    let pieces = read(wire, streamed, body.chunks(usize::from(size).max(1)));
    for other in [bytes, pieces] {
        match (&whole.answer, &other.answer) {
            (Ok(one), Ok(two)) => assert_eq!(one, two),
            (Err(one), Err(two)) => assert_eq!(one.to_string(), two.to_string()),
            (one, two) => panic!("{one:?} in one piece, {two:?} in several"),
        }
        assert_eq!(whole.fragments, other.fragments);
    }
    match &whole.answer {
        Ok(answer) => {
            let (mut said, mut passed) = (Fragments::of(answer), whole.fragments);
            if has_numbered_blocks(wire) {
                for fragments in [&mut said, &mut passed] {
                    fragments.text = sorted(&fragments.text);
                    fragments.reasoning = sorted(&fragments.reasoning);
                }
            }
            assert_eq!(said, passed);
        }
        Err(_) => assert_eq!(whole.fragments.ends, 0, "an error ends nothing"),
    }
}
