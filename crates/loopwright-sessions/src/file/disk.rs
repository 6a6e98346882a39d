//! Files and directories that only their owner may see, locked and synced.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long a lock is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it is waited between two looks at a lock, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(5));

/// How a file is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockMode {
    /// Beside others that share it.
    Shared,
    /// By one alone.
    Exclusive,
}

/// Whether those are waited for who hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitPolicy {
    Waits,
    None,
}

/// Opens files that no other process may read; one that is a link is not followed.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options
}

/// Opens a file for reading. Returns `None` if there is none.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    if_there(options().read(true).open(path))
}

/// Makes nothing of what is not there.
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a directory that no other process may read, and those above it; one that is there stays.
pub(super) fn create_dirs(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Waits until the content of a file is on the disk.
pub(super) fn sync_data(file: &File, path: &Path) -> io::Result<()> {
    note_synced(path);
    file.sync_data()
}

/// Waits until a file is on the disk, its metadata included.
pub(super) fn sync_all(file: &File, path: &Path) -> io::Result<()> {
    note_synced(path);
    file.sync_all()
}

/// Waits until the names in a directory are on the disk.
pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    note_synced(path);
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Puts a file in the place of another one, or of none, such that one of the two is always there.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let put = || {
        let mut file = options().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(bytes)?;
        sync_all(&file, &new)?;
        fs::rename(&new, path)
    };
    put().inspect_err(|_| {
        // What is left of it is overwritten the next time.
        let _removed = fs::remove_file(&new);
    })?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Returns a name beside a file that nothing has: the file's, a word and a number.
pub(super) fn backup_path(path: &Path, word: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let names = (1_u64..).map(|number| path.with_file_name(format!("{name}.{word}-{number}")));
    names.into_iter().find(|it| fs::symlink_metadata(it).is_err()).unwrap_or_default()
}

/// A file that is locked until it is freed or dropped.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
    identity: Identity,
}

impl Lock {
    /// Locks the released file again. Returns `false` if another file is in its place by now, or
    /// none, since others lock what they find there, nor if it is not waited for those who hold it.
    pub(super) fn relock(&self, hold: LockMode, patience: WaitPolicy) -> io::Result<bool> {
        match patience {
            WaitPolicy::Waits => wait_for(&self.file, hold, Instant::now() + PATIENCE)?,
            WaitPolicy::None => {
                if !is_locked(&self.file, hold)? {
                    return Ok(false);
                }
            }
        }
        let found = if_there(fs::symlink_metadata(&self.path))?;
        let is_it = found.is_some_and(|it| self.identity.is_of(&it));
        if !is_it {
            self.unlock()?;
        }
        Ok(is_it)
    }

    /// Lets others lock the file, which stays open.
    pub(super) fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

/// Locks a file, which is created if need be. Nothing is returned if its directory is not there.
pub(super) fn lock(path: &Path, hold: LockMode) -> io::Result<Option<Lock>> {
    let until = Instant::now() + PATIENCE;
    loop {
        let file = match open(path)? {
            Some(file) => file,
            None => match if_there(options().read(true).append(true).create(true).open(path))? {
                Some(file) => file,
                None => return Ok(None),
            },
        };
        wait_for(&file, hold, until)?;
        // A directory that was moved away and put back has another lock by now.
        let identity = Identity::of(&file.metadata()?);
        match if_there(fs::symlink_metadata(path))? {
            Some(found) if identity.is_of(&found) => {
                return Ok(Some(Lock { path: path.to_owned(), file, identity }));
            }
            _ => {}
        }
    }
}

fn wait_for(file: &File, hold: LockMode, until: Instant) -> io::Result<()> {
    let mut pause = PAUSES.0;
    loop {
        if is_locked(file, hold)? {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(ErrorKind::TimedOut.into());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Locks a file unless others hold it. Returns `true` if it did.
fn is_locked(file: &File, hold: LockMode) -> io::Result<bool> {
    let tried = match hold {
        LockMode::Shared => file.try_lock_shared(),
        LockMode::Exclusive => file.try_lock(),
    };
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Reads bytes from a place of a file on.
pub(super) fn read_exact_at(file: &mut File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
    }
    #[cfg(not(unix))]
    {
        use std::io::{Read as _, Seek as _};
        file.seek(io::SeekFrom::Start(at))?;
        file.read_exact(bytes)
    }
}

/// Writes bytes to a place of a file.
pub(super) fn write_all_at(file: &mut File, bytes: &[u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
    }
    #[cfg(not(unix))]
    {
        use std::io::Seek as _;
        file.seek(io::SeekFrom::Start(at))?;
        file.write_all(bytes)
    }
}

/// What tells a file from all others that there are while it is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    #[cfg(unix)]
    place: (u64, u64),
    #[cfg(not(unix))]
    created: Option<std::time::SystemTime>,
}

impl Identity {
    pub(super) fn of(file: &fs::Metadata) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Self { place: (file.dev(), file.ino()) }
        }
        #[cfg(not(unix))]
        {
            Self { created: file.created().ok() }
        }
    }

    /// Returns `true` if a file is known to be this one.
    pub(super) fn is_of(self, file: &fs::Metadata) -> bool {
        #[cfg(unix)]
        {
            self.place == Self::of(file).place
        }
        #[cfg(not(unix))]
        {
            self.created.is_some() && self.created == Self::of(file).created
        }
    }
}

/// Notes for tests what was waited for: only a power cut shows it otherwise.
fn note_synced(path: &Path) {
    #[cfg(test)]
    tests::note_synced(path);
    let _ = path;
}

#[cfg(test)]
mod tests;
