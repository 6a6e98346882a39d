//! Whether the program that started this one keeps standard input open.

use std::fs;
use std::path::Path;

/// The most processes that are looked at.
const ANCESTORS: usize = 64;

/// Returns `true` if standard input ends when a program that started this one closes it. Such programs
/// often leave it open and write nothing. A shell does not: what stands before `|` writes.
pub(super) fn holds_stdin() -> bool {
    let Ok(link) = fs::read_link("/proc/self/fd/0") else { return false };
    let first = std::os::unix::process::parent_id();
    let parents = std::iter::successors(Some(first), |pid| parent(*pid)).take(ANCESTORS);
    let name = link.to_string_lossy();
    name.starts_with("socket:")
        || (name.starts_with("pipe:") && parents.into_iter().any(|pid| writes(pid, &link)))
}

/// Returns `true` if a process can write to a pipe.
fn writes(pid: u32, pipe: &Path) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let is_pipe = |path: &Path| fs::read_link(path).is_ok_and(|it| it == pipe);
    open.filter_map(Result::ok)
        .any(|it| is_pipe(&it.path()) && is_writable(pid, &it.file_name().to_string_lossy()))
}

fn is_writable(pid: u32, file: &str) -> bool {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{file}")).unwrap_or_default();
    let flags = info.lines().find_map(|it| it.strip_prefix("flags:"));
    // The last octal digit is 0 for reading, 1 for writing, 2 for both.
    flags.is_some_and(|it| it.trim().ends_with(['1', '2']))
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().filter(|it| *it > 0)
}
