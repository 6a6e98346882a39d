//! `read_file`.

use std::fs::{File, Metadata};
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use loopwright_core::{
    BoxError, Reach, SideEffects, Tool, ToolCx, ToolOptions, ToolOutput, messages::Part,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::files::FileError;
use crate::files::blocking::blocking;
use crate::files::continuation::Continuation;
use crate::files::media::{MediaError, MediaLimits, ReadMedia};
use crate::files::page::{self, At, Bounds, End, PREVIEW, Page, Start};
use crate::files::root::WorkspaceRoot;
use crate::files::shown::{self, Size};
use crate::files::sniff::{self, Kind};

/// Shows a text file of a directory page by page, with line numbers, an image, or a PDF document.
#[derive(Clone, Debug)]
#[must_use]
pub struct ReadFile {
    root: WorkspaceRoot,
    lines: u64,
    bytes: usize,
    most_bytes: usize,
    media: MediaLimits,
}

/// The arguments of the tool `read_file`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFileArgs {
    /// The file, relative to the working directory.
    pub path: String,
    /// Number of lines to skip; 0 starts at the first line.
    #[serde(default)]
    pub offset: Option<i64>,
    /// Number of lines to show; 200 by default.
    #[serde(default)]
    pub limit: Option<i64>,
    /// Number of bytes to show; 32768 by default.
    #[serde(default)]
    pub max_bytes: Option<i64>,
    /// Token from an earlier call, to continue where that call ended; fast even in long files.
    #[serde(default)]
    pub continue_from: Option<String>,
}

const DESCRIPTION: &str = "Shows a text file in the working directory with line numbers, an \
    image (PNG, JPEG, GIF, WebP), or a PDF document. Long files are shown in pages: pass `offset` \
    and `limit`, or the `continue_from` token of the previous page. The line numbers and the tab \
    after them are not part of the file.";

impl ReadFile {
    /// Creates the tool for a directory.
    pub fn in_dir(root: impl Into<WorkspaceRoot>) -> Self {
        Self {
            root: root.into(),
            lines: 200,
            bytes: 32 << 10,
            most_bytes: 4 << 20,
            media: MediaLimits::default(),
        }
    }

    /// Sets the default number of lines of a page; 200 by default.
    pub fn with_lines(mut self, lines: u64) -> Self {
        self.lines = lines.max(1);
        self
    }

    /// Sets the default number of bytes of a page; 32 KiB by default.
    pub fn with_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes.max(1);
        self
    }

    /// Sets the maximum number of bytes of a page that the model can request; 4 MiB by default.
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.most_bytes = bytes.max(1);
        self
    }

    /// Sets the maximum sizes of images and documents.
    pub fn with_media_limits(mut self, limits: MediaLimits) -> Self {
        self.media = limits;
        self
    }

    /// Reads a page. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file does not exist, is not text, or ends before the page starts.
    pub fn read(
        &self,
        args: &ReadFileArgs,
        stop: &CancellationToken,
    ) -> Result<ToolOutput, FileError> {
        let (file, metadata, path) = self.root.read(&args.path)?;
        let mut source = Source { path: &args.path, real: path, file, metadata };
        match sniff::kind(&source.head()?) {
            Kind::Empty => Ok(ToolOutput::text("(empty file)")),
            Kind::Image(mime) => source.media(&self.media, |it, _, bytes| it.picture(mime, bytes)),
            Kind::Document(mime) => {
                source.media(&self.media, |it, path, bytes| it.document(path, mime, &bytes))
            }
            Kind::Binary(kind, remedy) => {
                Err(FileError::Binary { path: args.path.clone(), kind, remedy })
            }
            Kind::Text => source.page(args, self.bounds(args), stop).map(ToolOutput::text),
        }
    }

    fn bounds(&self, args: &ReadFileArgs) -> Bounds {
        let at_least_one = |number: i64| u64::try_from(number).unwrap_or(0).max(1);
        let bytes = args
            .max_bytes
            .map_or(self.bytes, |it| usize::try_from(at_least_one(it)).unwrap_or(usize::MAX));
        Bounds {
            lines: args.limit.map_or(self.lines, at_least_one),
            bytes: bytes.min(self.most_bytes),
        }
    }
}

/// A file that is being read.
struct Source<'a> {
    /// The path as the model wrote it.
    path: &'a str,
    /// Below the root and without links.
    real: PathBuf,
    file: File,
    metadata: Metadata,
}

