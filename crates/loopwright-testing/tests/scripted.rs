//! The program `scripted`; that it answers is shown by the tutorial, which `scripts/tutorial` follows.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn scripted(name: &str, script: &str, command: &[&str]) -> Output {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, script).unwrap();
    Command::new(env!("CARGO_BIN_EXE_scripted")).arg(file).args(command).output().unwrap()
}

#[test]
fn scripted_ends_with_the_status_of_its_command_and_passes_the_models_address() {
    let done = scripted(
        "status",
        "",
        &["sh", "-c", "echo $LOOPWRIGHT_MODEL $OPENAI_COMPATIBLE_BASE_URL; exit 7"],
    );
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.starts_with("openai-compatible/script http://127.0.0.1:"), "{said}");
    assert_eq!(done.status.code(), Some(7));
}

#[test]
fn a_script_that_cannot_be_read_is_refused_by_its_line() {
    let done = scripted("wrong", "{\"say\": \"hi\"}\n\nno\n", &["true"]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(said, "scripted: line 3: expected ident at line 1 column 2\n");
    assert_eq!(done.status.code(), Some(2));
}

#[test]
fn a_command_that_there_is_not_is_refused() {
    assert_eq!(scripted("gone", "", &["/no/such/program"]).status.code(), Some(2));
    assert_eq!(scripted("none", "", &[]).status.code(), Some(2));
}
