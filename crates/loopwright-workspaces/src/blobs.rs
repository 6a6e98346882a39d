//! Blobs and manifests in the object store, addressed by their digests.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::error::SnapshotError;

/// The age from which an object is sent again instead of being relied upon: the deletion of unused objects may have chosen it.
pub(crate) const REFRESH_AFTER: Duration = Duration::from_hours(12);

macro_rules! digest {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            pub(crate) fn of(bytes: &[u8]) -> Self {
                Self(Sha256::digest(bytes).into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&to_hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl FromStr for $name {
            type Err = SnapshotError;

            fn from_str(text: &str) -> Result<Self, SnapshotError> {
                let bytes = from_hex(text).and_then(|it| <[u8; 32]>::try_from(it).ok());
                let bytes = bytes.filter(|_| !text.bytes().any(|it| it.is_ascii_uppercase()));
                bytes.map(Self).ok_or_else(|| SnapshotError::invalid("a digest has 64 lowercase hexadecimal digits"))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'a> Deserialize<'a> for $name {
            fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

digest! {
    /// The digest of a piece of a file.
    BlobId
}
digest! {
    /// The digest of a manifest, which names a snapshot.
    SnapshotId
}

/// The kinds of objects, each in a folder of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Blob,
    Manifest,
}

impl ObjectKind {
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Blob => "blobs",
            Self::Manifest => "manifests",
        }
    }
}

/// The objects of snapshots below a prefix of an object store.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: ObjectPath,
}

impl Objects {
    pub(crate) fn folder(&self, kind: ObjectKind) -> ObjectPath {
        self.prefix.clone().join(kind.folder())
    }

    fn path(&self, kind: ObjectKind, id: &impl fmt::Display) -> ObjectPath {
        let name = id.to_string();
        // Folders of a file system become slow with many entries.
        self.folder(kind).join(&name[..2]).join(name.as_str())
    }

    /// Stores an object unless it exists. Returns `true` if it was sent.
    pub(crate) async fn put(
        &self,
        kind: ObjectKind,
        id: &impl fmt::Display,
        content: Bytes,
    ) -> Result<bool, SnapshotError> {
        let path = self.path(kind, id);
        match self.store.head(&path).await {
            Ok(found)
                if found.size == content.len() as u64 && is_fresh(found.last_modified.into()) =>
            {
                return Ok(false);
            }
            // One of another size is damaged, and replaced.
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(SnapshotError::Storage(error)),
        }
        self.store.put(&path, content.into()).await.map_err(SnapshotError::Storage)?;
        Ok(true)
    }

    /// Reads an object of at most `limit` bytes. `None` means that it does not exist.
    pub(crate) async fn get(
        &self,
        kind: ObjectKind,
        id: &impl fmt::Display,
        limit: u64,
    ) -> Result<Option<Bytes>, SnapshotError> {
        let path = self.path(kind, id);
        let found = match self.store.get(&path).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(SnapshotError::Storage(error)),
        };
        if found.meta.size > limit {
            return Err(SnapshotError::Damaged(path.to_string()));
        }
        found.bytes().await.map(Some).map_err(SnapshotError::Storage)
    }
}

fn is_fresh(modified: SystemTime) -> bool {
    modified.elapsed().map_or(true, |age| age < REFRESH_AFTER)
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|it| it.to_digit(16).and_then(|it| u8::try_from(it).ok())).collect();
    let digits = digits?;
    let is_even = digits.len().is_multiple_of(2);
    is_even.then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
