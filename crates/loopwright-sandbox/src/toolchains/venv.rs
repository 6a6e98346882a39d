//! Virtual environments of Python: the one that is active in the user's shell, or `.venv` in the working folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

pub(super) const VARIABLE: &str = "VIRTUAL_ENV";
const USUAL: &str = ".venv";
const SETTINGS: &str = "pyvenv.cfg";
/// The size up to which its settings are read.
const MAX_SETTINGS: u64 = 64 << 10;

/// A virtual environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Venv {
    /// Its folder, without links.
    pub(super) root: PathBuf,
    /// Whether commands can change it, because it is in the working folder.
    pub(super) is_inside: bool,
    /// Whether the user has activated it.
    pub(super) is_active: bool,
    /// The programs of the Python that it was made with, if it is an installation.
    pub(super) home: Option<PathBuf>,
}

impl Venv {
    /// Returns the folder with its programs.
    pub(super) fn programs(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// Returns the installation that it was made with, in which commands may read. The settings of a virtual environment in
    /// the working folder are not the user's: they only count if the user's `PATH` has the same programs.
    pub(super) fn installation(&self, path: &[PathBuf]) -> Option<&Path> {
        let home = self.home.as_ref().filter(|home| !self.is_inside || path.contains(home))?;
        home.parent()
    }
}

/// Finds the virtual environment for commands in a folder. `workdir` has no links.
pub(super) fn find(environment: &BTreeMap<String, OsString>, workdir: &Path) -> Option<Venv> {
    let named = environment.get(VARIABLE).map(PathBuf::from).filter(|it| it.is_absolute());
    let named = named.and_then(|it| it.canonicalize().ok());
    let usual = workdir.join(USUAL);
    // What a link in the folder leads to is not the user's choice.
    let usual = Some(usual).filter(|it| fs::symlink_metadata(it).is_ok_and(|it| it.is_dir()));
    let named = named.map(|it| (it, true)).into_iter();
    named.chain(usual.map(|it| (it, false))).find_map(|(root, is_active)| {
        let settings = settings(&root)?;
        let is_inside = root.starts_with(workdir);
        Some(Venv { home: home(&settings), is_inside, is_active, root })
    })
}

/// Reads the settings. Returns `None` if the folder has none, and so is no virtual environment.
fn settings(root: &Path) -> Option<String> {
    let path = root.join(SETTINGS);
    let is_file = fs::symlink_metadata(&path).is_ok_and(|it| it.is_file());
    let mut text = String::new();
    let file = is_file.then(|| File::open(path).ok()).flatten()?;
    file.take(MAX_SETTINGS).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the folder with the programs of the Python that it was made with, if Python is installed there.
fn home(settings: &str) -> Option<PathBuf> {
    let values = settings.lines().filter_map(|line| line.split_once('='));
    let (_, home) = values.into_iter().find(|(name, _)| name.trim() == "home")?;
    let home = Path::new(home.trim()).canonicalize().ok()?;
    let is_library = |name: OsString| name.as_encoded_bytes().starts_with(b"python3");
    let mut libraries = fs::read_dir(home.parent()?.join("lib")).ok()?.flatten();
    let is_one = home.join("python3").is_file()
        && home.ends_with("bin")
        && libraries.any(|it| is_library(it.file_name()));
    is_one.then_some(home)
}
