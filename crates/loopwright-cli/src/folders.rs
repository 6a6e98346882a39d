//! Decisions of the user about folders: trusted projects, and calls that always run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::ConfigSources;
use crate::whole_file::{followed, replace};

const FILE: &str = "folders.toml";

/// What is decided about a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Folder {
    /// The fingerprint of the project's settings when they were trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trusted: Option<String>,
    /// The hooks of the trusted settings that guard calls and prompts, as settings of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) guards: Vec<String>,
    /// Rules that the user answered "always" with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allow: Vec<String>,
    /// Rules that the user answered "never" with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) deny: Vec<String>,
}

impl Folder {
    /// Trusts settings with this fingerprint and these guards.
    pub(crate) fn trust(&mut self, fingerprint: String, guards: Vec<String>) {
        (self.trusted, self.guards) = (Some(fingerprint), guards);
    }

    /// Ends the trust.
    pub(crate) fn revoke(&mut self) {
        (self.trusted, self.guards) = (None, Vec::new());
    }
}

/// Why decisions about folders cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FoldersError {
    #[error(
        "decisions about folders cannot be saved: no home directory; set `HOME` or `XDG_CONFIG_HOME`"
    )]
    NoPlace,
    #[error("cannot read {}; correct the file, or remove it to decide again", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {}; the file is unchanged", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Returns the file, if there is a place for it.
pub(crate) fn file(sources: &ConfigSources) -> Option<PathBuf> {
    Some(sources.own_directory()?.join(FILE))
}

/// Returns what is decided about a folder.
pub(crate) fn folder(sources: &ConfigSources, root: &Path) -> Result<Folder, FoldersError> {
    let Some(path) = file(sources) else { return Ok(Folder::default()) };
    Ok(read(&path)?.remove(&key(root)).unwrap_or_default())
}

/// Changes what is decided about a folder. Other processes that do the same wait.
pub(crate) fn update(
    sources: &ConfigSources,
    root: &Path,
    change: impl FnOnce(&mut Folder),
) -> Result<(), FoldersError> {
    let path = file(sources).ok_or(FoldersError::NoPlace)?;
    let failed = |source| FoldersError::Write { path: path.clone(), source };
    let directory = path.parent().ok_or(FoldersError::NoPlace)?;
    fs::create_dir_all(directory).map_err(failed)?;
    let lock = File::create(directory.join(".folders.lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut folders = read(&path)?;
    let folder = folders.entry(key(root)).or_default();
    change(folder);
    if *folder == Folder::default() {
        folders.remove(&key(root));
    }
    let text = toml::to_string(&folders).map_err(|error| failed(io::Error::other(error)))?;
    replace(&followed(path.clone()), &text, true).map_err(failed)
}

fn key(root: &Path) -> String {
    root.to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<BTreeMap<String, Folder>, FoldersError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(FoldersError::Read { path: path.to_owned(), source }),
    };
    toml::from_str(&text).map_err(|error| {
        let source = io::Error::new(io::ErrorKind::InvalidData, error.message().to_owned());
        FoldersError::Read { path: path.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, ConfigSources) {
        let home = tempfile::tempdir().unwrap();
        let sources = ConfigSources {
            home: Some(home.path().into()),
            cwd: home.path().into(),
            ..ConfigSources::default()
        };
        (home, sources)
    }

    #[test]
    fn decisions_about_folders_are_kept_beside_each_other() {
        let (_home, sources) = home();
        let (one, two) = (Path::new("/work/one"), Path::new("/work/two \"2\""));
        assert_eq!(folder(&sources, one).unwrap(), Folder::default());
        update(&sources, one, |it| it.trusted = Some("a".into())).unwrap();
        update(&sources, two, |it| it.allow.push("Bash(make *)".into())).unwrap();
        update(&sources, one, |it| it.allow.push("Bash(ls *)".into())).unwrap();
        let allow = vec!["Bash(ls *)".into()];
        let kept = Folder { trusted: Some("a".into()), allow, ..Folder::default() };
        assert_eq!(folder(&sources, one).unwrap(), kept);
        assert_eq!(folder(&sources, two).unwrap().allow, ["Bash(make *)"]);
        update(&sources, one, |it| *it = Folder::default()).unwrap();
        let text = fs::read_to_string(file(&sources).unwrap()).unwrap();
        assert_eq!(text, "['/work/two \"2\"']\nallow = [\"Bash(make *)\"]\n");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_overwritten() {
        let (_home, sources) = home();
        let path = file(&sources).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "[broken").unwrap();
        let error = update(&sources, Path::new("/a"), |it| it.allow.push("x".into())).unwrap_err();
        assert!(matches!(error, FoldersError::Read { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "[broken");
    }
}
