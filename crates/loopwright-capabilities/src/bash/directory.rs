//! The working directory at the end of a command, in which the next one starts.

use std::hash::{BuildHasher as _, RandomState};

use bytes::Bytes;
use loopwright_core::Key;
use loopwright_sandbox::CapturedOutput;

/// The directory that the next command begins in.
pub(crate) const DIRECTORY: Key<String> = Key::session("bash", "directory");

/// A command that begins in a directory and tells on its standard error where it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrapped {
    pub(super) command: String,
    mark: String,
}

impl Wrapped {
    pub(super) fn new(command: &str, directory: Option<&str>) -> Self {
        let mark = format!("loopwright-{:016x}", RandomState::new().hash_one(command));
        Self::marked(command, directory, mark)
    }

    fn marked(command: &str, directory: Option<&str>, mark: String) -> Self {
        let command =
            directory.map_or_else(|| command.to_owned(), |it| Self::entering(command, it));
        let command = format!("trap 'printf \"\\n{mark}%s\\n\" \"$PWD\" >&2' EXIT\n{command}");
        Self { command, mark }
    }

    /// Returns a command that begins in a directory, if that still exists.
    pub(super) fn entering(command: &str, directory: &str) -> String {
        format!("cd -- {} 2>/dev/null\n{command}", quoted(directory))
    }

    /// Returns the part of a piece of output that the command wrote itself.
    pub(super) fn before_mark<'b>(&self, piece: &'b [u8]) -> &'b [u8] {
        match memchr::memmem::find(piece, self.mark.as_bytes()) {
            Some(at) => piece[..at].strip_suffix(b"\n").unwrap_or(&piece[..at]),
            None => piece,
        }
    }

    /// Takes the directory out of what the command wrote; none, if it did not come to tell.
    pub(super) fn unwrap(&self, stderr: &mut CapturedOutput) -> Option<String> {
        let part = if stderr.tail.is_empty() { &mut stderr.head } else { &mut stderr.tail };
        let line = format!("\n{}", self.mark);
        let at = memchr::memmem::rfind(part, line.as_bytes())?;
        let rest = &part[at + line.len()..];
        let end = memchr::memchr(b'\n', rest)?;
        let directory = std::str::from_utf8(&rest[..end]).ok()?.to_owned();
        let after = at + line.len() + end + 1;
        stderr.total -= (after - at) as u64;
        *part = Bytes::from([&part[..at], &part[after..]].concat());
        Some(directory)
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests;
