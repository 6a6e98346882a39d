use super::*;

#[test]
fn a_continuation_token_round_trips() {
    let file = std::fs::metadata(".").unwrap();
    let place = Continuation::new(12, 3456, &file);
    assert_eq!(place.to_string().parse(), Ok(place));
    assert!(place.fits(&file));
}

#[test]
fn an_altered_continuation_token_is_refused() {
    let file = std::fs::metadata(".").unwrap();
    let place = Continuation::new(12, 3456, &file);
    let moved: Continuation = place.to_string().replace("3456", "3457").parse().unwrap();
    assert!(!moved.fits(&file));
    for text in ["", "12", "12-34", "a-b-c", "-1-2-3", "1-2-xyz", "1-99999999999999999999-0"] {
        assert_eq!(text.parse::<Continuation>(), Err(()), "{text}");
    }
}
