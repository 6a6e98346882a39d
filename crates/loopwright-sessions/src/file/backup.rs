//! Copying a store.

use std::{
    fs,
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use super::{
    disk::{self, LockMode},
    failure::At as _,
    root::{LOCK, Root},
    spread,
};
use crate::{id::SessionId, store::StoreError};

impl Root {
    /// Copies all sessions into a new directory, which gets its name once it is whole. The index is
    /// rebuilt there.
    pub(super) fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        match fs::symlink_metadata(to) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found.and(Err(ErrorKind::AlreadyExists.into())).at(to),
        }
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        // A process that was killed left it.
        remove(&partial).at(&partial)?;
        let copied = self.copy_all(&partial);
        let published = copied.and_then(|()| fs::rename(&partial, to).at(to));
        if published.is_err() {
            // Half a copy is of no use.
            let _removed = remove(&partial);
        }
        published?;
        let parent = to.parent().filter(|it| !it.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        disk::sync_dir(parent).at(parent)
    }

    fn copy_all(&self, to: &Path) -> Result<(), StoreError> {
        let sessions = to.join("sessions");
        disk::create_dirs(&sessions).at(&sessions)?;
        let names: Vec<_> = self.names()?.into_iter().flatten().collect();
        spread(&names, |id| self.copy(id, &sessions.join(id.as_str())))?;
        for dir in [&*sessions, to] {
            disk::sync_dir(dir).at(dir)?;
        }
        Ok(())
    }

    /// Copies a session while no process writes it.
    fn copy(&self, id: &SessionId, to: &Path) -> Result<(), StoreError> {
        let Some((dir, _lock)) = self.lock_session(id, LockMode::Shared)? else { return Ok(()) };
        disk::create_dirs(to).at(to)?;
        for entry in fs::read_dir(&dir).at(&dir)? {
            let name = entry.at(&dir)?.file_name();
            let (from, to) = (dir.join(&name), to.join(&name));
            copy_file(&from, &to, name == LOCK).at(&to)?;
        }
        disk::sync_dir(to).at(to)
    }
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn copy_file(from: &Path, to: &Path, is_empty: bool) -> io::Result<()> {
    let mut file = disk::options().write(true).create_new(true).open(to)?;
    if let Some(mut from) = disk::open(from)?.filter(|_| !is_empty) {
        io::copy(&mut from, &mut file)?;
    }
    file.flush()?;
    disk::sync_all(&file, to)
}
