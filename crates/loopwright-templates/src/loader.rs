//! The loader of agent files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use loopwright_agent::AgentDefinition;
use loopwright_capabilities::front_matter::{read_file, read_within};
use serde_json::{Map, Value};

use crate::document::{
    DefinitionParser, Document, JsonDefinitions, MarkdownDefinitions, YamlDefinitions,
};
use crate::problem::{DefinitionFileError, Diagnostic, DiagnosticKind};
use crate::reading::{Author, Host, Reading, definition, is_name};

/// Loads files that define agents.
///
/// Files are read strictly: a value of the wrong type is an error that names the line, the key and
/// the expected value, because an unsupported restriction would not be enforced. Unsupported keys
/// of other programs are a warning.
#[derive(Clone)]
#[must_use]
pub struct DefinitionLoader {
    parsers: BTreeMap<String, Arc<dyn DefinitionParser>>,
    host: Host,
}

/// A definition, with warnings about its file.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedDefinition {
    /// The definition.
    pub definition: AgentDefinition,
    /// Warnings for its author.
    pub warnings: Vec<Diagnostic>,
}

impl Default for DefinitionLoader {
    fn default() -> Self {
        Self::new()
    }
}

impl DefinitionLoader {
    /// Creates a loader for `.md`, `.json`, `.yaml` and `.yml`.
    pub fn new() -> Self {
        Self { parsers: BTreeMap::new(), host: Host::default() }
            .with_parser("md", MarkdownDefinitions)
            .with_parser("json", JsonDefinitions)
            .with_parser("yaml", YamlDefinitions)
            .with_parser("yml", YamlDefinitions)
    }

    /// Adds a format by file name extension, or replaces one.
    pub fn with_parser(mut self, extension: &str, parser: impl DefinitionParser + 'static) -> Self {
        self.parsers.insert(extension.to_ascii_lowercase(), Arc::new(parser));
        self
    }

    /// Maps a name in `model`, such as `sonnet`, to a model in the form `provider/model`, or to
    /// `inherit`.
    pub fn with_model(mut self, name: impl Into<String>, model: impl Into<String>) -> Self {
        self.host.models.models.insert(name.into(), model.into());
        self
    }

    /// Sets the names in `model` that are providers and not models.
    pub fn with_providers<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.host.models.providers.extend(names.into_iter().map(Into::into));
        self
    }

    /// Supports `memory`. The program must register a capability for it as [`MEMORY`](loopwright_agent::MEMORY). Otherwise
    /// the key is a warning.
    pub fn with_memory(mut self) -> Self {
        self.host.has_memory = true;
        self
    }

    /// Supports `isolation: worktree`. The program must give sub-agents their working trees. Otherwise the key is an error.
    pub fn with_worktrees(mut self) -> Self {
        self.host.has_worktrees = true;
        self
    }

    /// Supports `hooks` at these events. The program must register a capability for them as
    /// [`HOOKS`](loopwright_agent::HOOKS). Otherwise hooks that can refuse an action are an error,
    /// and others a warning.
    pub fn with_hooks(mut self, events: impl IntoIterator<Item = &'static str>) -> Self {
        self.host.hooks.extend(events);
        self
    }

    /// Returns `true` if the file name extension is supported, ignoring case.
    pub fn reads(&self, path: &Path) -> bool {
        extension(path).is_some_and(|it| self.parsers.contains_key(&it))
    }

    /// Reads a file that the user named explicitly, in which all keys are allowed. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error with all problems if the file cannot be read or is invalid.
    pub fn load(&self, path: &Path) -> Result<LoadedDefinition, DefinitionFileError> {
        self.load_text(path, Author::User, || read_file(path).map_err(Diagnostic::from))
    }

    /// Reads a file of a repository, which cannot set headers and provider-specific fields, except
    /// a few that only affect the choice of words. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error with all problems if the file cannot be read or is invalid.
    pub fn load_of_project(&self, path: &Path) -> Result<LoadedDefinition, DefinitionFileError> {
        self.load_text(path, Author::Other, || read_file(path).map_err(Diagnostic::from))
    }

    /// Reads a file that was found in a directory, if it does not lead out of it.
    pub(crate) fn load_within(
        &self,
        directory: &Path,
        path: &Path,
        author: Author,
    ) -> Result<LoadedDefinition, DefinitionFileError> {
        self.load_text(path, author, || read_within(directory, path).map_err(Diagnostic::from))
    }

    fn load_text(
        &self,
        path: &Path,
        author: Author,
        text: impl FnOnce() -> Result<String, Diagnostic>,
    ) -> Result<LoadedDefinition, DefinitionFileError> {
        let extension = extension(path).unwrap_or_default();
        let read = self
            .parser(&extension)
            .and_then(|parser| parser.parse(&text()?))
            .map_err(|problem| (None, vec![problem]))
            .and_then(|document| self.interpret(document, author));
        let path = || path.to_owned();
        read.map_err(|(name, problems)| DefinitionFileError { path: path(), name, problems })
    }

    /// Parses a text in the format of a file name extension.
    ///
    /// # Errors
    ///
    /// Returns an error if the format is unknown, or the text is invalid. The error has no path.
    pub fn read(
        &self,
        extension: &str,
        text: &str,
    ) -> Result<LoadedDefinition, DefinitionFileError> {
        self.load_text(Path::new(&format!(".{extension}")), Author::User, || Ok(text.to_owned()))
            .map_err(|error| DefinitionFileError { path: "text".into(), ..error })
    }

    /// Reads values by their keys, with whatever is wrong with them.
    pub(crate) fn reading(&self, values: Map<String, Value>) -> Reading {
        definition(Document { values, ..Document::default() }, &self.host, Author::User)
    }

    /// Returns the definition of a document, or the name in it, if it has one, and its errors.
    fn interpret(
        &self,
        document: Document,
        author: Author,
    ) -> Result<LoadedDefinition, (Option<String>, Vec<Diagnostic>)> {
        let Reading { definition, errors, warnings } = definition(document, &self.host, author);
        if errors.is_empty() {
            return Ok(LoadedDefinition { definition, warnings });
        }
        Err((Some(definition.name).filter(|it| is_name(it)), errors))
    }

    fn parser(&self, extension: &str) -> Result<&dyn DefinitionParser, Diagnostic> {
        self.parsers.get(extension).map(|it| &**it).ok_or_else(|| {
            let known: Vec<String> = self.parsers.keys().map(|it| format!(".{it}")).collect();
            DiagnosticKind::UnknownFormat { known: known.join(", ") }.of_file()
        })
    }
}

fn extension(path: &Path) -> Option<String> {
    // The name of a text alone is its end.
    let name = path.file_name()?.to_str()?;
    let (_, extension) = name.rsplit_once('.')?;
    Some(extension.to_ascii_lowercase())
}

impl fmt::Debug for DefinitionLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefinitionLoader")
            .field("formats", &self.parsers.keys())
            .field("host", &self.host)
            .finish()
    }
}
