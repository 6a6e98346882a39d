//! Names and sizes as the model sees them.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A number of bytes, as readable text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 => write!(f, "{}.{} MiB", bytes >> 20, tenth(bytes)),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

fn tenth(bytes: u64) -> u64 {
    ((bytes & ((1 << 20) - 1)) * 10) >> 20
}

/// Writes a path so that it stays on its line: control characters and bytes that are not UTF-8 are
/// escaped.
pub(super) fn path(path: &Path) -> String {
    if path.as_os_str().is_empty() { ".".to_owned() } else { name(path.as_os_str()) }
}

/// Writes a name so that it stays on its line.
pub(super) fn name(name: &OsStr) -> String {
    let mut shown = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _infallible = write!(shown, "\\x{byte:02X}");
        }
    }
    shown
}

/// Returns the greatest place, not beyond `at`, where UTF-8 text can be cut.
pub(crate) fn floor_boundary(bytes: &[u8], at: usize) -> usize {
    if at >= bytes.len() {
        return bytes.len();
    }
    let starts_here = |place: usize| bytes[place] & 0xC0 != 0x80;
    (at.saturating_sub(3)..=at).rev().find(|place| starts_here(*place)).unwrap_or(at)
}

/// Returns the least place, not before `at`, where UTF-8 text can be cut.
pub(crate) fn ceil_boundary(bytes: &[u8], at: usize) -> usize {
    let end = bytes.len();
    let starts_here = |place: usize| place == end || bytes[place] & 0xC0 != 0x80;
    (at.min(end)..=end.min(at.saturating_add(3)))
        .find(|place| starts_here(*place))
        .unwrap_or(at.min(end))
}

#[cfg(test)]
mod tests;
