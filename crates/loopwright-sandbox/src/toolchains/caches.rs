//! What package managers keep between commands, apart from what the user's own keep.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Author;
use crate::policy::Policy;

/// The part that commands write to, and the part that they read.
const FILES: &str = "files";
const GIT: &str = "gitconfig";

/// Variables that name a cache, and where it is.
const VARIABLES: [(&str, &str); 6] = [
    ("XDG_CACHE_HOME", ""),
    ("npm_config_cache", "npm"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("GOCACHE", "go-build"),
    ("GRADLE_USER_HOME", "gradle"),
];

/// Caches for the commands of one project. No other project sees them, so that what a command leaves there reaches
/// only commands that could be reached through the project itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caches {
    folder: PathBuf,
    author: bool,
}

impl Caches {
    /// Makes the caches of a project below a folder of the user's, unless they are there, and writes down who commits.
    /// `None` means that the folder is in the project, or around it, and cannot be used.
    ///
    /// # Errors
    ///
    /// If the folders cannot be made.
    pub fn in_folder(folder: &Path, workdir: &Path, author: &Author) -> io::Result<Option<Self>> {
        let workdir = fs::canonicalize(workdir)?;
        make(folder)?;
        let folder = fs::canonicalize(folder)?;
        if folder.starts_with(&workdir) || workdir.starts_with(&folder) {
            return Ok(None);
        }
        let folder = folder.join(name(&workdir));
        make(&folder.join(FILES))?;
        let settings = author.git_settings();
        let author = !settings.is_empty();
        if author {
            replace(&folder.join(GIT), &settings)?;
        }
        Ok(Some(Self { folder, author }))
    }

    /// The folder that commands write to.
    pub fn files(&self) -> PathBuf {
        self.folder.join(FILES)
    }

    /// Lets a policy use the caches. Values that the policy has already are kept.
    pub fn extend(&self, policy: Policy) -> Policy {
        let files = self.files();
        let mut policy = policy.cache(&files);
        let values = &mut policy.environment.values;
        let mut set = |name: &str, path: &Path| {
            if let Some(path) = path.to_str() {
                values.entry(name.to_owned()).or_insert_with(|| path.to_owned());
            }
        };
        for (name, part) in VARIABLES {
            set(name, &if part.is_empty() { files.clone() } else { files.join(part) });
        }
        if self.author {
            let git = self.folder.join(GIT);
            set("GIT_CONFIG_GLOBAL", &git);
            policy = policy.read(git);
        }
        policy
    }
}

/// Names a project so that people recognise it, and no other has the name.
fn name(workdir: &Path) -> String {
    // FNV-1a, which stays the same over versions.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = workdir.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    let last = workdir.file_name().map_or_else(Default::default, |it| it.to_string_lossy());
    let last: String = last
        .chars()
        .filter(|it| it.is_ascii_alphanumeric() || "-_.".contains(*it))
        .take(40)
        .collect();
    format!("{last}-{hash:016x}")
}

fn make(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Replaces a file that commands may be reading, if it says something else.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|it| it == text) {
        return Ok(());
    }
    let next = path.with_extension(std::process::id().to_string());
    let written = File::create(&next).and_then(|mut file| file.write_all(text.as_bytes()));
    written.and_then(|()| fs::rename(&next, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_of_the_same_name_have_caches_of_their_own() {
        assert_eq!(name(Path::new("/srv/a b/web")), "web-fd32cd97298d8888");
        assert_ne!(name(Path::new("/srv/a/web")), name(Path::new("/srv/b/web")));
    }

    #[test]
    fn caches_are_named_to_programs_and_their_author_is_read_only() {
        let home = tempfile::tempdir().unwrap();
        let workdir = home.path().join("web");
        fs::create_dir(&workdir).unwrap();
        let author = Author { name: Some("Me".to_owned()), email: None };
        let caches = Caches::in_folder(&home.path().join("caches"), &workdir, &author);
        let caches = caches.unwrap().unwrap();
        let policy = caches.extend(Policy::in_dir(&workdir).env("UV_CACHE_DIR", "/elsewhere"));
        let files = caches.files();
        assert!(files.is_dir());
        assert_eq!(policy.caches, std::slice::from_ref(&files));
        let git = files.with_file_name("gitconfig");
        assert_eq!(fs::read_to_string(&git).unwrap(), "[user]\n\tname = \"Me\"\n");
        assert_eq!(policy.read_paths, std::slice::from_ref(&git));
        let values = &policy.environment.values;
        assert_eq!(values["GIT_CONFIG_GLOBAL"], git.to_str().unwrap());
        assert_eq!(values["XDG_CACHE_HOME"], files.to_str().unwrap());
        assert_eq!(values["npm_config_cache"], files.join("npm").to_str().unwrap());
        assert_eq!(values["UV_CACHE_DIR"], "/elsewhere");
    }

    #[test]
    fn caches_are_not_in_the_project() {
        let home = tempfile::tempdir().unwrap();
        let author = Author::default();
        let inside = home.path().join("caches");
        assert_eq!(Caches::in_folder(&inside, home.path(), &author).unwrap(), None);
        assert_eq!(Caches::in_folder(home.path(), &inside, &author).unwrap(), None);
    }
}
