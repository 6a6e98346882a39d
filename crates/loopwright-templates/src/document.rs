//! The content of a file, before it becomes a definition: values with their lines, and text.

mod json;

use loopwright_capabilities::front_matter::{Lines, Repeated, Yaml, YamlError, plain, read, split};
use serde_json::{Map, Value};

use crate::problem::{Diagnostic, DiagnosticKind};

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The values, by key.
    pub values: Map<String, Value>,
    /// Their lines, counted from one.
    pub lines: Lines,
    /// The text below the values, in formats that have one. It is the prompt.
    pub body: Option<String>,
    /// Keys that occur more than once.
    pub repeated: Vec<Repeated>,
    /// Warnings about the file so far.
    pub warnings: Vec<Diagnostic>,
}

/// A reader of one format.
///
/// It receives the whole text of a file and does not interpret values, because their meaning is the
/// same for all formats.
pub trait DefinitionParser: Send + Sync {
    /// Parses a text.
    ///
    /// # Errors
    ///
    /// Returns an error if the text breaks the rules of the format.
    fn parse(&self, text: &str) -> Result<Document, Diagnostic>;
}

/// Markdown with front matter; the rest is the prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkdownDefinitions;

/// YAML.
#[derive(Clone, Copy, Debug, Default)]
pub struct YamlDefinitions;

/// JSON.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonDefinitions;

impl DefinitionParser for MarkdownDefinitions {
    fn parse(&self, text: &str) -> Result<Document, Diagnostic> {
        let text = plain(text);
        let (front, body) = split(&text).ok_or_else(|| DiagnosticKind::NoFrontMatter.of_file())?;
        // The first line is the one with the dashes.
        let front = read(front).map_err(|error| of_yaml(&error, 1))?;
        let mut document = Document { body: Some(body.to_owned()), ..of(front.yaml, 1) };
        document.warnings.extend(front.is_quoted.then(|| DiagnosticKind::Quoted.of_file()));
        Ok(document)
    }
}

impl DefinitionParser for YamlDefinitions {
    fn parse(&self, text: &str) -> Result<Document, Diagnostic> {
        Ok(of(Yaml::read(&plain(text)).map_err(|error| of_yaml(&error, 0))?, 0))
    }
}

impl DefinitionParser for JsonDefinitions {
    fn parse(&self, text: &str) -> Result<Document, Diagnostic> {
        json::read(&plain(text))
    }
}

fn of(yaml: Yaml, before: usize) -> Document {
    let Yaml { values, mut lines, mut repeated, has_more } = yaml;
    move_down(&mut lines, before);
    for it in &mut repeated {
        it.line += before;
    }
    let warnings = has_more.then(|| DiagnosticKind::MoreDocuments.of_file()).into_iter().collect();
    Document { values, lines, repeated, warnings, body: None }
}

fn move_down(lines: &mut Lines, by: usize) {
    lines.line += by;
    for within in lines.within.values_mut() {
        move_down(within, by);
    }
}

fn of_yaml(error: &YamlError, before: usize) -> Diagnostic {
    let kind = DiagnosticKind::Syntax { format: "YAML", problem: error.problem() };
    Diagnostic { line: error.line().map(|it| it + before), key: None, kind }
}
