//! Control messages for the process that runs a session, in a file beside its log.
//!
//! Each frame holds a message in its head and the message's number in its body. The last record of the log says
//! up to which number they are handled, so a message leaves the queue in the very write that puts what it says
//! into the log.

use std::fs;

use super::{
    disk,
    failure::At as _,
    frame,
    frame_file::{FrameFile, corrupt, intact},
    session::Session,
};
use crate::store::{Lease, Posted, StoreError};

/// The name of the file. It is there as long as it may hold messages that are not handled.
pub(super) const CONTROL_MESSAGES: &str = "control_messages";

impl Session<'_> {
    /// Adds a message.
    pub(super) fn post(&self, control: &[u8]) -> Result<(), StoreError> {
        let path = self.files.dir.join(CONTROL_MESSAGES);
        let number = self.last_control()? + 1;
        let (mut trail, _last) = FrameFile::open(self.id, &path)?;
        let mut bytes = Vec::new();
        frame::write(&mut bytes, trail.end, control, &number.to_le_bytes()).at(&path)?;
        trail.append(&bytes)
    }

    /// Returns the number of the last message, or 0 if there was none.
    pub(super) fn last_control(&self) -> Result<u64, StoreError> {
        let last = self.posted()?.last().map_or(0, |it| it.number);
        Ok(last.max(self.files.last.handled))
    }

    /// Returns the messages that are not handled. If there are none, the file is removed.
    pub(super) fn collect(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError> {
        self.held(lease)?;
        let mut posted = self.posted()?;
        if posted.is_empty() {
            return Ok(posted);
        }
        posted.retain(|it| it.number > self.files.last.handled);
        if posted.is_empty() {
            self.forget_control_messages()?;
        }
        Ok(posted)
    }

    /// Reads all messages, those that are handled among them.
    fn posted(&self) -> Result<Vec<Posted>, StoreError> {
        let path = self.files.dir.join(CONTROL_MESSAGES);
        let Some(mut file) = disk::open(&path).at(&path)? else { return Ok(Vec::new()) };
        let bytes = frame::part(&mut file, 0, u64::MAX).at(&path)?;
        let scan = frame::scan(&bytes, 0);
        intact(self.id, &path, &scan)?;
        let (mut posted, mut number) = (Vec::new(), 0);
        for frame in scan.frames {
            // Where there is no number, they are counted.
            number =
                bytes[frame.body].first_chunk().map_or(number + 1, |it| u64::from_le_bytes(*it));
            let control = serde_json::from_slice(&bytes[frame.head]).map_err(|error| {
                corrupt(self.id, format!("`{}` cannot be parsed: {error}", path.display()))
            })?;
            posted.push(Posted { number, control });
        }
        Ok(posted)
    }

    /// Removes all messages.
    pub(super) fn forget_control_messages(&self) -> Result<(), StoreError> {
        let path = self.files.dir.join(CONTROL_MESSAGES);
        if disk::if_there(fs::remove_file(&path)).at(&path)?.is_some() {
            disk::sync_dir(&self.files.dir).at(&self.files.dir)?;
        }
        Ok(())
    }
}
