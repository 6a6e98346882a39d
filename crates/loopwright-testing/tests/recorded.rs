//! Recorded traffic: our own, which is all checked, and that of real providers where it is at hand.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use loopwright_testing::recorded::{CheckOptions, Depth, Report, check_folder};

fn check(folder: &Path, depth: Depth) -> Report {
    let options = CheckOptions { depth, ..CheckOptions::default() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(check_folder(folder, &options)).unwrap()
}

#[track_caller]
fn passes(report: &Report) {
    println!("{report}");
    assert!(report.exchanges > 0, "nothing was checked");
    assert!(report.is_ok(), "\n{report}");
}

/// Returns the private recordings, if they are here.
fn private() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let folder = env::var_os("LOOPWRIGHT_FIXTURES").map_or(beside, PathBuf::from).join("open");
    folder.is_dir().then_some(folder)
}

#[test]
fn every_wire_understands_the_scenarios_of_our_own() {
    passes(&check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"), Depth::Quick));
}

#[test]
fn every_wire_understands_recorded_traffic_where_it_is_at_hand() {
    match private() {
        Some(folder) => passes(&check(&folder, Depth::Quick)),
        None => println!("there are no recordings here: set LOOPWRIGHT_FIXTURES to check them"),
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_recorded")).args(arguments).output().unwrap()
}

#[test]
fn the_program_tells_by_its_status_what_it_found() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded");
    fs::create_dir_all(folder.join("expected")).unwrap();
    let recording = r#"{"name":"one","api":"openai-chat","exchanges":[{"request":{},"response":{
        "status":200,"headers":{},"body":"{\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}"}}]}"#;
    fs::write(folder.join("one.json"), recording).unwrap();
    let expect = |text: &str| {
        let expected = format!(r#"{{"exchanges":[{{"text":"{text}","finish_reason":"stop"}}]}}"#);
        fs::write(folder.join("expected/one.json"), expected).unwrap();
        let output = run(&[folder.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text.lines().last().map(str::to_owned))
    };
    assert_eq!(expect("hi"), (Some(0), Some("1 scenarios, 1 exchanges, 0 failures".to_owned())));
    let (code, last) = expect("ho");
    assert_eq!(code, Some(1));
    assert!(last.unwrap().starts_with("1 scenarios, 1 exchanges, "));
}

#[test]
fn the_program_says_when_it_cannot_check() {
    let nowhere = run(&["/nowhere/at/all"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(String::from_utf8(nowhere.stderr).unwrap().starts_with("cannot read /nowhere/at/all"));
    for wrong in [&[][..], &["--only"], &["a", "b"], &["--loud", "a"]] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
