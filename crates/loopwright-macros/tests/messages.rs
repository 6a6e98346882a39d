//! What is accepted, and what the compiler says about the rest.

#[test]
fn tools_are_accepted_or_their_problems_explained() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/fail/*.rs");
}
