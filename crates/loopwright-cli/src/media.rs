//! Images and documents that users attach.

use std::io;
use std::path::{Path, PathBuf};

use loopwright_capabilities::files::{
    MediaError, MediaLimits, ReadFile, ReadFileArgs, WorkspaceRoot,
};
use loopwright_core::messages::Part;
use tokio_util::sync::CancellationToken;

use crate::named_file;

/// A file cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It cannot be read.
    #[error("cannot read {}; check the path", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error("{} is neither an image (PNG, JPEG, GIF, WebP) nor a PDF document; convert it", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
    },
    /// It is too large, or not whole.
    #[error("cannot attach {}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: MediaError,
    },
}

/// Reads an image or a document that the user names. Blocks.
///
/// # Errors
///
/// Returns an error if the file cannot be read, has another format, or is too large.
pub(crate) fn read(path: &Path) -> Result<Part, AttachError> {
    let limits = MediaLimits::default();
    // The limits report a file that is too long.
    let bytes = named_file::beginning(path, limits.max_file_bytes() + 1);
    let path = path.to_owned();
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(source) => return Err(AttachError::Read { path, source }),
    };
    match limits.read(&path.to_string_lossy(), bytes) {
        Ok(Some(media)) => Ok(media.part),
        Ok(None) => Err(AttachError::Kind { path }),
        Err(source) => Err(AttachError::Unusable { path, source }),
    }
}

/// Reads an image or a document below a directory. Returns `None` if it is something else, or why it cannot be shown. Blocks.
pub(crate) fn read_in(workdir: &WorkspaceRoot, path: &str) -> Option<Result<Part, String>> {
    let args = ReadFileArgs { path: path.to_owned(), ..ReadFileArgs::default() };
    let read = ReadFile::in_dir(workdir.clone()).read(&args, &CancellationToken::new());
    match read {
        Ok(output) => output.content.iter().find(|it| it.as_text().is_none()).cloned().map(Ok),
        Err(error) => Some(Err(error.to_string())),
    }
}
