//! A short run of what `scripts/fuzz` does for long: answers of every wire, damaged at random.

use std::{fs, path::Path};

use loopwright_models::WireApi;
use proptest::prelude::*;
use serde_json::Value;

use crate::agreement::check;

/// The answers of the project's own scenarios on a wire.
fn answers(wire: WireApi) -> Vec<(bool, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loopwright-testing/scenarios");
    let mut answers = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "json") {
            continue;
        }
        let scenario: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        for exchange in scenario["exchanges"].as_array().unwrap() {
            let response = &exchange["response"];
            let is_text = response.get("body_encoding").is_none_or(Value::is_null);
            if exchange.get("api").unwrap_or(&scenario["api"]) == wire.name() && is_text {
                let body = response["body"].as_str().unwrap().as_bytes().to_vec();
                answers.push((exchange["streaming"].as_bool().unwrap(), body));
            }
        }
    }
    assert!(!answers.is_empty(), "there is no scenario of {wire}");
    answers
}

/// What happens to an answer: where, and what.
#[derive(Clone, Debug)]
enum Damage {
    Cut(usize),
    Change(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>().prop_map(|it| it.index(1 << 20));
    let telling = prop::sample::select(
        ["\"", "{", "}", "[", "]", ",", ":", "null", "0", "-1", "\\u0000", "\n", "\r", "data:"]
            .map(|it| it.as_bytes().to_vec())
            .to_vec(),
    );
    prop_oneof![
        at.clone().prop_map(Damage::Cut),
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Damage::Change(at, byte)),
        (at.clone(), telling).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        (at.clone(), 1..200_usize).prop_map(|(at, length)| Damage::Remove(at, length)),
        (at, 1..200_usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
    ]
}

fn damaged(mut body: Vec<u8>, all: &[Damage]) -> Vec<u8> {
    for damage in all {
        let at = |at: &usize| at % (body.len() + 1);
        match damage {
            Damage::Cut(place) => body.truncate(at(place)),
            Damage::Change(place, byte) => {
                let place = at(place);
                if let Some(it) = body.get_mut(place) {
                    *it = *byte;
                }
            }
            Damage::Insert(place, bytes) => {
                let place = at(place);
                body.splice(place..place, bytes.iter().copied());
            }
            Damage::Remove(place, length) => {
                let place = at(place);
                let end = (place + length).min(body.len());
                body.drain(place..end);
            }
            Damage::Repeat(place, length) => {
                let place = at(place);
                let end = (place + length).min(body.len());
                let again = body[place..end].to_vec();
                body.splice(place..place, again);
            }
        }
    }
    body
}

#[test]
fn damaged_answers_are_read_alike_however_they_arrive() {
    for wire in WireApi::ALL.iter().copied().filter(|wire| wire.name() != "bedrock-converse") {
        let answers = answers(wire);
        let any = (
            prop::sample::select(answers),
            prop::collection::vec(damage(), 0..4),
            any::<bool>(),
            any::<u8>(),
        );
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 2_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let run = runner.run(&any, |((streamed, body), damage, other, size)| {
            // Now and then a server does not do what it was asked.
            check(wire, streamed ^ (other && size < 16), &damaged(body, &damage), size);
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{wire}: {failure}"));
    }
}

#[test]
fn a_byte_order_mark_is_let_go_however_it_arrives() {
    for wire in WireApi::ALL.iter().copied().filter(|wire| wire.name() != "bedrock-converse") {
        for (streamed, body) in answers(wire) {
            check(wire, streamed, &[b"\xEF\xBB\xBF", &body[..]].concat(), 2);
        }
    }
}
