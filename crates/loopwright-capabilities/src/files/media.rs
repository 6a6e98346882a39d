//! Pictures and documents as models take them.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use loopwright_core::messages::{Content, Media, MediaSource, Part, Picture, PictureError};

use crate::files::shown::Size;
use crate::files::sniff::{self, Kind};

#[cfg(feature = "images")]
mod scale;

/// How large pictures and documents may be that a model is shown.
///
/// With the feature `images`, larger pictures are scaled down; without it, they are refused. Providers refuse pictures of more
/// than 5 MB in base64, and of more than 2,000 pixels if a request has many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaLimits {
    /// The most bytes of a picture; 3,750,000 by default, which are 5 MB in base64.
    pub image_bytes: u64,
    /// The most pixels of a picture's longer edge; 2,000 by default.
    pub image_edge: u32,
    /// The most bytes of a document; 10 MiB by default.
    pub document_bytes: u64,
}

impl Default for MediaLimits {
    fn default() -> Self {
        Self { image_bytes: 3_750_000, image_edge: 2_000, document_bytes: 10 << 20 }
    }
}

/// The largest picture that is read to be scaled down.
const MAX_READ: u64 = 64 << 20;

/// A file that a model can look at, and what to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadMedia {
    /// The picture or document.
    pub part: Part,
    /// Its type and size, and the pixels that it was scaled down to.
    pub caption: String,
}

/// A picture or document cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// It is too large.
    #[error("{what} of {size} is larger than the limit of {limit}; {remedy}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// The size.
        size: Size,
        /// The maximum size.
        limit: Size,
        /// The remedy.
        remedy: &'static str,
    },
    /// The picture is not whole.
    #[error("{0}")]
    Broken(PictureError),
    /// The picture has too many pixels to be scaled down.
    #[error(
        "the image has {width}×{height} pixels, which is too many; make a smaller copy with a command"
    )]
    Endless {
        /// The width.
        width: u32,
        /// The height.
        height: u32,
    },
}

/// A picture that fits.
struct FittingPicture {
    mime: &'static str,
    bytes: Vec<u8>,
    /// The pixels, if it was scaled down.
    scaled: Option<(u32, u32)>,
}

impl MediaLimits {
    /// Sets the most bytes of a picture.
    #[must_use]
    pub fn with_image_bytes(self, bytes: u64) -> Self {
        Self { image_bytes: bytes, ..self }
    }

    /// Returns the most bytes of a file that are worth reading.
    pub fn max_file_bytes(&self) -> u64 {
        let picture = if cfg!(feature = "images") { MAX_READ } else { self.image_bytes };
        picture.max(self.image_bytes).max(self.document_bytes)
    }

    /// Makes a part of the content of a file: PNG, JPEG, GIF, WebP or PDF. Returns `None` for anything else. Blocks for as long
    /// as a picture takes to scale.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is too large, or a picture that is not whole.
    pub fn read(&self, name: &str, bytes: Vec<u8>) -> Result<Option<ReadMedia>, MediaError> {
        match sniff::kind(&bytes[..bytes.len().min(sniff::WINDOW)]) {
            Kind::Image(mime) => self.picture(mime, bytes).map(Some),
            Kind::Document(mime) => self.document(name, mime, &bytes).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn picture(
        &self,
        mime: &'static str,
        bytes: Vec<u8>,
    ) -> Result<ReadMedia, MediaError> {
        let size = Size(bytes.len() as u64);
        // What is not read as a whole is too large.
        let pixels = if size.0 > self.max_file_bytes() {
            None
        } else {
            Picture::of(&bytes).map_err(MediaError::Broken)?.pixels
        };
        let has_room = size.0 <= self.image_bytes;
        let Some(picture) = self.fitting(mime, bytes, pixels) else {
            if let Some((width, height)) = pixels.filter(|_| has_room) {
                return Err(MediaError::Endless { width, height });
            }
            let remedy = "make a smaller image of it with a command";
            let limit = Size(self.image_bytes);
            return Err(MediaError::TooLarge { what: "a picture", size, limit, remedy });
        };
        let caption = match picture.scaled {
            Some((width, height)) => format!("{mime}, {size}, scaled down to {width}×{height}"),
            None => format!("{mime}, {size}"),
        };
        let part = Part::image(picture.mime, STANDARD.encode(picture.bytes));
        Ok(ReadMedia { part, caption })
    }

    #[cfg(feature = "images")]
    fn fitting(
        &self,
        mime: &'static str,
        bytes: Vec<u8>,
        pixels: Option<(u32, u32)>,
    ) -> Option<FittingPicture> {
        scale::fitting(mime, bytes, pixels, self)
    }

    #[cfg(not(feature = "images"))]
    fn fitting(
        &self,
        mime: &'static str,
        bytes: Vec<u8>,
        _pixels: Option<(u32, u32)>,
    ) -> Option<FittingPicture> {
        (bytes.len() as u64 <= self.image_bytes).then_some(FittingPicture {
            mime,
            bytes,
            scaled: None,
        })
    }

    pub(super) fn document(
        &self,
        name: &str,
        mime: &'static str,
        bytes: &[u8],
    ) -> Result<ReadMedia, MediaError> {
        let (size, limit) = (Size(bytes.len() as u64), Size(self.document_bytes));
        if size.0 > limit.0 {
            let remedy = "extract the pages that matter, or their text, with a command";
            return Err(MediaError::TooLarge { what: "a document", size, limit, remedy });
        }
        let name = name.rsplit('/').next().filter(|it| !it.is_empty()).map(Arc::from);
        let source = MediaSource::Base64(STANDARD.encode(bytes).into());
        let part = Part::new(Content::Document(Media { mime: mime.into(), source, name }));
        Ok(ReadMedia { part, caption: format!("{mime}, {size}") })
    }
}

#[cfg(all(test, feature = "images"))]
mod tests;
