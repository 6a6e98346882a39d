//! The layers of caches that commands see as copies-on-write, on the helper's side.
//!
//! A layer is a folder: `upper` has what commands have changed so far. Each command reads it, and writes to a folder `run-…`
//! of its own, because two overlays must not write to the same one. When the command has ended, its changes are moved to
//! `upper`.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::fs_view::{Seen, View};
use crate::beneath::{OPAQUE, is_opaque, random};
use crate::copied_cache::CopiedCache;
use crate::job::Refusal;
use crate::removal;

/// The name of the failed step if a cache cannot be a copy-on-write.
pub(crate) const STAGE: &str = "mounting the overlay of a cache";

/// The parts of a layer's folder.
const UPPER: &str = "upper";
const EMPTY: &str = "empty";
const RUN: &str = "run-";
/// Held while a command prepares its folder, or moves its changes.
const GUARD: &str = "guard";
/// The file by which programs in different commands wait for each other.
const SHARED: &str = "shared-lock";
/// Names the cache that the changes belong to, and the form of the layer.
const STAMP: &str = "stamp";
/// The file whose time says when the size was last determined.
const MEASURED: &str = "measured";

/// The size beyond which the changes of commands are discarded, and how often it is determined.
const MAX_BYTES: u64 = 4 << 30;
const MEASURE: Duration = Duration::from_hours(24);
/// How much each entry counts at least, because every one of them costs time when a command starts.
const MIN_ENTRY: u64 = 4096;
/// The depth of folders beyond which they are not looked at.
const MAX_DEPTH: usize = 64;

/// A layer above a cache, as one command uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layer {
    pub(crate) folder: PathBuf,
    /// The user's cache, or an empty folder.
    pub(crate) lower: PathBuf,
    /// The name of the folder of this command. Empty until it is open.
    pub(crate) run: String,
    /// Whether later commands see the changes of this one.
    pub(crate) is_kept: bool,
}

/// The open layers of a command, with the locks of their folders. Drop them when the command's last process has ended: they
/// then keep its changes for other commands, unless these are discarded.
#[derive(Debug, Default)]
pub(crate) struct Layers(Vec<(Layer, File)>);

impl Layer {
    /// Describes the layer of a cache whose folder is `real`, or does not exist.
    pub(super) fn of(cache: &CopiedCache, real: Option<PathBuf>) -> Self {
        let folder = cache.layer.clone();
        let lower = real.unwrap_or_else(|| folder.join(EMPTY));
        Self { folder, lower, run: String::new(), is_kept: true }
    }

    /// Describes a layer for one command, whose changes are discarded.
    pub(super) fn passing(folder: PathBuf, lower: PathBuf) -> Self {
        Self { folder, lower, run: String::new(), is_kept: false }
    }

    /// Returns the file at the path of [`CopiedCache::lock`].
    pub(super) fn shared_lock(&self) -> PathBuf {
        self.folder.join(SHARED)
    }

    fn upper(&self) -> PathBuf {
        self.folder.join(UPPER)
    }

    /// Waits until no other command prepares its folder or moves its changes.
    fn guard(&self) -> io::Result<File> {
        let guard = lock_file(&self.folder.join(GUARD))?;
        flock(&guard, FlockOperation::LockExclusive)?;
        Ok(guard)
    }

    /// Makes the folder of a command, and returns its lock.
    fn open(&mut self) -> io::Result<File> {
        for name in [UPPER, EMPTY] {
            make(&self.folder.join(name))?;
        }
        let _guard = self.guard()?;
        lock_file(&self.shared_lock())?;
        let others = remove_left(&self.folder);
        renew(self, others)?;
        self.run = format!("{RUN}{:016x}", random());
        let run = self.folder.join(&self.run);
        for name in ["work", UPPER] {
            make(&run.join(name))?;
        }
        let held = File::open(&run)?;
        flock(&held, FlockOperation::NonBlockingLockExclusive)?;
        Ok(held)
    }

    /// Moves the changes of a command to those of earlier ones, unless they are discarded. What cannot be moved is dropped.
    fn close(&self) {
        let run = self.folder.join(&self.run);
        let started = fs::metadata(&run).map(|it| changed(&it));
        if self.is_kept
            && let (Ok(_guard), Ok(started)) = (self.guard(), started)
        {
            let merge = Merge { started, depth: 0 };
            merge.folder(&run.join(UPPER), &self.upper(), &self.lower).ok();
        }
        // What cannot be removed now is removed when another command starts.
        removal::remove(&run).ok();
    }
}

impl Layers {
    /// Opens the layers of a view.
    pub(crate) fn open(view: &mut View) -> Result<Self, Refusal> {
        let mut layers = Self::default();
        for entry in &mut view.entries {
            if let Seen::Copied(layer) = &mut entry.seen {
                let held = layer.open().map_err(|error| Refusal::setup(STAGE, &error))?;
                layers.0.push((layer.clone(), held));
            }
        }
        Ok(layers)
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        for (layer, _held) in self.0.drain(..) {
            layer.close();
        }
    }
}

