//! The registry of definitions from files and programs.

mod places;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use loopwright_agent::{AgentDefinition, DefinitionError, Definitions};
use loopwright_core::messages::InferenceSettings;

use crate::directory;
use crate::loader::DefinitionLoader;
use crate::problem::{DefinitionFileError, DefinitionWarning, Diagnostic, DiagnosticKind};
use crate::reading::{Author, settings};

pub use self::places::{DefinitionPaths, DefinitionScope};

/// Definitions by name.
///
/// A later definition replaces an earlier one with the same name, so
/// [`auto_discover`](Self::auto_discover) adds packages first, then the project's, then the user's:
/// a project cannot replace an agent of the user. An invalid file does not affect others: its
/// problems are kept in [`errors`](Self::errors). Clones are the same registry, so agents with a
/// clone see later additions.
///
/// ```no_run
/// use loopwright_agent::Definitions as _;
/// use loopwright_templates::{AgentDefinitionRegistry, DefinitionPaths};
///
/// let agents = AgentDefinitionRegistry::new();
/// agents.auto_discover(&DefinitionPaths::new().with_project(".").with_user_dir("/home/ann/.claude/agents"));
/// for (path, error) in agents.errors() {
///     eprintln!("{}: {error}", path.display());
/// }
/// println!("{}", agents.names().join(", "));
/// ```
#[derive(Clone, Debug, Default)]
pub struct AgentDefinitionRegistry {
    loader: Arc<DefinitionLoader>,
    state: Arc<RwLock<State>>,
}

/// Whether subdirectories are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Only the directory itself.
    #[default]
    Flat,
    /// Subdirectories, too, up to some levels; links are not followed.
    Recursive,
}

/// The origin of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionSource {
    /// The file. `None` means that a program created it.
    pub path: Option<PathBuf>,
    /// The scope, if it was discovered.
    pub scope: Option<DefinitionScope>,
}

#[derive(Debug, Default)]
struct State {
    definitions: BTreeMap<String, Entry>,
    errors: BTreeMap<PathBuf, DefinitionFileError>,
    /// Files with errors that would define the agent of a name, had they none.
    refused: BTreeMap<String, PathBuf>,
    warnings: Vec<DefinitionWarning>,
}

#[derive(Debug)]
struct Entry {
    definition: Arc<AgentDefinition>,
    source: DefinitionSource,
}

