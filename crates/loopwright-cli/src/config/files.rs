//! Finding and reading the two files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use loopwright_capabilities::front_matter::{MAX_BYTES, is_foreign};

use super::{Config, ConfigError, ConfigSources, Discovery, Warning};
use crate::project::{real_dir, repository};

const PROJECT_FILE: &str = "loopwright.toml";

/// A file that was found, with its text.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// Where the user's file is.
pub(super) enum UserFile {
    /// Named on the command line, so it must be there.
    Named(PathBuf),
    /// In its usual place, where it may be missing.
    Usual(PathBuf),
    /// There is no home directory to look in.
    Nowhere,
}

impl UserFile {
    pub(super) fn locate(named: Option<&Path>, sources: &ConfigSources) -> Self {
        if let Some(named) = named {
            return Self::Named(sources.cwd.join(named));
        }
        sources.user_file().map_or(Self::Nowhere, Self::Usual)
    }

    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Named(path) | Self::Usual(path) => Some(path),
            Self::Nowhere => None,
        }
    }

    /// Whether the user named this very file, and so answers for what it says.
    pub(super) fn is_named(&self, path: &Path) -> bool {
        let Self::Named(named) = self else { return false };
        named.canonicalize().is_ok_and(|named| path.canonicalize().is_ok_and(|path| path == named))
    }

    pub(super) fn read(&self) -> Result<Option<Found>, ConfigError> {
        match self {
            Self::Nowhere => Ok(None),
            Self::Usual(path) => read(path),
            Self::Named(path) => match read(path)? {
                Some(found) => Ok(Some(found)),
                None => Err(ConfigError::Missing { path: path.clone() }),
            },
        }
    }
}

/// Makes the directory of the run absolute and free of links and `..`, so that its parents are real.
pub(super) fn workdir(typed: &Path, sources: &ConfigSources) -> Result<PathBuf, ConfigError> {
    let path = sources.cwd.join(typed);
    real_dir(&path).map_err(|source| ConfigError::Workdir { path, source })
}

/// Reads the project file: the first one of [`project_files`] that exists.
///
/// A file that belongs to another user is not one: where every user may write, such as in `/tmp`, any user could
/// decide for all users.
pub(super) fn project(
    workdir: &Path,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Found>, ConfigError> {
    for path in project_files(workdir) {
        if is_foreign(&path).unwrap_or(false) {
            warnings.push(Warning::Foreign { path });
        } else if path.exists() && !path.is_file() {
            let source = io::Error::other("not a regular file");
            return Err(ConfigError::Read { path, source });
        } else if let Some(found) = read(&path)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the places of the project file: from the directory of the run upwards, and not beyond a repository.
fn project_files(workdir: &Path) -> impl Iterator<Item = PathBuf> {
    let repository = repository(workdir);
    let is_within = move |it: &&Path| repository.is_none_or(|root| it.starts_with(root));
    workdir.ancestors().take_while(is_within).map(|it| it.join(PROJECT_FILE))
}

/// Returns the places of the files with a configuration's permissions: the user's, and those in which that of the project
/// can be.
pub(crate) fn permission_files(config: &Config, sources: &ConfigSources) -> Vec<PathBuf> {
    let named = config.user_file.as_deref().map(Path::to_path_buf);
    let mut places: Vec<PathBuf> = named.or_else(|| sources.user_file()).into_iter().collect();
    if sources.discovery == Discovery::Files {
        places.extend(project_files(&config.workdir));
    }
    places
}

fn read(path: &Path) -> Result<Option<Found>, ConfigError> {
    match read_text(path) {
        Ok(text) => Ok(Some(Found { path: path.to_path_buf(), text })),
        Err(error) if is_absent(&error) && !path.is_symlink() => Ok(None),
        Err(error) if is_absent(&error) => {
            let source = io::Error::new(error.kind(), "it is a broken symbolic link");
            Err(ConfigError::Read { path: path.to_path_buf(), source })
        }
        Err(source) => Err(ConfigError::Read { path: path.to_path_buf(), source }),
    }
}

/// Reads a file of settings, which has a size limit.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("longer than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
