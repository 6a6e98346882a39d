use std::collections::BTreeMap;

use super::*;

fn received(bodies: &[&str]) -> Vec<Received> {
    let received = |body: &&str| Received {
        exchange: 0,
        path: "/".to_owned(),
        headers: BTreeMap::new(),
        body: body.as_bytes().to_vec(),
        fault: None,
    };
    bodies.iter().map(received).collect()
}

#[test]
fn three_equal_requests_are_right() {
    assert!(attempt_problems(&received(&["a", "a", "a"])).is_empty());
}

#[test]
fn other_numbers_of_requests_and_other_bytes_are_wrong() {
    let problems =
        ["after 429 and 500: 2 requests, not 3", "after 429 and 500: the requests differ"];
    assert_eq!(attempt_problems(&received(&["a", "a"])), problems[..1]);
    assert_eq!(attempt_problems(&received(&["a", "a", "b"])), problems[1..]);
    assert_eq!(attempt_problems(&received(&["a", "b"])), problems);
}
