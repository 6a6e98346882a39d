//! Folders that hold more than a project, and the keys in them.

use std::fmt;
use std::path::{Path, PathBuf};

/// Folders of the system that hold more than a project. A project can be inside one, unless it is in [`SYSTEM`] as well.
const SEVERAL: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/dev/shm",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/media",
    "/mnt",
    "/nix",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/snap",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/local",
    "/usr/local/src",
    "/usr/src",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/spool",
    "/var/tmp",
];

/// Folders in which no folder is a project, however deep.
const SYSTEM: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/proc",
    "/sbin",
    "/sys",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/etc",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/sbin",
    "/usr/share",
    "/var/spool",
];

/// The exception: shared memory, which programs use like `/tmp`.
const SHARED_MEMORY: &str = "/dev/shm";

/// Keys and credentials in a home: they can be used elsewhere by anyone who reads them.
const HOME_KEYS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/doctl",
    ".oci",
    ".kube",
    ".docker",
    ".config/containers/auth.json",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".terraform.d",
    ".vault-token",
    ".config/op",
    ".config/rclone",
    ".s3cfg",
    ".boto",
    ".pgpass",
    ".my.cnf",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
];

/// Keys and credentials of the system. The environment of each process is in `/proc`.
const SYSTEM_KEYS: &[&str] = &[
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/kubernetes",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/proc",
    "/run/secrets",
];

/// Why a folder is not the folder of one project. Agents change nothing in such a folder, unless the user names it.
///
/// ```
/// use loopwright_sandbox::BroadFolder;
/// use std::path::Path;
///
/// let of = |path| BroadFolder::of(Path::new(path), Some(Path::new("/home/me")));
/// assert_eq!(of("/home/me"), Some(BroadFolder::Several));
/// assert_eq!(of("/etc/cron.d"), Some(BroadFolder::System));
/// assert_eq!(of("/home/me/.config/app"), Some(BroadFolder::Private));
/// assert_eq!(of("/home/me/project/.config"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroadFolder {
    /// It is the home, a folder such as `/tmp`, or a folder above one of them.
    Several,
    /// It is inside a folder of the system, such as `/etc`.
    System,
    /// It is a hidden folder of the home, or inside one.
    Private,
}

impl BroadFolder {
    /// Judges a folder. Both paths are absolute and without links. `None` means that the folder can be a project.
    pub fn of(folder: &Path, home: Option<&Path>) -> Option<Self> {
        let several = SEVERAL.iter().map(Path::new).chain(home);
        let is_system = SYSTEM.iter().any(|it| folder.starts_with(it));
        let below = home.and_then(|home| folder.strip_prefix(home).ok());
        let first = below.and_then(|it| it.iter().next());
        if several.into_iter().any(|it| it.starts_with(folder)) {
            Some(Self::Several)
        } else if is_system && !folder.starts_with(SHARED_MEMORY) {
            Some(Self::System)
        } else if first.is_some_and(|it| it.as_encoded_bytes().starts_with(b".")) {
            Some(Self::Private)
        } else {
            None
        }
    }
}

impl fmt::Display for BroadFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Several => "contains more than a project",
            Self::System => "is inside a system folder",
            Self::Private => {
                "is inside a hidden folder in the home directory, where programs keep their data"
            }
        })
    }
}

/// Returns the paths of keys and credentials, of the system and in a home. A path does not need to exist.
pub fn key_paths(home: Option<&Path>) -> impl Iterator<Item = PathBuf> {
    let in_home = home.into_iter().flat_map(|home| HOME_KEYS.iter().map(|it| home.join(it)));
    SYSTEM_KEYS.iter().map(PathBuf::from).chain(in_home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(home: Option<&str>, folder: &str, expect: Option<BroadFolder>) {
        assert_eq!(BroadFolder::of(Path::new(folder), home.map(Path::new)), expect, "{folder}");
    }

    #[test]
    fn homes_folders_of_the_system_and_what_contains_them_hold_more_than_a_project() {
        let folders = [
            "/",
            "/dev/shm",
            "/etc",
            "/home",
            "/nix",
            "/root",
            "/tmp",
            "/usr",
            "/usr/local",
            "/var",
        ];
        for folder in folders {
            check(None, folder, Some(BroadFolder::Several));
        }
        for folder in ["/", "/srv", "/srv/people", "/srv/people/me"] {
            check(Some("/srv/people/me"), folder, Some(BroadFolder::Several));
        }
    }

    #[test]
    fn no_folder_inside_a_system_folder_is_a_project_except_in_shared_memory() {
        for folder in [
            "/etc/cron.d",
            "/proc/self",
            "/usr/bin",
            "/usr/lib/systemd",
            "/usr/local/bin",
            "/var/spool/cron",
        ] {
            check(None, folder, Some(BroadFolder::System));
        }
        let projects = [
            "/dev/shm/project",
            "/home/other/project",
            "/opt/project",
            "/srv/project",
            "/tmp/project",
            "/usr/local/src/project",
            "/usr/src/app",
            "/var/lib/project",
            "/var/www/site",
        ];
        for folder in projects {
            check(None, folder, None);
        }
    }

    #[test]
    fn hidden_folders_of_the_home_are_private_and_those_of_a_project_are_not() {
        for folder in ["/home/me/.ssh", "/home/me/.config/app", "/home/me/.local/bin"] {
            check(Some("/home/me"), folder, Some(BroadFolder::Private));
        }
        for folder in ["/home/me/project", "/home/me/project/.github", "/home/other/.tmp"] {
            check(Some("/home/me"), folder, None);
        }
    }

    #[test]
    fn keys_of_the_system_are_known_without_a_home() {
        let of_system: Vec<PathBuf> = SYSTEM_KEYS.iter().map(PathBuf::from).collect();
        assert_eq!(key_paths(None).collect::<Vec<_>>(), of_system);
        let home = Path::new("/home/me");
        assert!(key_paths(Some(home)).any(|it| it == home.join(".ssh")));
    }
}
