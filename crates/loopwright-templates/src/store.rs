//! The store of definitions in a directory.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use loopwright_agent::AgentDefinition;
use loopwright_capabilities::front_matter::{MAX_BYTES, TextError};
use tempfile::NamedTempFile;

use crate::loader::DefinitionLoader;
use crate::problem::{DefinitionFileError, Diagnostic};
use crate::reading::is_name;
use crate::writing::DefinitionFormat;

/// The ends of names under which a definition may be there already.
const OTHERS: [&str; 3] = ["yaml", "yml", "json"];

/// A directory with a Markdown file for each definition, named after the agent.
///
/// Writes are atomic, even in a crash, and only the owner can read new files. No name leads outside
/// the directory.
#[derive(Clone, Debug)]
pub struct FileDefinitionStore {
    root: PathBuf,
    existing: OnExisting,
}

/// The handling of existing definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExisting {
    /// The existing definition stays, and the new one is refused.
    #[default]
    Refuse,
    /// The new definition replaces it.
    Replace,
}

/// A definition that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedDefinition {
    /// Its file.
    pub path: PathBuf,
    /// Whether it replaced another one.
    pub replaced: bool,
}

/// The error of a definition that was not written. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionStoreError {
    /// The directory cannot be used.
    #[error("definitions cannot be stored in {}", .path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The name is not a valid agent name.
    #[error(
        "invalid agent name `{0}`; write 1 to 64 characters of a-z, 0-9, `-` and `_`, starting with a letter or a digit"
    )]
    Name(String),
    /// The definition already exists.
    #[error("definition already exists: {}", .0.display())]
    Exists(PathBuf),
    /// The written file could not be read back.
    #[error("the definition cannot be written: its content would differ when read back")]
    Unreadable(#[source] DefinitionFileError),
    /// The file cannot be written.
    #[error("{} cannot be written", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl FileDefinitionStore {
    /// Creates a store for an existing directory. Existing definitions stay.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist, is not a directory, or is not writable.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, DefinitionStoreError> {
        let root = root.as_ref();
        let real = fs::canonicalize(root).and_then(|real| {
            let metadata = fs::metadata(&real)?;
            match () {
                () if !metadata.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
                () if metadata.permissions().readonly() => {
                    Err(io::ErrorKind::ReadOnlyFilesystem.into())
                }
                () => Ok(real),
            }
        });
        let root =
            real.map_err(|source| DefinitionStoreError::Root { path: root.to_owned(), source })?;
        Ok(Self { root, existing: OnExisting::default() })
    }

    /// Sets the handling of existing definitions.
    #[must_use]
    pub fn with_existing(mut self, existing: OnExisting) -> Self {
        self.existing = existing;
        self
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a definition. Blocks until it is on disk.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is not a valid agent name, an existing definition stays, the
    /// file would be too long or nested too deeply to be read back, or the disk fails. If a file of
    /// another format has the name, remove it first.
    pub fn save(
        &self,
        definition: &AgentDefinition,
    ) -> Result<SavedDefinition, DefinitionStoreError> {
        let name = definition.name.as_str();
        if !is_name(name) {
            return Err(DefinitionStoreError::Name(name.to_owned()));
        }
        let others = OTHERS.iter().map(|it| self.root.join(format!("{name}.{it}")));
        if let Some(other) = others.into_iter().find(|it| it.symlink_metadata().is_ok()) {
            return Err(DefinitionStoreError::Exists(other));
        }
        let path = self.root.join(format!("{name}.{}", DefinitionFormat::Markdown.extension()));
        let before = path.symlink_metadata().ok();
        if before.is_some() && self.existing == OnExisting::Refuse {
            return Err(DefinitionStoreError::Exists(path));
        }
        let text = DefinitionFormat::Markdown.write(definition);
        if let Err(problems) = readable(&text) {
            let name = Some(name.to_owned());
            return Err(DefinitionStoreError::Unreadable(DefinitionFileError {
                path,
                name,
                problems,
            }));
        }
        let replaced = before.is_some();
        match self.write(&path, before.as_ref(), &text) {
            Ok(()) => Ok(SavedDefinition { path, replaced }),
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(DefinitionStoreError::Exists(path))
            }
            Err(source) => Err(DefinitionStoreError::Write { path, source }),
        }
    }

    fn write(&self, path: &Path, before: Option<&fs::Metadata>, text: &str) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(&self.root)?;
        file.write_all(text.as_bytes())?;
        // Who could read the old one can read the new one; of a link nothing is kept.
        if let Some(before) = before.filter(|it| it.is_file()) {
            file.as_file().set_permissions(before.permissions())?;
        }
        file.as_file().sync_all()?;
        match self.existing {
            OnExisting::Refuse => file.persist_noclobber(path),
            OnExisting::Replace => file.persist(path),
        }
        .map_err(|it| it.error)?;
        File::open(&self.root)?.sync_all()
    }
}

/// Returns `true` if a text will be read again.
fn readable(text: &str) -> Result<(), Vec<Diagnostic>> {
    let bytes = text.len() as u64;
    if bytes > MAX_BYTES {
        return Err(vec![TextError::TooLong(bytes).into()]);
    }
    let read = DefinitionLoader::new().read(DefinitionFormat::Markdown.extension(), text);
    read.map(|_| ()).map_err(|error| error.problems)
}
