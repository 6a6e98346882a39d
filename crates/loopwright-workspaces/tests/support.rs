//! Folders as values, and a store that fails.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use loopwright_workspaces::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory,
    path::Path as ObjectPath,
};
use tokio::sync::Notify;

/// An entry of a folder, with everything that a snapshot keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Folder(u32, i64, i64),
    File(u32, i64, i64, Vec<u8>),
    Link(i64, i64, PathBuf),
}

/// Reads a folder.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, Found> {
    let mut found = BTreeMap::new();
    add(folder, folder, &mut found);
    found
}

fn add(root: &Path, path: &Path, found: &mut BTreeMap<PathBuf, Found>) {
    let status = fs::symlink_metadata(path).unwrap();
    let (mode, seconds, nanos) = (status.mode() & 0o7777, status.mtime(), status.mtime_nsec());
    let key = path.strip_prefix(root).unwrap().to_owned();
    if status.is_symlink() {
        found.insert(key, Found::Link(seconds, nanos, fs::read_link(path).unwrap()));
    } else if status.is_file() {
        found.insert(key, Found::File(mode, seconds, nanos, fs::read(path).unwrap()));
    } else {
        let is_root = key.as_os_str().is_empty();
        let times = if is_root { (0, 0) } else { (seconds, nanos) };
        found.insert(key, Found::Folder(mode, times.0, times.1));
        for entry in fs::read_dir(path).unwrap() {
            add(root, &entry.unwrap().path(), found);
        }
    }
}

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>, mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What happens at the chosen operation of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// It fails, and so do all later ones.
    Fail,
    /// It does not end.
    Hang,
}

/// A store in memory that is cut off after a number of operations.
#[derive(Debug)]
pub(crate) struct CutStore {
    inner: Arc<InMemory>,
    pub(crate) cut: Cut,
    left: AtomicUsize,
    pub(crate) reached: Notify,
}

impl CutStore {
    pub(crate) fn new(inner: &Arc<InMemory>, cut: Cut, after: usize) -> Arc<Self> {
        let (inner, left) = (Arc::clone(inner), AtomicUsize::new(after));
        Arc::new(Self { inner, cut, left, reached: Notify::new() })
    }

    async fn operation(&self) -> Result<()> {
        let counted =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if counted.is_ok() {
            return Ok(());
        }
        self.reached.notify_one();
        match self.cut {
            Cut::Fail => Err(Error::Generic { store: "cut", source: "cut off".into() }),
            Cut::Hang => std::future::pending().await,
        }
    }
}

impl fmt::Display for CutStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cut store")
    }
}

#[async_trait]
impl ObjectStore for CutStore {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.operation().await?;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.operation().await?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        self.operation().await?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        options: CopyOptions,
    ) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
