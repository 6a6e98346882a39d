//! Notices when a mount that hides or protects a path is lost: the kernel removes it if a program outside the sandbox renames
//! another file over the covered one. The command would see and change the new file.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::policy::Backend;

/// The mounts of a command. Its descriptor is ready when they have changed.
#[derive(Debug)]
pub(super) struct CoverWatch {
    table: File,
    /// The covered paths, with their mount points as the kernel writes them.
    covered: Vec<(PathBuf, Vec<u8>)>,
}

impl CoverWatch {
    /// Watches the mounts over these paths. The child of the helper is the first process of the sandbox, or with bubblewrap the
    /// program that started it. Returns `None` if there is nothing to watch, or the backend does not use such mounts.
    pub(super) fn of(
        backend: Backend,
        child: Pid,
        covered: &[PathBuf],
    ) -> io::Result<Option<Self>> {
        let child = child.as_raw_nonzero();
        let first = match backend {
            _ if covered.is_empty() => return Ok(None),
            Backend::Namespaces => child.to_string(),
            Backend::Bubblewrap => {
                let children = fs::read_to_string(format!("/proc/{child}/task/{child}/children"))?;
                children.split_whitespace().next().ok_or(io::ErrorKind::NotFound)?.to_owned()
            }
            _ => return Ok(None),
        };
        let table = File::open(Path::new("/proc").join(first).join("mountinfo"))?;
        let covered = covered.iter().map(|path| (path.clone(), written(path))).collect();
        let mut watch = Self { table, covered };
        // In a hidden folder, nothing is mounted.
        let missing = watch.lost()?;
        watch.covered.retain(|(path, _)| !missing.contains(path));
        Ok(Some(watch))
    }

    /// Returns the paths that are no longer covered.
    pub(super) fn lost(&mut self) -> io::Result<Vec<PathBuf>> {
        let mut table = Vec::new();
        self.table.rewind()?;
        self.table.read_to_end(&mut table)?;
        // The fifth field is the mount point.
        let points: Vec<&[u8]> = table
            .split(|it| *it == b'\n')
            .filter_map(|line| line.split(|it| *it == b' ').nth(4))
            .collect();
        let lost = self.covered.iter().filter(|(_, point)| !points.contains(&&point[..]));
        Ok(lost.map(|(path, _)| path.clone()).collect())
    }
}

impl AsFd for CoverWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }
}

/// Writes a path as the kernel does in the table of mounts.
fn written(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes
        .flat_map(|byte| match byte {
            b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
            byte => vec![*byte],
        })
        .collect()
}
