//! One file and the agent it defines.

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
use crate::reading::{Author, ModelNames, Reading, definition, is_name};

/// Reads files that define agents.
///
/// Files are read strictly: a value of the wrong kind is an error that names line, key and what was
/// expected, because a restriction that is not understood is not kept. What other programs write and
/// nobody here understands is a warning.
#[derive(Clone)]
#[must_use]
pub struct DefinitionLoader {
    parsers: BTreeMap<String, Arc<dyn DefinitionParser>>,
    models: ModelNames,
}

/// A definition, and what is odd about its file.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedDefinition {
    /// The definition.
    pub definition: AgentDefinition,
    /// What its author should know.
    pub warnings: Vec<Diagnostic>,
}

impl Default for DefinitionLoader {
    fn default() -> Self {
        Self::new()
    }
}

impl DefinitionLoader {
    /// Reads `.md`, `.json`, `.yaml` and `.yml`.
    pub fn new() -> Self {
        Self { parsers: BTreeMap::new(), models: ModelNames::default() }
            .with_parser("md", MarkdownDefinitions)
            .with_parser("json", JsonDefinitions)
            .with_parser("yaml", YamlDefinitions)
            .with_parser("yml", YamlDefinitions)
    }

    /// Reads another format too, by the end of the file's name, or reads one in another way.
    pub fn with_parser(mut self, extension: &str, parser: impl DefinitionParser + 'static) -> Self {
        self.parsers.insert(extension.to_ascii_lowercase(), Arc::new(parser));
        self
    }

    /// Lets a name in `model`, such as `sonnet`, stand for a model as we write it, or for `inherit`.
    pub fn with_model(mut self, name: impl Into<String>, model: impl Into<String>) -> Self {
        self.models.models.insert(name.into(), model.into());
        self
    }

    /// Tells which names in `model` are of providers and not of models.
    pub fn with_providers<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.models.providers.extend(names.into_iter().map(Into::into));
        self
    }

    /// Returns `true` if a file is one to be read, by the end of its name. Capitals make no difference.
    pub fn reads(&self, path: &Path) -> bool {
        extension(path).is_some_and(|it| self.parsers.contains_key(&it))
    }

    /// Reads a file that the user named, and that may say everything. Blocks.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is wrong; the error tells everything that is.
    pub fn load(&self, path: &Path) -> Result<LoadedDefinition, DefinitionFileError> {
        self.load_text(path, Author::User, || read_file(path).map_err(Diagnostic::from))
    }

    /// Reads a file of a repository: it sets no header, and no field of the provider's own but a few that say
    /// only how words are chosen. Blocks.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is wrong; the error tells everything that is.
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

    /// Reads a text that is in the format of files whose names end so.
    ///
    /// # Errors
    ///
    /// If there is no such format, or the text is wrong. The error has no path.
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
        definition(Document { values, ..Document::default() }, &self.models, Author::User)
    }

    /// Returns the definition of a document, or the name in it, if it has one, and its errors.
    fn interpret(
        &self,
        document: Document,
        author: Author,
    ) -> Result<LoadedDefinition, (Option<String>, Vec<Diagnostic>)> {
        let Reading { definition, errors, warnings } = definition(document, &self.models, author);
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
            .field("models", &self.models)
            .finish()
    }
}