impl Source<'_> {
    fn head(&mut self) -> Result<Vec<u8>, FileError> {
        let mut head = Vec::with_capacity(sniff::WINDOW);
        let read = (&self.file).take(sniff::WINDOW as u64).read_to_end(&mut head);
        read.and_then(|_| self.file.rewind()).map_err(|error| FileError::of(self.path, error))?;
        Ok(head)
    }

    /// Reads a picture or a document as a whole, unless it is larger than any that can be shown.
    fn media(
        &mut self,
        limits: &MediaLimits,
        show: impl FnOnce(&MediaLimits, &str, Vec<u8>) -> Result<ReadMedia, MediaError>,
    ) -> Result<ToolOutput, FileError> {
        let mut bytes = Vec::new();
        let read = (&self.file).take(limits.max_file_bytes() + 1).read_to_end(&mut bytes);
        read.map_err(|error| FileError::of(self.path, error))?;
        let whole = Size(self.metadata.len());
        let path = || self.path.to_owned();
        let shown = show(limits, self.path, bytes).map_err(|error| match error {
            MediaError::TooLarge { size, limit, remedy, .. } => FileError::TooLarge {
                path: path(),
                bytes: Size(whole.0.max(size.0)),
                limit,
                remedy,
            },
            reason => FileError::Picture { path: path(), reason },
        })?;
        let caption = format!("{} ({})", self.path, shown.caption);
        Ok(ToolOutput::from_parts([Part::text(caption), shown.part]))
    }

    fn page(
        &mut self,
        args: &ReadFileArgs,
        bounds: Bounds,
        stop: &CancellationToken,
    ) -> Result<String, FileError> {
        let mut reader = BufReader::with_capacity(64 << 10, &self.file);
        let (start, is_moved) = self.start(args, &mut reader, stop)?;
        let page = page::read(&mut reader, start, bounds)
            .map_err(|error| FileError::of(self.path, error))?;
        if page.text.is_empty() && page.end == End::File {
            let (path, offset) = (self.path.to_owned(), start.line);
            return Err(FileError::PastTheEnd { path, lines: start.line, offset });
        }
        Ok(self.answer(page, start, bounds, is_moved))
    }

    /// Finds where the page begins; and whether that had to be looked for, because the file is not
    /// what it was when the page before was read.
    fn start(
        &self,
        args: &ReadFileArgs,
        reader: &mut BufReader<&File>,
        stop: &CancellationToken,
    ) -> Result<(Start, bool), FileError> {
        let failed = |error| FileError::of(self.path, error);
        let Some(text) = &args.continue_from else {
            let offset = u64::try_from(args.offset.unwrap_or(0)).unwrap_or(0);
            return self.scan(offset, reader, stop).map(|start| (start, false));
        };
        let place: Continuation =
            text.parse().map_err(|()| FileError::NoContinuation(text.clone()))?;
        if !place.fits(&self.metadata) {
            return self.scan(place.line, reader, stop).map(|start| (start, true));
        }
        let before = place.byte.saturating_sub(1);
        reader.seek(SeekFrom::Start(before)).map_err(failed)?;
        let mut last = [b'\n'];
        if place.byte > 0 {
            reader.read_exact(&mut last).map_err(failed)?;
        }
        let at = if last == [b'\n'] { At::Beginning } else { At::Middle };
        Ok((Start { line: place.line, byte: place.byte, at }, false))
    }

    fn scan(
        &self,
        offset: u64,
        reader: &mut BufReader<&File>,
        stop: &CancellationToken,
    ) -> Result<Start, FileError> {
        let (line, byte) = page::skip(reader, offset, stop).map_err(|error| {
            if stop.is_cancelled() { FileError::Cancelled } else { FileError::of(self.path, error) }
        })?;
        if line < offset {
            return Err(FileError::PastTheEnd { path: self.path.to_owned(), lines: line, offset });
        }
        Ok(Start { line, byte, at: At::Beginning })
    }

    fn answer(&self, page: Page, start: Start, bounds: Bounds, is_moved: bool) -> String {
        let mut notes = Vec::new();
        let next = Continuation::new(page.line, page.byte, &self.metadata);
        let Bounds { lines, bytes } = bounds;
        let whole = self.metadata.len();
        let number = start.line + 1;
        match page.end {
            End::File => {}
            End::Full => notes.push(format!(
                "[Lines {number} to {} are shown; the limits are {lines} lines and {bytes} \
                    bytes, and the file is {whole} bytes long. Use offset={} to continue, or, \
                    faster, continue_from=\"{next}\".]",
                page.line, page.line
            )),
            End::LongLine => notes.push(format!(
                "[Line {number} is longer than the limit of {bytes} bytes, so only a part of it \
                    is shown; the file is {whole} bytes long. To see more of the \
                    line, use continue_from=\"{next}\" or a larger max_bytes, or run in a shell: dd if={} bs=1 skip={} \
                    count={PREVIEW}]",
                quoted(&self.real),
                page.byte
            )),
        }
        if page.has_noise {
            notes.push("[Bytes that are not UTF-8 text are shown as \u{FFFD}.]".to_owned());
        }
        if is_moved {
            notes.push("[The file has changed since the previous page was read.]".to_owned());
        }
        let mut text = page.text;
        if !notes.is_empty() {
            text.push('\n');
            text.push_str(&notes.join("\n"));
        }
        text
    }
}

fn quoted(path: &Path) -> String {
    format!("'{}'", shown::path(path).replace('\'', "'\\''"))
}

impl Tool for ReadFile {
    type Args = ReadFileArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "read_file"
    }

    fn description(&self) -> &'static str {
        DESCRIPTION
    }

    fn options(&self) -> ToolOptions {
        ToolOptions {
            side_effects: SideEffects::ReadOnly,
            reach: Reach::Workspace,
            ..ToolOptions::default()
        }
    }

    async fn call(&self, args: ReadFileArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let tool = self.clone();
        Ok(blocking(cx.cancel, move |stop| tool.read(&args, stop)).await?)
    }
}

#[cfg(test)]
mod tests;
