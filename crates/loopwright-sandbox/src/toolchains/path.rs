//! The user's `PATH`, as far as commands may have it.

use std::env::split_paths;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where programs of the system are.
const SYSTEM: [&str; 6] =
    ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Returns the folders, without links: those that exist, outside of the working folder, and that only the user and the
/// administrator write to.
pub(super) fn of_user(path: &OsStr, workdir: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for folder in split_paths(path).filter(|it| it.is_absolute()) {
        let Ok(real) = folder.canonicalize() else { continue };
        let is_text = real.to_str().is_some_and(|it| !it.contains(':'));
        let is_fit = real.is_dir() && is_text && !real.starts_with(workdir) && is_closed(&real);
        if is_fit && !folders.contains(&real) {
            folders.push(real);
        }
    }
    folders
}

/// Returns `true` if not every caller may change what is in a folder, or put another one in its place.
pub(super) fn is_closed(folder: &Path) -> bool {
    folder.ancestors().enumerate().all(|(index, it)| {
        fs::metadata(it).is_ok_and(|status| is_closed_mode(mode(&status), index > 0))
    })
}

/// In a folder around it, no process may rename what belongs to others if its sticky bit is set.
fn is_closed_mode(mode: u32, is_around: bool) -> bool {
    mode & 0o002 == 0 || (is_around && mode & 0o1000 != 0)
}

#[cfg(unix)]
fn mode(status: &fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(status)
}

#[cfg(not(unix))]
fn mode(_status: &fs::Metadata) -> u32 {
    0
}

/// Finds the package below `/opt` that a folder for programs belongs to.
pub(super) fn package(folder: &Path) -> Option<PathBuf> {
    let below = folder.strip_prefix("/opt").ok()?;
    let is_programs = below.ends_with("bin") || below.ends_with("sbin");
    let mut parts = below.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), Some(_)) if is_programs && name != "homebrew" => {
            Some(Path::new("/opt").join(name))
        }
        _ => None,
    }
}

/// Returns the user's folders and then those of the system.
pub(super) fn with_system(folders: &[PathBuf]) -> Vec<PathBuf> {
    let system = SYSTEM.iter().map(PathBuf::from).filter(|it| !folders.contains(it));
    folders.iter().cloned().chain(system).collect()
}

/// Writes the user's folders and then those of the system.
pub(super) fn joined(folders: &[PathBuf]) -> String {
    let all = with_system(folders);
    all.iter().filter_map(|it| it.to_str()).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_may_write_to_is_not_closed() {
        assert!(is_closed_mode(0o040_755, false));
        assert!(is_closed_mode(0o040_775, false));
        assert!(!is_closed_mode(0o040_757, false));
        assert!(!is_closed_mode(0o041_777, false));
        assert!(is_closed_mode(0o041_777, true));
        assert!(!is_closed_mode(0o040_777, true));
    }

    #[test]
    fn a_package_below_opt_is_shown_whole_if_it_has_programs() {
        let package = |folder: &str| package(Path::new(folder));
        assert_eq!(package("/opt/node/bin"), Some("/opt/node".into()));
        assert_eq!(package("/opt/jdk/21/bin"), Some("/opt/jdk".into()));
        assert_eq!(package("/opt/bin"), None);
        assert_eq!(package("/opt/app/data"), None);
        assert_eq!(package("/opt/homebrew/bin"), None);
        assert_eq!(package("/srv/node/bin"), None);
    }

    #[test]
    fn programs_of_the_system_come_last_and_once() {
        let own = ["/home/me/.cargo/bin".into(), "/usr/bin".into()];
        assert_eq!(
            joined(&own),
            "/home/me/.cargo/bin:/usr/bin:/usr/local/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
        );
    }
}
