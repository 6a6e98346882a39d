//! The program as a shell sees it: exit status, standard output and standard error.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
fn start(home: &Path, line: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_loopwright"))
        .args(line)
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that ends before it reads closes the pipe, which is none of this test's business.
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

/// Runs in an empty home directory with a `.git`, and gives the status and both outputs.
#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
fn check(config: &str, line: &[&str], stdin: &str) -> (i32, String, String) {
    let home = TempDir::new().unwrap();
    std::fs::create_dir_all(home.path().join(".git")).unwrap();
    std::fs::write(home.path().join("mine.toml"), config).unwrap();
    let output = start(&home.path().canonicalize().unwrap(), line, stdin);
    let text = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        text.replace(home.path().canonicalize().unwrap().to_str().unwrap(), "")
    };
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn version_goes_to_standard_output() {
    let version = format!("loopwright {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(check("", &["--version"], ""), (0, version, String::new()));
}

#[test]
fn wrong_usage_ends_with_2() {
    let (status, stdout, stderr) = check("", &["run", "--max-steps", "0"], "");
    assert_eq!((status, stdout.as_str()), (2, ""));
    assert!(stderr.starts_with("error: invalid value '0' for '--max-steps <N>'"), "{stderr}");
    assert_eq!(check("", &[], "").0, 2);
    assert_eq!(check("", &["nonsense"], "").0, 2);
}

#[test]
fn a_directory_that_is_not_there_is_wrong_usage() {
    let (status, _, stderr) = check("", &["run", "-C", "missing", "x"], "");
    assert_eq!(status, 2);
    assert_eq!(
        stderr,
        "error: cannot work in /missing: name a directory that exists with `--workdir`\n  caused by: No such file or directory (os error 2)\n"
    );
}

#[test]
fn an_empty_prompt_is_wrong_usage() {
    let stderr = "error: the prompt is empty: say what the agent should do\n".to_owned();
    assert_eq!(check("", &["run", "-"], "\n"), (2, String::new(), stderr));
}

#[test]
fn a_wrong_configuration_ends_with_3() {
    assert_eq!(
        check("stream = 1", &["--config", "mine.toml", "run", "x"], ""),
        (
            3,
            String::new(),
            "error: `stream` in /mine.toml must be `true` or `false`, not an integer: write `stream = false`, for example\n"
                .to_owned()
        )
    );
}

#[test]
fn an_unknown_key_is_a_warning_on_standard_error() {
    let (_, stdout, stderr) = check("modle = 1", &["--config", "mine.toml", "run", "x"], "");
    assert_eq!(stdout, "");
    assert!(
        stderr.starts_with("warning: unknown key `modle` in /mine.toml: did you mean `model`?\n"),
        "{stderr}"
    );
}

#[test]
fn completions_go_to_standard_output() {
    let (status, stdout, stderr) = check("", &["completions", "bash"], "");
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert!(stdout.contains("complete"), "{stdout}");
}
