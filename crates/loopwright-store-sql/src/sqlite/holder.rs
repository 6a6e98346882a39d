//! The process that blocks other writers.

use std::{fmt, fs, path::Path, time::Duration};

use super::file;
use crate::error::SqlError;

/// How long a process that keeps the file locked may be stopped before others give up waiting. A stopped process
/// does not release the lock. One that continues soon, as after Ctrl-Z and `fg`, should not make others fail.
const STOPPED: Duration = Duration::from_secs(3);
/// The interval of the checks.
const LOOKS: Duration = Duration::from_millis(500);

/// Adds the process that keeps a file locked to an error, if that is the cause and the system reports it.
pub(super) fn named(error: SqlError, path: &Path) -> SqlError {
    match error {
        SqlError::Busy { place, source } => match holder(path) {
            Some(holder) => SqlError::InUse { place, owner: holder.to_string() },
            None => SqlError::Busy { place, source },
        },
        error => error,
    }
}

/// Waits until the same process has kept a file locked and been stopped for a while. Returns its description. Never
/// returns if the system does not report it.
pub(super) async fn stopped(path: &Path) -> String {
    let (mut found, mut looks) = (None, 0);
    loop {
        tokio::time::sleep(LOOKS).await;
        let now = holder(path).filter(|it| it.is_stopped);
        looks = if now.is_some() && now == found { looks + 1 } else { 0 };
        if let Some(holder) = now.filter(|_| LOOKS * looks >= STOPPED) {
            return holder.to_string();
        }
        found = now;
    }
}

/// A process that holds the writer lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    process: u32,
    is_stopped: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, is_stopped } = *self;
        write!(f, "process {process}")?;
        if is_stopped {
            write!(f, ", which is stopped (`kill -CONT {process}` continues it)")?;
        }
        Ok(())
    }
}

/// Returns the process that holds the writer lock.
///
/// This does not open the file, because closing it would release the locks of this process.
fn holder(path: &Path) -> Option<Holder> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt as _;
        let inode = fs::metadata(file::beside(path, "-shm")).ok()?.ino();
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let process = locks.lines().find_map(|line| writer(line, inode))?;
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        Some(Holder { process, is_stopped: state == Some('T') })
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _elsewhere = (path, fs::metadata::<&Path>, file::beside);
        None
    }
}

/// The byte of the `-shm` file that a SQLite writer locks.
#[cfg(target_os = "linux")]
const WRITER: &str = "120";

/// Returns the process of a line of `/proc/locks`, if the line is the writer lock of a file.
#[cfg(target_os = "linux")]
fn writer(line: &str, inode: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[_, "POSIX", _, "WRITE", process, file, first, last] = words.as_slice() else {
        return None;
    };
    let is_it = file.rsplit(':').next()? == inode.to_string();
    (is_it && first == WRITER && last == WRITER).then(|| process.parse().ok())?
}
