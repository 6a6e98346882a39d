//! Copying a store.

use std::{
    fs,
    io::{self, ErrorKind, Write as _},
    path::Path,
};

use super::{
    disk::{self, Hold},
    failure::At as _,
    root::{LOCK, Root},
    spread,
};
use crate::{id::SessionId, store::StoreError};

impl Root {
    /// Copies all sessions into a new directory. The index is made anew there.
    pub(super) fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        let sessions = to.join("sessions");
        match fs::symlink_metadata(to) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found.and(Err(ErrorKind::AlreadyExists.into())).at(to),
        }
        disk::create_dirs(&sessions).at(&sessions)?;
        let names: Vec<_> = self.names()?.into_iter().flatten().collect();
        spread(&names, |id| self.copy(id, &sessions.join(id.as_str())))?;
        for dir in [&*sessions, to] {
            disk::sync_dir(dir).at(dir)?;
        }
        Ok(())
    }

    /// Copies a session, which nobody writes meanwhile.
    fn copy(&self, id: &SessionId, to: &Path) -> Result<(), StoreError> {
        let Some((dir, _lock)) = self.lock_session(id, Hold::Shared)? else { return Ok(()) };
        disk::create_dirs(to).at(to)?;
        for entry in fs::read_dir(&dir).at(&dir)? {
            let name = entry.at(&dir)?.file_name();
            let (from, to) = (dir.join(&name), to.join(&name));
            copy_file(&from, &to, name == LOCK).at(&to)?;
        }
        disk::sync_dir(to).at(to)
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