impl AgentDefinitionRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty registry with a custom loader.
    pub fn with_loader(loader: DefinitionLoader) -> Self {
        Self { loader: Arc::new(loader), state: Arc::default() }
    }

    /// Returns the loader.
    pub fn loader(&self) -> &DefinitionLoader {
        &self.loader
    }

    /// Adds a definition, or replaces the one with the same name.
    pub fn register(&self, definition: AgentDefinition) {
        self.write().put(definition, DefinitionSource { path: None, scope: None });
    }

    /// Adds definitions, or replaces those with the same names.
    pub fn register_many(&self, definitions: impl IntoIterator<Item = AgentDefinition>) {
        for definition in definitions {
            self.register(definition);
        }
    }

    /// Adds the definition in a file, or replaces the one with the same name. Blocks while it
    /// reads.
    ///
    /// # Errors
    ///
    /// Returns an error if the file contains no valid definition; nothing is added or removed then.
    pub fn load_from_file(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Arc<AgentDefinition>, DefinitionFileError> {
        let path = path.as_ref();
        let loaded = self.loader.load(path)?;
        let source = DefinitionSource { path: Some(path.to_owned()), scope: None };
        let mut state = self.write();
        state.forget(path);
        state.warn(path, loaded.warnings);
        Ok(state.put(loaded.definition, source))
    }

    /// Adds the definitions of a directory, in the order of their paths. A missing directory has
    /// none. Errors and warnings are kept until it is read again. Blocks while it reads.
    pub fn load_from_directory(&self, path: impl AsRef<Path>, depth: Depth) {
        self.load_directory(path.as_ref(), depth, None);
    }

    /// Adds the definitions in the usual places: packages first, then the project, then the user,
    /// whose definitions take precedence. Blocks while it reads.
    pub fn auto_discover(&self, places: &DefinitionPaths) {
        for (scope, directory) in places.iter() {
            self.load_directory(directory, Depth::Flat, Some(scope));
        }
    }

    fn load_directory(&self, root: &Path, depth: Depth, scope: Option<DefinitionScope>) {
        let author = match scope {
            Some(DefinitionScope::Project) => Author::Other,
            _ => Author::User,
        };
        let found = directory::find(root, depth, &|path| self.loader.reads(path));
        let loaded: Vec<_> = found
            .files
            .into_iter()
            .map(|path| (self.loader.load_within(root, &path, author), path))
            .collect();
        let mut state = self.write();
        state.forget_directory(root, depth);
        for (path, problem) in found.warnings {
            state.warn(&path, [problem]);
        }
        for (path, problem) in found.unreadable {
            let problems = vec![problem];
            let error = DefinitionFileError { path: path.clone(), name: None, problems };
            state.errors.insert(path, error);
        }
        for (loaded, path) in loaded {
            state.forget(&path);
            match loaded {
                Ok(loaded) => {
                    state.warn(&path, loaded.warnings);
                    state.put(loaded.definition, DefinitionSource { path: Some(path), scope });
                }
                Err(error) => state.refuse(error, scope),
            }
        }
    }

    /// Returns `true` if the name is known.
    pub fn contains(&self, name: &str) -> bool {
        self.read().definitions.contains_key(name)
    }

    /// Returns the settings of model calls in definitions that do not belong to a project: the
    /// headers and fields that requests may contain.
    pub fn granted_settings(&self) -> Vec<InferenceSettings> {
        let state = self.read();
        let own = state
            .definitions
            .values()
            .filter(|it| it.source.scope != Some(DefinitionScope::Project));
        own.flat_map(|it| settings(&it.definition)).map(|(_, settings)| settings).collect()
    }

    /// Returns the origin of a definition, or `None` if the name is unknown.
    pub fn source(&self, name: &str) -> Option<DefinitionSource> {
        self.read().definitions.get(name).map(|it| it.source.clone())
    }

    /// Returns the errors of files without a valid definition, by path.
    pub fn errors(&self) -> BTreeMap<PathBuf, DefinitionFileError> {
        self.read().errors.clone()
    }

    /// Returns the error of an invalid file that would define an agent with this name. `get` may
    /// nevertheless return a definition of that name from a place with lower precedence, but never
    /// one of a project instead of the user's.
    pub fn refused(&self, name: &str) -> Option<DefinitionFileError> {
        let state = self.read();
        state.errors.get(state.refused.get(name)?).cloned()
    }

    /// Returns the warnings about files, in the order they were read.
    pub fn warnings(&self) -> Vec<DefinitionWarning> {
        self.read().warnings.clone()
    }

    // A panic leaves nothing half done: whatever is changed is changed by one call.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    fn put(
        &mut self,
        definition: AgentDefinition,
        source: DefinitionSource,
    ) -> Arc<AgentDefinition> {
        let definition = Arc::new(definition);
        self.refused.remove(&definition.name);
        let entry = Entry { definition: Arc::clone(&definition), source: source.clone() };
        let before = self.definitions.insert(definition.name.clone(), entry);
        let before = before.and_then(|it| it.source.path);
        if let (Some(before), Some(by)) = (before, source.path)
            && before != by
        {
            self.warn(&before, [DiagnosticKind::Shadowed { by }.of_file()]);
        }
        definition
    }

    fn refuse(&mut self, error: DefinitionFileError, scope: Option<DefinitionScope>) {
        if let Some(name) = &error.name {
            let of_project = |it: &Entry| it.source.scope == Some(DefinitionScope::Project);
            if scope == Some(DefinitionScope::User)
                && self.definitions.get(name).is_some_and(of_project)
            {
                self.definitions.remove(name);
            }
            self.refused.insert(name.clone(), error.path.clone());
        }
        self.errors.insert(error.path.clone(), error);
    }

    fn warn(&mut self, path: &Path, problems: impl IntoIterator<Item = Diagnostic>) {
        let warning = |problem| DefinitionWarning { path: path.to_owned(), problem };
        self.warnings.extend(problems.into_iter().map(warning));
    }

    /// Forgets what was wrong with a file that is read again.
    fn forget(&mut self, path: &Path) {
        self.errors.remove(path);
        self.warnings.retain(|it| it.path != path);
    }

    /// Forgets what was wrong with a directory that is read again, and with what was found in it.
    fn forget_directory(&mut self, root: &Path, depth: Depth) {
        let is_read = |path: &Path| match depth {
            Depth::Flat => path == root || path.parent() == Some(root),
            Depth::Recursive => path.starts_with(root),
        };
        self.errors.retain(|path, _| !is_read(path));
        self.warnings.retain(|it| !is_read(&it.path));
    }
}

impl Definitions for AgentDefinitionRegistry {
    fn get(&self, name: &str) -> Result<Arc<AgentDefinition>, DefinitionError> {
        let state = self.read();
        let entry = state.definitions.get(name);
        entry.map(|it| Arc::clone(&it.definition)).ok_or_else(|| {
            let known: Vec<&str> = state.definitions.keys().map(String::as_str).collect();
            DefinitionError { name: name.to_owned(), known: known.join(", ") }
        })
    }

    fn names(&self) -> Vec<String> {
        self.read().definitions.keys().cloned().collect()
    }
}

impl fmt::Display for DefinitionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => path.display().fmt(f),
            None => f.write_str("program"),
        }
    }
}
