//! The processes that descend from one process: what they use, and ending them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// How long processes that multiply are chased. A namespace needs no chase.
const CHASE: Duration = Duration::from_secs(10);

/// What a tree of processes uses at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Bytes of memory; shared ones are counted for each process that has them.
    pub(crate) memory: u64,
    pub(crate) processes: u64,
    pub(crate) cpu: Duration,
}

/// What the kernel tells about a process.
struct Stat {
    parent: i32,
    ended: bool,
    memory: u64,
    ticks: u64,
}

/// What the descendants of a process use; the process itself counts only with the time of its ended children.
pub(crate) fn usage(root: Pid) -> Usage {
    let root = root.as_raw_pid();
    let mut usage = Usage::default();
    let mut ticks = stat(root).map_or(0, |stat| stat.ticks);
    for pid in below(root) {
        if let Some(stat) = stat(pid).filter(|stat| !stat.ended) {
            usage.memory += stat.memory;
            usage.processes += 1;
            ticks += stat.ticks;
        }
    }
    usage.cpu = Duration::from_millis(
        ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1),
    );
    usage
}

/// The bytes of memory of a tree, where shared ones are divided among those who share them. Slower than
/// [`usage`]; nothing if the kernel does not tell.
pub(crate) fn proportional_memory(root: Pid) -> Option<u64> {
    let mut total = 0;
    for pid in below(root.as_raw_pid()) {
        match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
            Ok(text) => total += kilobytes(&text, "Pss:")? << 10,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // A process without memory of its own, which is about to end, says so here.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(_) => return None,
        }
    }
    Some(total)
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()
}

/// Walks the lists of children that the kernel keeps; looks at every process where it keeps none.
fn below(root: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            match fs::read_to_string(thread.path().join("children")) {
                Ok(children) => {
                    let children: Vec<i32> = children
                        .split_ascii_whitespace()
                        .filter_map(|pid| pid.parse().ok())
                        .collect();
                    found.extend(&children);
                    open.extend(children);
                }
                Err(_) if pid == root => return descendants(root).into_iter().collect(),
                Err(_) => {}
            }
        }
    }
    found
}

/// Every descendant, from a look at every process.
fn descendants(root: i32) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some((pid, stat)) = pid.and_then(|pid| Some((pid, stat(pid)?))) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = BTreeSet::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if found.insert(*child) {
                open.push(*child);
            }
        }
    }
    found
}

/// How many processes a user has.
pub(crate) fn owned_by(user: u32) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let owned = fs::read_dir("/proc").into_iter().flatten().flatten().filter(|entry| {
        entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && entry.metadata().is_ok_and(|metadata| metadata.uid() == user)
    });
    owned.count() as u64
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything, also parentheses.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        ended: fields.first() == Some(&"Z"),
        memory: number(21)? * rustix::param::page_size() as u64,
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
    })
}

/// Asks every descendant of a process to end.
pub(crate) fn ask_to_end(root: Pid) {
    for pid in descendants(root.as_raw_pid()) {
        signal(pid, Signal::TERM);
        signal(pid, Signal::CONT);
    }
}

/// Ends every descendant of this process, which must be their reaper, and waits for them. All are stopped before
/// any is ended, so that those which start others get no turn; that is a race, and it is given up after a while.
pub(crate) fn end_all() -> Result<(), usize> {
    let started = Instant::now();
    loop {
        if reap() == Left::Nobody {
            return Ok(());
        }
        let alive = descendants(rustix::process::getpid().as_raw_pid());
        if started.elapsed() > CHASE {
            return Err(alive.len());
        }
        for pid in &alive {
            signal(*pid, Signal::STOP);
        }
        for pid in &alive {
            signal(*pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[derive(PartialEq, Eq)]
enum Left {
    Somebody,
    Nobody,
}

/// Waits for the children that have ended.
fn reap() -> Left {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return Left::Somebody,
            Err(_) => return Left::Nobody,
        }
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, signal).ok();
    }
}

#[cfg(test)]
mod tests;
