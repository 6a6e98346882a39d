use super::*;

#[test]
fn a_sandbox_keeps_what_is_shown_of_the_beginning_and_the_rest_of_the_end() {
    let caps = |policy: BashPolicy| (policy.caps().head, policy.caps().tail);
    let policy = BashPolicy { capture_bytes: 100, ..BashPolicy::with_limits(30, 10, 20) };
    assert_eq!(caps(policy.clone()), (10, 90));
    // Half of it at most is the beginning.
    let policy = BashPolicy { max_output_chars: 200, head_chars: 80, ..policy };
    assert_eq!(caps(policy), (50, 50));
}
