//! What the compiler itself says about what the macro writes. What the macro says is tested beside it, in
//! `src/messages.rs`.

#[test]
fn the_compiler_explains_types_that_do_not_fit() {
    trybuild::TestCases::new().compile_fail("tests/fail/*.rs");
}
