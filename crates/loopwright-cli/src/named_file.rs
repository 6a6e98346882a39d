//! Files that options name. Neither opening nor reading one waits for another program without end.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a file of at most `max` bytes.
///
/// # Errors
///
/// Returns an error if the file is longer, cannot be read, or is neither a regular file nor a descriptor that is open already, such as
/// that of a process substitution.
pub(crate) fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let bytes = beginning(path, max.saturating_add(1))?;
    if bytes.len() as u64 > max {
        return Err(io::Error::other(format!("it is longer than {max} bytes")));
    }
    Ok(bytes)
}

/// Reads a file of text of at most `max` bytes.
///
/// # Errors
///
/// Returns an error if the file is not text, or [`read`] fails.
pub(crate) fn read_text(path: &Path, max: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, max)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Reads at most `count` bytes of a file.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or is neither regular nor a descriptor that is open already.
pub(crate) fn beginning(path: &Path, count: u64) -> io::Result<Vec<u8>> {
    if !is_descriptor(path) {
        require_regular(fs::metadata(path)?.file_type())?;
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns an error if a file exists that [`write`] refuses. Changes nothing.
///
/// # Errors
///
/// Returns an error if the file is not regular, not a descriptor that is open already, and not the null device.
pub(crate) fn check_output(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !is_output(path) => require_regular(found.file_type()),
        _ => Ok(()),
    }
}

/// Writes a file, in place of its content.
///
/// # Errors
///
/// Returns an error if the file cannot be written, or [`check_output`] refuses it.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    if is_output(path) {
        return fs::write(path, text);
    }
    check_output(path)?;
    // The file may have been replaced: opening a named pipe blocks until another process reads from it.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
    require_regular(file.metadata()?.file_type())?;
    file.write_all(text.as_bytes())
}

/// Returns `true` if this is a descriptor of the process, which another program has opened.
fn is_descriptor(path: &Path) -> bool {
    let parent = path.parent().and_then(Path::to_str);
    matches!(parent, Some("/dev/fd" | "/proc/self/fd")) || path == Path::new("/dev/stdin")
}

fn is_output(path: &Path) -> bool {
    let others = ["/dev/stdout", "/dev/stderr", "/dev/null"];
    is_descriptor(path) || others.iter().any(|it| path == Path::new(it))
}

fn require_regular(kind: FileType) -> io::Result<()> {
    let found = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    let reason = format!("it is {found}, not a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn pipes_devices_and_directories_are_neither_read_nor_written() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let read = |path: &Path| read(path, 10).unwrap_err().to_string();
        assert_eq!(read(&pipe), "it is a named pipe, not a regular file");
        assert_eq!(read(Path::new("/dev/zero")), "it is a device, not a regular file");
        assert_eq!(read(folder.path()), "is a directory");
        let refusing: [fn(&Path) -> io::Result<()>; 2] = [check_output, |path| write(path, "x")];
        for refuses in refusing {
            let told = |path: &Path| refuses(path).unwrap_err().to_string();
            assert_eq!(told(&pipe), "it is a named pipe, not a regular file");
            assert_eq!(told(Path::new("/dev/zero")), "it is a device, not a regular file");
        }
    }

    #[test]
    fn regular_files_and_open_descriptors_are_read_up_to_the_limit() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"12345").unwrap();
        assert_eq!(read_text(file.path(), 5).unwrap(), "12345");
        assert_eq!(read(file.path(), 4).unwrap_err().to_string(), "it is longer than 4 bytes");
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"piped").unwrap();
        drop(writer);
        let descriptor = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(read_text(Path::new(&descriptor), 5).unwrap(), "piped");
    }

    #[test]
    fn a_file_is_written_in_place_of_its_content_and_the_null_device_takes_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.txt");
        check_output(&path).unwrap();
        write(&path, "a long answer").unwrap();
        write(&path, "short").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        check_output(Path::new("/dev/null")).unwrap();
        write(Path::new("/dev/null"), "x").unwrap();
    }
}
