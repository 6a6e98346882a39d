//! The program as a shell sees it: exit status, standard output and standard error.

use crate::world::{Done, World};

/// Runs with a configuration file, and gives the status and both outputs.
fn check(config: &str, line: &[&str], stdin: &str) -> (i32, String, String) {
    let world = World::new().file("project/mine.toml", config);
    let Done { status, stdout, stderr } = world.run_with(line, stdin);
    (status, stdout, stderr)
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
fn a_missing_directory_is_a_usage_error() {
    let (status, _, stderr) = check("", &["run", "-C", "missing", "x"], "");
    assert_eq!(status, 2);
    assert_eq!(
        stderr,
        "error: cannot use /project/missing as the working directory; choose an existing directory with `--workdir`\n  caused by: No such file or directory (os error 2)\n"
    );
}

#[test]
fn an_empty_prompt_is_wrong_usage() {
    let stderr = "error: the prompt is empty; describe the task\n".to_owned();
    assert_eq!(check("", &["run", "-"], "\n"), (2, String::new(), stderr));
}

#[test]
fn a_wrong_configuration_ends_with_3() {
    assert_eq!(
        check("stream = 1", &["--config", "mine.toml", "run", "x"], ""),
        (
            3,
            String::new(),
            "error: `stream` in /project/mine.toml must be `true` or `false`, not an integer; write, for example, `stream = false`\n"
                .to_owned()
        )
    );
}

#[test]
fn an_unknown_key_is_a_warning_on_standard_error() {
    let line = ["--config", "mine.toml", "run", "-m", "nobody/x", "x"];
    let (_, stdout, stderr) = check("modle = 1", &line, "");
    assert_eq!(stdout, "");
    assert!(
        stderr.starts_with(
            "warning: unknown key `modle` in /project/mine.toml: did you mean `model`?\n"
        ),
        "{stderr}"
    );
}

#[test]
fn completions_go_to_standard_output() {
    let (status, stdout, stderr) = check("", &["completions", "bash"], "");
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert!(stdout.contains("complete"), "{stdout}");
}
