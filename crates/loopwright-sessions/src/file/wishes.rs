//! Wishes for whoever runs a session, in a file beside its log.

use std::fs;

use super::{
    disk,
    failure::At as _,
    frame,
    session::Session,
    trail::{Trail, corrupt, intact},
};
use crate::store::{Lease, StoreError, Wish};

/// The name of the file. It is there as long as there are wishes.
pub(super) const WISHES: &str = "wishes";

impl Session<'_> {
    /// Leaves a wish.
    pub(super) fn post(&self, wish: &[u8]) -> Result<(), StoreError> {
        let path = self.files.dir.join(WISHES);
        let (mut trail, _last) = Trail::open(self.id, &path)?;
        let mut bytes = Vec::new();
        frame::write(&mut bytes, trail.end, wish, b"").at(&path)?;
        trail.append(&bytes)
    }

    /// Takes the wishes that were left.
    pub(super) fn collect(&self, lease: &Lease) -> Result<Vec<Wish>, StoreError> {
        self.held(lease)?;
        let wishes = self.wishes()?;
        self.forget_wishes()?;
        Ok(wishes)
    }

    fn wishes(&self) -> Result<Vec<Wish>, StoreError> {
        let path = self.files.dir.join(WISHES);
        let Some(mut file) = disk::open(&path).at(&path)? else { return Ok(Vec::new()) };
        let bytes = frame::part(&mut file, 0, u64::MAX).at(&path)?;
        let scan = frame::scan(&bytes, 0);
        intact(self.id, &path, &scan)?;
        let wishes = scan.frames.iter().map(|it| serde_json::from_slice(&bytes[it.head.clone()]));
        wishes.collect::<Result<_, _>>().map_err(|error| {
            corrupt(self.id, format!("`{}` cannot be understood: {error}", path.display()))
        })
    }

    /// Removes all wishes.
    pub(super) fn forget_wishes(&self) -> Result<(), StoreError> {
        let path = self.files.dir.join(WISHES);
        if disk::if_there(fs::remove_file(&path)).at(&path)?.is_some() {
            disk::sync_dir(&self.files.dir).at(&self.files.dir)?;
        }
        Ok(())
    }
}
