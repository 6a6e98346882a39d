//! A configuration file as a tree of keys, and errors that know where in it they are.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::{Table, Value};

use super::value::{Mismatch, SettingValue};
use super::{ConfigError, Origin, Setting};

/// A file that is valid TOML.
pub(super) struct Document {
    path: Arc<Path>,
    origin: Origin,
    table: Table,
}

impl Document {
    /// Parses the text of a file; the error keeps the position and drops the line, which may hold a secret.
    pub(super) fn parse(text: &str, path: Arc<Path>, origin: Origin) -> Result<Self, ConfigError> {
        match text.parse() {
            Ok(table) => Ok(Self { path, origin, table }),
            Err(error) => Err(syntax(text, &path, &error)),
        }
    }

    pub(super) fn root(&self) -> Section<'_> {
        Section { document: self, tables: Vec::new(), table: &self.table }
    }
}

fn syntax(text: &str, path: &Path, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    ConfigError::Syntax {
        path: path.to_path_buf(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        problem: error.message().to_owned(),
    }
}

/// A table of a file, or the file itself.
pub(super) struct Section<'a> {
    document: &'a Document,
    tables: Vec<&'a str>,
    table: &'a Table,
}

impl<'a> Section<'a> {
    /// Reads the value of a key, if the key is there.
    pub(super) fn value<T: SettingValue>(
        &self,
        name: &str,
    ) -> Result<Option<Setting<T>>, ConfigError> {
        let Some(value) = self.table.get(name) else { return Ok(None) };
        match T::from_toml(value) {
            Ok(read) => Ok(Some(Setting::new(read, self.document.origin.clone()))),
            Err(Mismatch::Type) => Err(self.wrong_type::<T>(name, value)),
            Err(Mismatch::Value) => Err(self.wrong_value::<T>(name)),
            Err(Mismatch::Secret) => Err(self.literal_secret(name)),
        }
    }

    /// Enters the table of that name, if it is there.
    pub(super) fn section(&self, name: &str) -> Result<Option<Self>, ConfigError> {
        let Some((name, value)) = self.table.get_key_value(name) else { return Ok(None) };
        let Value::Table(table) = value else { return Err(self.not_a_table(name, value)) };
        let mut tables = self.tables.clone();
        tables.push(name);
        Ok(Some(Self { document: self.document, tables, table }))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.table.keys().map(String::as_str)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.document.path.to_path_buf()
    }

    /// The name as it would be written at the top of the file, such as `limits.steps`.
    pub(super) fn key(&self, name: &str) -> String {
        let parts: Vec<_> = self.tables.iter().copied().chain([name]).map(bare_or_quoted).collect();
        parts.join(".")
    }

    pub(super) fn literal_secret(&self, name: &str) -> ConfigError {
        let variable = self.variable_for(name);
        let example = format!("{} = \"env:{variable}\"", bare_or_quoted(name));
        ConfigError::LiteralSecret { key: self.key(name), path: self.path(), example }
    }

    fn wrong_type<T: SettingValue>(&self, name: &str, found: &Value) -> ConfigError {
        ConfigError::WrongType {
            key: self.key(name),
            path: self.path(),
            expected: T::EXPECTED,
            found: described(found),
            example: format!("{} = {}", bare_or_quoted(name), T::EXAMPLE),
        }
    }

    fn wrong_value<T: SettingValue>(&self, name: &str) -> ConfigError {
        ConfigError::WrongValue {
            key: self.key(name),
            path: self.path(),
            expected: T::EXPECTED,
            example: format!("{} = {}", bare_or_quoted(name), T::EXAMPLE),
        }
    }

    fn not_a_table(&self, name: &str, found: &Value) -> ConfigError {
        ConfigError::WrongType {
            key: self.key(name),
            path: self.path(),
            expected: "a table",
            found: described(found),
            example: format!("[{}]", self.key(name)),
        }
    }

    /// A name for the variable of a secret, such as `OPENAI_API_KEY` for `providers.openai.key`.
    fn variable_for(&self, name: &str) -> String {
        let owner = self.tables.iter().rfind(|table| !matches!(**table, "providers" | "headers"));
        let owner = owner.copied().unwrap_or_default();
        let prefix =
            if owner.starts_with(|c: char| c.is_ascii_digit()) { "loopwright_" } else { "" };
        let name = if name == "key" { "api_key" } else { name };
        let words = format!("{prefix}{owner}_{name}");
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        words.chars().map(upper).collect()
    }
}

/// Writes a key so that it can be pasted into a file and shown on a terminal.
fn bare_or_quoted(name: &str) -> Cow<'_, str> {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(format!("\"{}\"", name.escape_debug()))
    }
}

fn described(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a float",
        Value::Boolean(_) => "a boolean",
        Value::Datetime(_) => "a date or time",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}
