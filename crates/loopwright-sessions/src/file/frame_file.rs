//! A file of frames to which is only appended.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{
    disk::{self, Identity},
    failure::At as _,
    frame::{self, LogTail, OwnedFrame, Scan},
};
use crate::{id::SessionId, store::StoreError};

/// A file of frames that is open for appending. A caller that has it holds the lock that guards it.
#[derive(Debug)]
pub(super) struct FrameFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) identity: Identity,
    /// Where its frames end.
    pub(super) end: u64,
    /// How long the file is: longer if a frame at its end is torn.
    pub(super) length: u64,
}

impl FrameFile {
    /// Opens a file, which is created if there is none, and returns its last frame.
    pub(super) fn open(
        id: &SessionId,
        path: &Path,
    ) -> Result<(Self, Option<OwnedFrame>), StoreError> {
        let is_new = fs::symlink_metadata(path).is_err();
        let file = disk::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = file.at(path)?;
        if let Some(dir) = path.parent().filter(|_| is_new) {
            disk::sync_dir(dir).at(dir)?;
        }
        let metadata = file.metadata().at(path)?;
        let (length, identity) = (metadata.len(), Identity::of(&metadata));
        let mut last = frame::ending_at(&mut file, length).at(path)?;
        let mut end = length;
        if last.is_none() && length > 0 {
            let bytes = frame::part(&mut file, 0, length).at(path)?;
            let scan = frame::scan(&bytes, 0);
            intact(id, path, &scan)?;
            last = frame::ending_at(&mut file, scan.end).at(path)?;
            end = scan.end;
        }
        Ok((Self { path: path.to_owned(), file, identity, end, length }, last))
    }

    /// Appends frames that were written for the place where the others end, and waits until they are on
    /// the disk. Of what is torn there nothing is lost: it is moved to a file beside this one.
    ///
    /// If it fails, nothing was appended.
    pub(super) fn append(&mut self, frames: &[u8]) -> Result<(), StoreError> {
        if self.length > self.end {
            self.set_aside().at(&self.path)?;
        }
        let written = self.write(frames);
        if written.is_err() {
            // What cannot be taken back is torn, and set aside later.
            let _taken_back = self.file.set_len(self.end);
        }
        written.at(&self.path)?;
        self.end += frames.len() as u64;
        self.length = self.end;
        Ok(())
    }

    fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        disk::write_all_at(&mut self.file, frames, self.end)?;
        disk::sync_data(&self.file, &self.path)
    }

    /// Moves what is torn to a file beside this one, whose name is returned.
    pub(super) fn set_aside(&mut self) -> io::Result<PathBuf> {
        let torn = frame::part(&mut self.file, self.end, self.length - self.end)?;
        let aside = disk::backup_path(&self.path, "torn");
        let mut file = disk::options().write(true).create_new(true).open(&aside)?;
        file.write_all(&torn)?;
        disk::sync_all(&file, &aside)?;
        aside.parent().map_or(Ok(()), disk::sync_dir)?;
        self.file.set_len(self.end)?;
        self.length = self.end;
        Ok(aside)
    }
}

/// Checks that nothing is wrong before intact frames.
pub(super) fn intact(id: &SessionId, path: &Path, scan: &Scan) -> Result<(), StoreError> {
    let LogTail::CorruptMiddle { again } = scan.ending else { return Ok(()) };
    let (path, end) = (path.display(), scan.end);
    Err(corrupt(
        id,
        format!(
            "`{path}` is damaged at byte {end}, before intact records at byte {again}; restore a \
                backup, or repair the store"
        ),
    ))
}

pub(super) fn corrupt(id: &SessionId, reason: impl Into<String>) -> StoreError {
    StoreError::Corrupt { id: id.clone(), reason: reason.into() }
}
