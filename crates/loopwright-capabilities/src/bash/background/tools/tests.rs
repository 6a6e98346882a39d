use loopwright_sandbox::ExitOutcome;

use super::*;

#[test]
fn the_model_is_told_what_was_said_what_was_lost_and_how_it_ended() {
    let said =
        |bytes: &str, lost, outcome| Said { bytes: bytes.into(), lost, outcome, ..Said::default() };
    assert_eq!(answer("2", &said("a\n", 0, None)).to_text(), "a\n\n[command 2 is still running]");
    assert_eq!(
        answer("2", &said("a", 3, Some(ExitOutcome::Exited(1)))).to_text(),
        "[3 earlier bytes were not kept]\n\na\n\n[command 2 exited with status 1]"
    );
    assert_eq!(answer("2", &said(" \n", 0, None)).to_text(), "[command 2 is still running]");
}
