//! The audit log of the server.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use loopwright_server::AuditEntry;

use crate::console;
use crate::session::SessionsError;

/// Opens a log, which this user alone can read if it is new, and returns what appends to it.
pub(super) fn log(
    path: &Path,
) -> Result<impl Fn(&AuditEntry) + Send + Sync + 'static + use<>, SessionsError> {
    let shown = path.display().to_string();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let file = file.map_err(|error| {
        SessionsError::Usage(format!(
            "cannot open the audit log {shown}: {error}; choose another file"
        ))
    })?;
    let file = Mutex::new(file);
    Ok(move |entry: &AuditEntry| {
        if let Err(error) = append(&file, entry) {
            console::warn(&format!("cannot write the audit log {shown}: {error}"));
        }
    })
}

/// Appends an entry in one write, so that lines of several servers do not mix.
fn append(file: &Mutex<File>, entry: &AuditEntry) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
}
