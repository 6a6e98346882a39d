use loopwright_core::messages::{Message, Prompt, Transcript, Turn};

use super::*;

fn asked(turns: &Transcript, model: &str) -> InferenceRequest {
    let (prompt, model) = (Prompt::of(turns.clone()), Some(model.into()));
    InferenceRequest { prompt, model, ..InferenceRequest::default() }
}

/// Returns the problems and notes of two requests with these bodies.
fn check(requests: [&InferenceRequest; 2], bodies: [&str; 2]) -> (usize, usize) {
    let mut played = PlaybackResult::default();
    played.check_prefix(1, requests, bodies.map(str::as_bytes));
    (played.problems.len(), played.notes.len())
}

fn one_and_two() -> [InferenceRequest; 2] {
    let mut turns: Transcript = Turn::from_message(Message::user("hi")).into_iter().collect();
    let one = asked(&turns, "m");
    turns.push_message(Message::assistant("yes")).unwrap();
    [one, asked(&turns, "m")]
}

#[test]
fn a_request_begins_with_the_one_before_it() {
    let [one, two] = &one_and_two();
    assert_eq!(check([one, two], ["{[1]}", "{[1,2]}"]), (0, 0));
    assert_eq!(check([one, two], ["{[1]}", "{[2,1]}"]), (1, 0));
    assert_eq!(check([one, two], ["{[1]}", "{[]}"]), (1, 0));
    assert_eq!(check([one, two], ["{[1],\"model\":1}", "{[1,2],\"model\":1}"]), (1, 0));
}

#[test]
fn a_prefix_that_the_client_broke_is_named() {
    let [one, two] = &one_and_two();
    let other_model = InferenceRequest { model: Some("n".into()), ..two.clone() };
    let mut other_settings = two.clone();
    other_settings.options.stream = Some(false);
    for broken in [&other_model, &other_settings, &asked(&Transcript::new(), "m")] {
        assert_eq!(check([one, broken], ["{[1]}", "{[2]}"]), (0, 1));
    }
}
