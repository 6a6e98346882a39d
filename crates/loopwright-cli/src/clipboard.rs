//! Images in the clipboard, which programs of the desktop read.

use std::io::{self, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use loopwright_capabilities::files::{MediaError, MediaLimits};
use loopwright_core::messages::Part;

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What `osascript` prints before and behind the digits of an image.
const HEX: [&[u8]; 2] = ["«data PNGf".as_bytes(), "»".as_bytes()];

/// The programs, each with its arguments. The first one that has an image counts.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("wl-paste", &["--no-newline", "--type", "image/png"]),
    ("xclip", &["-selection", "clipboard", "-target", "image/png", "-out"]),
    ("osascript", &["-e", "get the clipboard as «class PNGf»"]),
];

/// No image was read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClipboardError {
    /// None of the programs is installed.
    #[error(
        "no program can read the clipboard; install `wl-paste` (package wl-clipboard) or `xclip`"
    )]
    NoProgram,
    /// The clipboard has something else, or nothing.
    #[error("the clipboard has no image")]
    NoImage,
    /// A program took too long.
    #[error("`{0}` did not print the content of the clipboard within {seconds} seconds", seconds = PATIENCE.as_secs())]
    Slow(&'static str),
    /// The image is too large, or not whole.
    #[error("the image in the clipboard cannot be attached: {0}")]
    Unusable(#[from] MediaError),
}

/// Reads the image in the clipboard. Blocks until a program of the desktop has printed it.
pub(crate) fn image() -> Result<Part, ClipboardError> {
    let limits = MediaLimits::default();
    let mut failed = ClipboardError::NoProgram;
    for (program, arguments) in PROGRAMS {
        let printed = match printed(program, arguments, limits.max_file_bytes()) {
            Ok(printed) => printed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                failed = ClipboardError::Slow(program);
                continue;
            }
            Err(_) => Vec::new(),
        };
        match limits.read("clipboard", plain(printed))? {
            Some(media) => return Ok(media.part),
            None => failed = ClipboardError::NoImage,
        }
    }
    Err(failed)
}

/// Runs a program, and returns at most one byte more of its output than is allowed.
fn printed(program: &str, arguments: &[&str], limit: u64) -> io::Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Ended(command.spawn()?);
    let output = child.0.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (sender, printed) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.take(limit + 1).read_to_end(&mut bytes);
        sender.send(read.map(|_| bytes)).ok();
    });
    printed.recv_timeout(PATIENCE).map_err(|_| io::ErrorKind::TimedOut)?
}

/// A program that is killed unless it has ended.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns the bytes of an image that is printed as hexadecimal digits; others as they are.
fn plain(printed: Vec<u8>) -> Vec<u8> {
    let digits = printed.trim_ascii_end().strip_prefix(HEX[0]);
    let Some(digits) = digits.and_then(|it| it.strip_suffix(HEX[1])) else { return printed };
    let digit = |it: u8| char::from(it).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let byte = |pair: &[u8]| Some((digit(pair[0])? << 4) | digit(*pair.get(1)?)?);
    digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>().unwrap_or(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_in_digits_is_read_and_others_stay() {
        let check = |printed: &str, expect: &[u8]| {
            assert_eq!(plain(printed.as_bytes().to_vec()), expect, "{printed}");
        };
        check("«data PNGf89504E47»\n", b"\x89PNG");
        check("«data PNGf8950»", b"\x89P");
        for other in ["\u{89}PNG", "«data PNGf895»", "«data PNGfxy»", "«data TIFF89»", ""] {
            check(other, other.as_bytes());
        }
    }
}
