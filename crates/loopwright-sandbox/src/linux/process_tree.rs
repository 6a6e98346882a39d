//! The descendants of a process: measuring them, and ending them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// How long to keep killing processes that multiply. Not needed with a namespace.
const CHASE: Duration = Duration::from_secs(10);

/// The resources that a process tree uses at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Bytes of memory. Shared memory counts for each process that has it.
    pub(crate) memory: u64,
    /// The kernel memory in it: page tables, and what open files can hold.
    pub(crate) kernel: u64,
    /// The maximum number of bytes touched since the start. Memory that was returned and touched again counts
    /// again.
    pub(crate) touched: u64,
    pub(crate) processes: u64,
    pub(crate) cpu: Duration,
}

/// What the kernel reports about a process.
struct Stat {
    parent: i32,
    ended: bool,
    memory: u64,
    addresses: u64,
    /// The page faults of the process and of its ended children.
    faults: u64,
    ticks: u64,
}

/// The memory of a process tree. Shared memory is divided among the processes that share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) own: u64,
    /// Mapped memory that is shared by its nature.
    pub(crate) shared: u64,
}

/// A process with less address space has small page tables.
const MANY_ADDRESSES: u64 = 512 << 20;

/// The kernel memory of an open pipe of a user with many pipes: one page for each end.
const OPEN_FILE: u64 = 4096;

/// Returns what the descendants of a process use. Of the process itself, only the time of its ended children
/// counts.
pub(crate) fn usage(root: Pid) -> Usage {
    let root = root.as_raw_pid();
    let mut usage = Usage::default();
    let (mut ticks, mut faults) = stat(root).map_or((0, 0), |stat| (stat.ticks, stat.faults));
    for pid in below(root) {
        if let Some(stat) = stat(pid).filter(|stat| !stat.ended) {
            usage.memory += stat.memory;
            usage.processes += 1;
            ticks += stat.ticks;
            faults += stat.faults;
            // Newer kernels report the number of open files as the size of the folder.
            let files = fs::metadata(format!("/proc/{pid}/fd")).map_or(0, |folder| folder.len());
            usage.kernel += files * OPEN_FILE;
            if stat.addresses > MANY_ADDRESSES {
                usage.kernel += tables(pid);
            }
        }
    }
    usage.memory += usage.kernel;
    usage.touched = faults.saturating_mul(rustix::param::page_size() as u64);
    usage.cpu = Duration::from_millis(
        ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1),
    );
    usage
}

/// Returns the shares of a tree. Slower than [`usage`]. Returns `None` if the kernel does not report them.
pub(crate) fn shares(root: Pid) -> Option<Shares> {
    let mut total = Shares::default();
    for pid in below(root.as_raw_pid()) {
        match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
            Ok(text) => {
                let all = kilobytes(&text, "Pss:")? << 10;
                let shared = kilobytes(&text, "Pss_Shmem:").unwrap_or(0) << 10;
                let swapped = kilobytes(&text, "SwapPss:").unwrap_or(0) << 10;
                total.shared += shared;
                total.own += all.saturating_sub(shared) + swapped;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // A process that is about to end has no memory, and reports this error.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(_) => return None,
        }
    }
    Some(total)
}

/// Returns the bytes of a process's page tables and of its swapped pages.
fn tables(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let of = |name| kilobytes(&text, name).unwrap_or(0) << 10;
    of("VmPTE:") + of("VmSwap:")
}

/// Returns the bytes of the files in memory without names that the processes of a tree have open.
pub(crate) fn memory_files(root: Pid) -> u64 {
    let mut files = BTreeMap::new();
    for pid in below(root.as_raw_pid()) {
        for (path, target) in open_files(pid) {
            if is_memory_file(&target)
                && let Ok(file) = fs::metadata(path)
            {
                files.insert((file.dev(), file.ino()), file.blocks() * 512);
            }
        }
    }
    files.values().sum()
}

/// Returns `true` if a process of a tree could hold memory that is not visible: files without names that are mapped
/// but not open, descriptors in a socket, or, if the tree has `touched` enough, shared memory without a name that
/// is partly unmapped.
pub(crate) fn may_hide_memory(root: Pid, touched: bool) -> bool {
    below(root.as_raw_pid()).into_iter().any(|pid| {
        let maps = match fs::read_to_string(format!("/proc/{pid}/maps")) {
            Ok(maps) => maps,
            // A process that cannot be inspected may.
            Err(error) => return error.kind() == std::io::ErrorKind::PermissionDenied,
        };
        let files: Vec<(PathBuf, PathBuf)> = open_files(pid).collect();
        let is_open = |line: &str| {
            let inode = line.split_ascii_whitespace().nth(4).and_then(|inode| inode.parse().ok());
            files.iter().any(|(path, target)| {
                is_memory_file(target)
                    && fs::metadata(path).is_ok_and(|file| Some(file.ino()) == inode)
            })
        };
        maps.lines().any(|line| {
            touched && line.ends_with(NAMELESS)
                || line.contains(MAPPED_MEMORY_FILE) && !is_open(line)
        }) || files.iter().any(|(path, target)| {
            target.as_os_str().as_bytes().starts_with(b"socket:") && holds_descriptors(pid, path)
        })
    })
}

fn is_memory_file(target: &Path) -> bool {
    target.as_os_str().as_bytes().starts_with(b"/memfd:")
}

/// How the kernel names mapped memory without a name, and mapped files without one.
const NAMELESS: &str = " /dev/zero (deleted)";
const MAPPED_MEMORY_FILE: &str = " /memfd:";

fn open_files(pid: i32) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let folder = fs::read_dir(format!("/proc/{pid}/fd"));
    folder.into_iter().flatten().flatten().filter_map(|entry| {
        let path = entry.path();
        let target = fs::read_link(&path).ok()?;
        Some((path, target))
    })
}

fn holds_descriptors(pid: i32, file: &Path) -> bool {
    let Some(number) = file.file_name() else { return false };
    let text = fs::read_to_string(Path::new(&format!("/proc/{pid}/fdinfo")).join(number));
    text.unwrap_or_default()
        .lines()
        .any(|line| line.strip_prefix("scm_fds:").is_some_and(|count| count.trim() != "0"))
}

pub(crate) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()
}

/// Returns the descendants from the kernel's lists of children, or from all processes if the kernel has no such
/// lists.
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

/// Returns all descendants, found by inspecting every process.
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

/// Returns the number of processes of a user.
pub(crate) fn owned_by(user: u32) -> u64 {
    let owned = fs::read_dir("/proc").into_iter().flatten().flatten().filter(|entry| {
        entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && entry.metadata().is_ok_and(|metadata| metadata.uid() == user)
    });
    owned.count() as u64
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it can contain anything, including parentheses.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        ended: fields.first() == Some(&"Z"),
        addresses: number(20)?,
        memory: number(21)? * rustix::param::page_size() as u64,
        faults: number(7)? + number(8)?,
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

/// Kills every descendant of this process, which must be their reaper, and waits for them. It stops all of them
/// before it kills any, so that those that start others cannot run. This is a race, which it gives up after a
/// while.
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

/// Reaps the children that have ended.
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
