//! The limits of the sandbox that a failed command ran into.

use loopwright_sandbox::{Backend, ExitOutcome, Limit, Limits, Output, SandboxPolicy};

use crate::bash::printed;

/// The signal for a file that is larger than allowed.
const TOO_LARGE: i32 = 25;

/// What programs say when they get no more memory. A limit of a runtime itself, such as the heap of Node.js, is not among it.
const NO_MEMORY: [&str; 5] = [
    "cannot allocate memory",
    "memoryerror",
    "std::bad_alloc",
    "virtual memory exhausted",
    "memory allocation of ",
];

/// What programs say when they cannot start another process or thread.
const NO_PROCESS: [&str; 7] = [
    "fork: resource temporarily unavailable",
    "fork: retry: resource temporarily unavailable",
    "cannot fork",
    "can't fork",
    "can't start new thread",
    "failed to spawn thread",
    "pthread_create",
];

/// What programs say when a file becomes larger than allowed.
const NO_SIZE: [&str; 2] = ["file too large", "file size limit exceeded"];

/// Names the limits that a command reached, or of which it said that it did.
pub(super) fn notes(output: &Output, policy: &SandboxPolicy) -> Vec<String> {
    if output.outcome.is_success() || Backend::named(&output.driver).is_none() {
        return Vec::new();
    }
    let texts = printed(output).map(|it| it.to_ascii_lowercase());
    let says = |phrases: &[&str]| {
        texts.iter().any(|text| phrases.iter().any(|phrase| text.contains(phrase)))
    };
    let reached = |limit| output.outcome == ExitOutcome::LimitReached(limit);
    let no_memory = reached(Limit::Memory) || says(&NO_MEMORY);
    let no_process = reached(Limit::Processes) || says(&NO_PROCESS);
    let no_size = reached(Limit::FileSize)
        || output.outcome == ExitOutcome::Signalled(TOO_LARGE)
        || says(&NO_SIZE);
    let is_full = texts.iter().any(|text| text.lines().any(is_full));
    let Limits { memory, processes, file_size, scratch, .. } = policy.limits;
    let (memory, file_size, scratch) = (memory >> 20, file_size >> 20, scratch >> 20);
    let notes = [
        no_memory.then(|| {
            format!("all processes of a command together can use at most {memory} MiB of memory (`sandbox.memory`)")
        }),
        no_process.then(|| {
            format!("a command can have at most {processes} processes and threads (`sandbox.processes`)")
        }),
        no_size.then(|| format!("a command can write at most {file_size} MiB to each file")),
        is_full.then(|| {
            format!("a command's `/tmp` can hold at most {scratch} MiB; larger files belong in the working directory")
        }),
    ];
    notes.into_iter().flatten().collect()
}

/// Returns `true` if a line, in lower case, says that there is no space in the scratch folder.
fn is_full(line: &str) -> bool {
    line.contains("no space left on device") && line.contains("/tmp/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(outcome: ExitOutcome, stderr: &'static str, expect: &[&str]) {
        let mut policy = SandboxPolicy::in_dir("/srv/web").with_memory(100 << 20);
        policy = policy.with_processes(9).with_file_size(5 << 20).with_scratch(7 << 20);
        let output =
            Output { driver: "namespaces".to_owned(), outcome, ..Output::exited(1, "", stderr) };
        assert_eq!(notes(&output, &policy), expect, "{outcome:?} {stderr}");
    }

    const MEMORY: &str =
        "all processes of a command together can use at most 100 MiB of memory (`sandbox.memory`)";
    const PROCESSES: &str =
        "a command can have at most 9 processes and threads (`sandbox.processes`)";
    const FILE_SIZE: &str = "a command can write at most 5 MiB to each file";
    const SCRATCH: &str =
        "a command's `/tmp` can hold at most 7 MiB; larger files belong in the working directory";

    #[test]
    fn a_limit_that_ended_a_command_is_named() {
        check(ExitOutcome::LimitReached(Limit::Memory), "", &[MEMORY]);
        check(ExitOutcome::LimitReached(Limit::Processes), "", &[PROCESSES]);
        check(ExitOutcome::LimitReached(Limit::FileSize), "", &[FILE_SIZE]);
        check(ExitOutcome::Signalled(TOO_LARGE), "", &[FILE_SIZE]);
        check(ExitOutcome::LimitReached(Limit::Cpu), "", &[]);
        check(ExitOutcome::Signalled(9), "", &[]);
    }

    #[test]
    fn a_limit_that_a_failed_command_complains_about_is_named() {
        let failed = ExitOutcome::Exited(1);
        for stderr in [
            "/bin/bash: fork: Cannot allocate memory",
            "Traceback (most recent call last):\nMemoryError",
            "terminate called after throwing an instance of 'std::bad_alloc'",
            "memory allocation of 8589934592 bytes failed",
        ] {
            check(failed, stderr, &[MEMORY]);
        }
        for stderr in [
            "/bin/bash: line 1: fork: Resource temporarily unavailable",
            "sh: 0: Cannot fork",
            "RuntimeError: can't start new thread",
        ] {
            check(failed, stderr, &[PROCESSES]);
        }
        check(failed, "dd: error writing 'a': File too large", &[FILE_SIZE]);
        check(failed, "dd: error writing '/tmp/a': No space left on device", &[SCRATCH]);
    }

    #[test]
    fn what_has_another_possible_cause_names_no_limit() {
        let failed = ExitOutcome::Exited(1);
        check(failed, "read: Resource temporarily unavailable", &[]);
        check(failed, "FATAL ERROR: Reached heap limit - JavaScript heap out of memory", &[]);
        check(failed, "dd: error writing 'a': No space left on device", &[]);
        check(ExitOutcome::Exited(0), "MemoryError", &[]);
    }
}