/// Moves the changes of a command to those of earlier ones, without following links. No process writes to either.
#[derive(Clone, Copy)]
struct Merge {
    /// When the command started.
    started: (i64, i64),
    depth: usize,
}

impl Merge {
    /// Moves what is in a folder. `lower` is the same folder of the user, which need not exist.
    fn folder(self, from: &Path, to: &Path, lower: &Path) -> io::Result<()> {
        if self.depth > MAX_DEPTH {
            return Ok(());
        }
        removal::make_writable(from)?;
        let mode = fs::symlink_metadata(to)?.permissions();
        removal::make_writable(to)?;
        for entry in fs::read_dir(from)?.flatten() {
            let name = entry.file_name();
            // What cannot be moved is dropped.
            self.entry(&entry.path(), &to.join(&name), &lower.join(&name)).ok();
        }
        fs::set_permissions(to, mode)
    }

    fn entry(self, from: &Path, to: &Path, lower: &Path) -> io::Result<()> {
        let status = fs::symlink_metadata(from)?;
        let there = fs::symlink_metadata(to).ok();
        if let Some(there) = &there
            && status.is_dir()
            && there.is_dir()
            // It replaces the folder that the command has seen, and not one that another command has made meanwhile.
            && (!is_opaque(from) || changed(there) > self.started)
        {
            return Self { depth: self.depth + 1, ..self }.folder(from, to, lower);
        }
        // A folder replaces nothing, and nothing but an empty folder replaces a folder.
        if there.is_some_and(|there| status.is_dir() || there.is_dir()) {
            removal::remove(to)?;
        }
        if !status.is_dir() {
            return fs::rename(from, to);
        }
        // A folder that moves is written to: its entry for the folder above changes.
        removal::make_writable(from)?;
        if fs::symlink_metadata(lower).is_err() {
            // It hides nothing, and is not to hide what the user creates later.
            rustix::fs::lremovexattr(from, OPAQUE).ok();
        }
        fs::rename(from, to)?;
        fs::set_permissions(to, status.permissions())
    }
}

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// Removes the folders of commands whose helpers were killed. Returns the number of other commands that are running.
fn remove_left(folder: &Path) -> usize {
    let mut running = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_run = entry.file_name().as_encoded_bytes().starts_with(RUN.as_bytes());
        let Some(held) = is_run.then(|| File::open(entry.path()).ok()).flatten() else { continue };
        if flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok() {
            removal::remove(&entry.path()).ok();
        } else {
            running += 1;
        }
    }
    running
}

/// Discards what must not be laid over the cache as it is now. `others` is the number of other commands that read it.
fn renew(layer: &Layer, others: usize) -> io::Result<()> {
    let (upper, stamp) = (layer.upper(), layer.folder.join(STAMP));
    let cache = fs::metadata(&layer.lower)?;
    let current = format!("1 {} {}\n", cache.ino(), layer.lower.display());
    let is_same = fs::read_to_string(&stamp).is_ok_and(|it| it == current);
    let is_kept = is_same
        && (others > 0 || !is_too_large(&layer.folder, &upper, MAX_BYTES))
        && drop_outdated(&upper, &layer.lower, 0).is_ok();
    if !is_kept {
        removal::remove(&upper)?;
        make(&upper)?;
        fs::write(&stamp, current)?;
    }
    Ok(())
}

/// Removes from a folder of the layer what hides something that the user's programs have changed since then.
fn drop_outdated(upper: &Path, lower: &Path, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for entry in fs::read_dir(upper)? {
        let entry = entry?;
        let (above, below) = (entry.path(), lower.join(entry.file_name()));
        let Ok(of_user) = fs::symlink_metadata(&below) else { continue };
        let own = fs::symlink_metadata(&above)?;
        if own.is_dir() && of_user.is_dir() && !is_opaque(&above) {
            drop_outdated(&above, &below, depth + 1)?;
        } else if changed(&of_user) >= changed(&own) {
            removal::remove(&above)?;
        }
    }
    Ok(())
}

fn changed(status: &Metadata) -> (i64, i64) {
    (status.ctime(), status.ctime_nsec())
}

/// Returns `true` if the changes take too much space. Determines that once a day only.
fn is_too_large(folder: &Path, upper: &Path, most: u64) -> bool {
    let mark = folder.join(MEASURED);
    let measured = fs::metadata(&mark).and_then(|it| it.modified());
    if measured.is_ok_and(|it| it.elapsed().is_ok_and(|passed| passed < MEASURE)) {
        return false;
    }
    fs::write(&mark, b"").ok();
    // A tree that cannot be measured counts as too large.
    size(upper, 0).is_none_or(|bytes| bytes > most)
}

/// Returns the size of a tree. `None` means that it cannot be measured as a whole.
fn size(folder: &Path, depth: usize) -> Option<u64> {
    let mut total = 0_u64;
    for entry in fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        let status = fs::symlink_metadata(&path).ok()?;
        total = total.saturating_add((status.blocks() * 512).max(MIN_ENTRY));
        if status.is_dir() && depth >= MAX_DEPTH {
            return None;
        }
        if status.is_dir() {
            total = total.saturating_add(size(&path, depth + 1)?);
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests;
