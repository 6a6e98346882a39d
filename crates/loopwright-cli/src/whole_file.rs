//! Replacement of the program's own files as a whole.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Follows links of the user's own files, which may be kept elsewhere. Those of a project are not followed: its author
/// would choose what is written.
pub(crate) fn followed(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

/// Replaces a file in one step, or creates it. A file that exists keeps its permissions; a `private` one that does not
/// is for the user alone.
pub(crate) fn replace(path: &Path, text: &str, private: bool) -> io::Result<()> {
    let permissions = fs::metadata(path).ok().map(|it| it.permissions());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let written = write(&new, text, private, permissions).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        fs::remove_file(&new).ok();
    }
    written
}

fn write(
    new: &Path,
    text: &str,
    private: bool,
    permissions: Option<Permissions>,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // Nothing that waits under this name, such as a link, is written to.
    options.write(true).create_new(true);
    #[cfg(unix)]
    if private || permissions.is_some() {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    let mut file = options.open(new).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            fs::remove_file(new)?;
            options.open(new)
        }
        _ => Err(error),
    })?;
    file.write_all(text.as_bytes())?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> Option<u32> {
        Some(fs::metadata(path).ok()?.permissions().mode() & 0o777)
    }

    #[test]
    fn permissions_stay_and_a_new_private_file_is_for_the_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        replace(&path, "1", true).unwrap();
        assert_eq!(mode(&path), Some(0o600));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        replace(&path, "2", true).unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap(), mode(&path)),
            ("2".to_owned(), Some(0o640))
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_followed_where_that_is_wanted_and_one_in_the_way_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("kept.json"), "0").unwrap();
        symlink(path("kept.json"), path("a.json")).unwrap();
        replace(&followed(path("a.json")), "1", false).unwrap();
        assert_eq!(fs::read_to_string(path("kept.json")).unwrap(), "1");
        assert!(path("a.json").is_symlink());

        let temporary = path(&format!("a.json.new-{}", std::process::id()));
        symlink(path("kept.json"), &temporary).unwrap();
        replace(&path("a.json"), "2", false).unwrap();
        assert_eq!(fs::read_to_string(path("kept.json")).unwrap(), "1");
        assert!(!path("a.json").is_symlink() && !temporary.exists());
    }
}
