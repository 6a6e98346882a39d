//! Compressed responses.

use std::io::{self, Write as _};

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;
use http::header::{CONTENT_ENCODING, HeaderMap};

use super::head::invalid;

/// How much is decoded at once. It may become a thousand times as much.
const STEP: usize = 4 * 1024;

/// Decodes an answer.
#[derive(Debug)]
pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// What is not decoded yet.
    input: Bytes,
    is_empty: bool,
}

impl Gunzip {
    /// Takes the headers of an answer, and returns those of what it is when it is decoded. `None` means that it needs no decoding.
    pub(super) fn of(mut headers: HeaderMap) -> (HeaderMap, Option<Box<Self>>) {
        let mut encodings = headers.get_all(CONTENT_ENCODING).into_iter();
        let is_gzip =
            encodings.next().is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"gzip"));
        if !is_gzip || encodings.next().is_some() {
            return (headers, None);
        }
        headers.remove(CONTENT_ENCODING);
        let decoder = MultiGzDecoder::new(Vec::new());
        (headers, Some(Box::new(Self { decoder, input: Bytes::new(), is_empty: true })))
    }

    /// Adds bytes that came, once all before are decoded.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.is_empty &= bytes.is_empty();
        self.input = bytes;
    }

    /// Decodes some bytes; `None` means that more have to come first.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.input.is_empty() {
            let step = self.input.len().min(STEP);
            self.decoder.write_all(&self.input[..step]).map_err(|error| spoiled(&error))?;
            self.input.advance(step);
            if !self.decoder.get_ref().is_empty() {
                return Ok(Some(std::mem::take(self.decoder.get_mut()).into()));
            }
        }
        Ok(None)
    }

    /// Decodes what is left at the end, if something is.
    pub(super) fn finish(self) -> io::Result<Option<Bytes>> {
        if self.is_empty {
            return Ok(None);
        }
        let rest = self.decoder.finish().map_err(|error| spoiled(&error))?;
        Ok((!rest.is_empty()).then(|| rest.into()))
    }
}

fn spoiled(error: &io::Error) -> io::Error {
    invalid(&format!("the compressed response cannot be read: {error}"))
}
