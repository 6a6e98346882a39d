//! The program, killed at each of its system calls.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};

/// The calls by which a process changes files and tells others, and those that make it durable.
const CALLS: [&str; 14] = [
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "rename",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
];

/// A system call at which a program is killed: it does not take effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    call: &'static str,
    /// Which call of this kind within its thread, counted from one.
    number: usize,
}

/// Returns `false`, and says so, if programs cannot be killed at system calls here.
pub(crate) fn can_kill() -> bool {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=write"]);
    let traced = command.args(["-e", "inject=write:signal=KILL:when=1", "echo"]).output();
    let can_kill = traced.is_ok_and(|it| it.status.signal() == Some(9));
    if !can_kill {
        println!("skipped: `strace`, which kills at system calls, is missing or may trace nothing");
    }
    can_kill
}

/// Returns a command that runs another one under `strace`, with its options.
pub(crate) fn traced(command: &Command, options: &[&str]) -> Command {
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-s", "0"]).args(options);
    traced.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        traced.current_dir(folder);
    }
    traced.env_clear();
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    traced.envs(variables).stdin(std::process::Stdio::null());
    traced
}

/// Runs a command, and kills it at an instant. Returns `None` if it ended before.
pub(crate) fn killed_at(command: &Command, instant: Instant) -> Option<Output> {
    let Instant { call, number } = instant;
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:signal=KILL:when={number}");
    let options = ["-o", "/dev/null", "-e", &trace, "-e", &inject];
    let output = traced(command, &options).output().unwrap();
    (output.status.signal() == Some(9)).then_some(output)
}

/// Runs a command to its end, and returns the instants at which it can be killed: all with `LOOPWRIGHT_LONG`, or about
/// so many of each kind of call.
pub(crate) fn instants(command: &Command, sample: usize) -> Vec<Instant> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let path = log.path().to_str().unwrap();
    let trace = format!("trace={}", CALLS.map(|call| format!("?{call}")).join(","));
    let output = traced(command, &["-o", path, "-e", &trace]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = fs::read_to_string(path).unwrap();
    let is_long = std::env::var_os("LOOPWRIGHT_LONG").is_some();
    let of = |call: &'static str| {
        let most = most_in_a_thread(&log, call);
        let step = if is_long { 1 } else { most.div_ceil(sample).max(1) };
        // The last one is tried, whatever the step.
        let numbers = (1..=most).rev().step_by(step).collect::<Vec<_>>();
        numbers.into_iter().rev().map(move |number| Instant { call, number })
    };
    CALLS.into_iter().flat_map(of).collect()
}

/// Returns how many calls of a kind the thread made that made most of them. Calls are counted by thread.
fn most_in_a_thread(log: &str, call: &str) -> usize {
    let begins = |line: &&str| {
        let made = line.split_once(char::is_whitespace).map_or("", |(_, it)| it.trim_start());
        made.strip_prefix(call).is_some_and(|rest| rest.starts_with('('))
    };
    let mut threads = std::collections::BTreeMap::<&str, usize>::new();
    for line in log.lines().filter(begins) {
        *threads.entry(line.split_whitespace().next().unwrap()).or_default() += 1;
    }
    threads.into_values().max().unwrap_or_default()
}
