//! The entry point: where snapshots are stored, and options.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;
use url::Url;

use crate::blobs::Objects;
use crate::error::SnapshotError;
use crate::limits::SnapshotLimits;

/// The number of files that are read, sent or written at once.
pub(crate) const PARALLEL: usize = 8;

/// Snapshots of folders in an object store. Clones share the store.
///
/// Every process that can write to the storage can make a folder have any content, so give write access only to programs that
/// may change these folders. Content is not encrypted.
#[derive(Clone, Debug)]
pub struct Snapshots {
    pub(crate) objects: Objects,
    pub(crate) limits: SnapshotLimits,
    pub(crate) left_out: Arc<[PathBuf]>,
}

impl Snapshots {
    /// Creates snapshots in an object store.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        let objects = Objects { store, prefix: ObjectPath::default() };
        Self { objects, limits: SnapshotLimits::default(), left_out: Arc::default() }
    }

    /// Creates snapshots in a folder, such as one of a shared volume. The folder is created if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be created.
    pub fn in_folder(folder: &Path) -> Result<Self, SnapshotError> {
        std::fs::create_dir_all(folder).map_err(SnapshotError::at(folder))?;
        let store = LocalFileSystem::new_with_prefix(folder).map_err(SnapshotError::Storage)?;
        Ok(Self::new(Arc::new(store.with_fsync(true))))
    }

    /// Opens the storage at a URL: `file:///FOLDER`, `memory:///`, or with the feature `s3` `s3://BUCKET/PREFIX`.
    ///
    /// S3 takes credentials, region and endpoint from the variables `AWS_…` of the environment.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid or has another scheme, or if the storage cannot be opened.
    pub fn open(url: &str) -> Result<Self, SnapshotError> {
        let invalid = |reason: &str| SnapshotError::Url {
            scheme: url.split_once(':').map_or("", |(scheme, _)| scheme).to_owned(),
            reason: reason.to_owned(),
        };
        let parsed = Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
        match parsed.scheme() {
            "file" => {
                let folder = parsed.to_file_path();
                Self::in_folder(&folder.map_err(|()| invalid("use `file:///FOLDER`"))?)
            }
            "memory" => Ok(Self::new(Arc::new(InMemory::new()))),
            #[cfg(feature = "s3")]
            "s3" => Self::open_s3(&parsed),
            _ => {
                Err(invalid("use `file:///FOLDER`, or `s3://BUCKET/PREFIX` with the feature `s3`"))
            }
        }
    }

    #[cfg(feature = "s3")]
    fn open_s3(url: &Url) -> Result<Self, SnapshotError> {
        // Fails if the program has chosen another one, which then remains.
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let store = object_store::aws::AmazonS3Builder::from_env()
            .with_bucket_name(url.host_str().unwrap_or_default())
            .build()
            .map_err(SnapshotError::Storage)?;
        let prefix = ObjectPath::from_url_path(url.path());
        let prefix = prefix.map_err(|error| SnapshotError::Storage(error.into()))?;
        Ok(Self::new(Arc::new(store)).with_prefix(&prefix))
    }

    /// Stores everything below a path, such as one of each session. Content is shared only between snapshots of the same path.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &ObjectPath) -> Self {
        let parent = self.objects.prefix;
        self.objects.prefix = prefix.parts().fold(parent, ObjectPath::join);
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: SnapshotLimits) -> Self {
        Self { limits, ..self }
    }

    /// Leaves out these paths, which are relative to the folder, with everything below them.
    #[must_use]
    pub fn with_left_out(self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { left_out: paths.into_iter().collect(), ..self }
    }
}
