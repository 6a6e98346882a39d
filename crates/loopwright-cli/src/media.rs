//! Images and documents that users attach.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use loopwright_capabilities::files::{
    MediaError, MediaLimits, ReadFile, ReadFileArgs, WorkspaceRoot,
};
use loopwright_core::messages::{Content, Part};
use loopwright_models::ModelCapability;
use tokio_util::sync::CancellationToken;

use crate::agent::Setup;
use crate::console;
use crate::render::sanitize_terminal;

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
    let mut bytes = Vec::new();
    let file = File::open(path)
        .and_then(|it| it.take(limits.max_file_bytes() + 1).read_to_end(&mut bytes));
    let path = path.to_owned();
    if let Err(source) = file {
        return Err(AttachError::Read { path, source });
    }
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

/// Says what of these parts the model of a run cannot be given, if that is known.
pub(crate) fn tell_unseen(setup: &Setup, parts: &[Part]) {
    for unseen in unseen(setup, parts) {
        console::warn(&unseen);
    }
}

/// Returns sentences about those of these parts that the model of a run cannot be given, if that is known.
pub(crate) fn unseen(setup: &Setup, parts: &[Part]) -> Vec<String> {
    let Some(capabilities) = &setup.capabilities else { return Vec::new() };
    let has_image = parts.iter().any(|it| matches!(it.content(), Content::Image(_)));
    let has_document = parts.iter().any(|it| matches!(it.content(), Content::Document(_)));
    let kinds = [
        (ModelCapability::Images, "images", has_image),
        (ModelCapability::Documents, "documents", has_document),
    ];
    let unseen =
        kinds.into_iter().filter(|(it, _, has_one)| *has_one && !capabilities.contains(it));
    let model = sanitize_terminal(&setup.model());
    let sentence = |what: &str| {
        format!("{model} does not accept {what}; the model is informed that they were omitted")
    };
    unseen.map(|(_, what, _)| sentence(what)).collect()
}
