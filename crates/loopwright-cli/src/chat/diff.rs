//! `/diff`.

use loopwright_capabilities::files::{FileError, OriginalFile, WorkspaceRoot};
use loopwright_sessions::{SessionId, SessionRuntime};

use crate::render::{columns, content_diff, count, sanitize_terminal};
use crate::session::SessionsError;

/// The maximum size of a file to compare.
const LARGEST: u64 = 1 << 20;

/// The maximum number of lines shown per file.
const LINES: usize = 200;

/// Returns the differences between files now and before a session changed them.
pub(super) async fn diff(
    runtime: &SessionRuntime,
    id: &SessionId,
    workdir: &WorkspaceRoot,
) -> Result<String, SessionsError> {
    let originals = runtime.original_files(id, 0, LARGEST).await?;
    let mut lines = Vec::new();
    let mut files = 0;
    for (path, original) in originals {
        let of_file = file(workdir, &path, &original);
        files += u64::from(!of_file.is_empty());
        lines.extend(of_file);
    }
    if files == 0 {
        return Ok("no file has changed in this session".to_owned());
    }
    lines.push(format!("{} changed in this session", count(files, "file")));
    Ok(lines.join("\n"))
}

/// Returns the lines about one file: none if it is unchanged.
fn file(workdir: &WorkspaceRoot, path: &str, original: &OriginalFile) -> Vec<String> {
    let now = match workdir.read_bytes(path, LARGEST) {
        Ok(Some(bytes)) if matches!(original, OriginalFile::Content(was) if *was == bytes) => {
            return Vec::new();
        }
        Ok(Some(bytes)) => String::from_utf8(bytes).map_or(Now::Other, Now::Text),
        Err(FileError::Missing(_)) => Now::Absent,
        Ok(None) | Err(_) => Now::Other,
    };
    let shown = sanitize_terminal(path);
    let before = match original {
        OriginalFile::Absent => Some(String::new()),
        OriginalFile::Content(bytes) => String::from_utf8(bytes.clone()).ok(),
        OriginalFile::MovedFrom(_) if matches!(now, Now::Absent) => return Vec::new(),
        OriginalFile::MovedFrom(from) => {
            return vec![format!("{shown}: moved from {}", sanitize_terminal(from))];
        }
        _ => None,
    };
    let word = match (original, &now) {
        (OriginalFile::Absent, Now::Absent) => return Vec::new(),
        (OriginalFile::Absent, _) => "added",
        (_, Now::Absent) => "removed",
        _ => "changed",
    };
    let after = match now {
        Now::Text(text) => Some(text),
        Now::Absent => Some(String::new()),
        Now::Other => None,
    };
    match before.zip(after) {
        Some((before, after)) => {
            let mut lines = vec![format!("{shown}: {word}")];
            let diff = content_diff(&before, &after, columns().saturating_sub(2), LINES);
            lines.extend(diff.into_iter().map(|line| format!("  {line}")));
            lines
        }
        None => vec![format!("{shown}: {word}; its content is not shown")],
    }
}

/// The current content of a path.
enum Now {
    Absent,
    Text(String),
    /// Anything but a short text file.
    Other,
}
