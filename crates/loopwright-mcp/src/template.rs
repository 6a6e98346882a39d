//! Configuration text with references to environment variables.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Text that can refer to environment variables, as `${NAME}` or `${NAME:-default}`.
///
/// References are expanded only when a server starts, so that stored and printed forms do not
/// contain the values.
///
/// ```
/// use loopwright_mcp::Template;
///
/// let header = Template::new("Bearer ${TOKEN:-none}");
/// assert_eq!(header.expand(|_| None)?, "Bearer none");
/// assert_eq!(header.expand(|_| Some("t".to_owned()))?, "Bearer t");
/// assert!(Template::new("${TOKEN}").expand(|_| None).is_err());
/// # Ok::<(), loopwright_mcp::TemplateError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(String);

/// A text cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A variable is not set, and the reference has no default.
    #[error(
        "environment variable `{0}` is not set; set it, or write a default as `${{{0}:-default}}`"
    )]
    Unset(String),
    /// A reference has no end.
    #[error("`${{` without `}}`; close the reference to the environment variable")]
    Unclosed,
}

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    Variable { name: &'a str, default: Option<&'a str> },
}

impl Template {
    /// Creates a template. It is validated when it is expanded.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text with its references.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the names of the variables that the text refers to.
    pub fn variables(&self) -> Vec<&str> {
        let pieces = self.pieces().unwrap_or_default().into_iter();
        let names = pieces.filter_map(|piece| match piece {
            Piece::Variable { name, .. } => Some(name),
            Piece::Text(_) => None,
        });
        names.collect()
    }

    /// Expands the references. An empty variable counts as set, unless the reference has a default.
    ///
    /// # Errors
    ///
    /// Returns [`TemplateError::Unset`] for a variable that `lookup` does not know and that has no default.
    pub fn expand(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<String, TemplateError> {
        let mut text = String::with_capacity(self.0.len());
        for piece in self.pieces()? {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Variable { name, default } => match (lookup(name), default) {
                    (Some(value), None) => text.push_str(&value),
                    (Some(value), Some(_)) if !value.is_empty() => text.push_str(&value),
                    (_, Some(default)) => text.push_str(default),
                    (None, None) => return Err(TemplateError::Unset(name.to_owned())),
                },
            }
        }
        Ok(text)
    }

    fn pieces(&self) -> Result<Vec<Piece<'_>>, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = self.0.as_str();
        while let Some(start) = rest.find("${") {
            pieces.push(Piece::Text(&rest[..start]));
            let inner = &rest[start + 2..];
            let end = inner.find('}').ok_or(TemplateError::Unclosed)?;
            let reference = &inner[..end];
            let (name, default) = match reference.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (reference, None),
            };
            pieces.push(if is_variable(name) {
                Piece::Variable { name, default }
            } else {
                // Not a reference, such as `${}` in the arguments of a shell.
                Piece::Text(&rest[start..=start + 2 + end])
            });
            rest = &inner[end + 1..];
        }
        pieces.push(Piece::Text(rest));
        Ok(pieces)
    }
}

fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl From<&str> for Template {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Literal text may be a pasted secret, so it is only shown if it consists of references.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables = self.variables();
        if variables.is_empty() {
            f.write_str("\"…\"")
        } else {
            write!(f, "${{{}}}", variables.join("}…${"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<String, TemplateError> {
        Template::new(text).expand(|name| match name {
            "SET" => Some("value".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn references_are_replaced_by_values_and_defaults() {
        assert_eq!(expand("a ${SET} b").unwrap(), "a value b");
        assert_eq!(expand("${UNSET:-other}").unwrap(), "other");
        assert_eq!(expand("${EMPTY:-other}|${EMPTY}|").unwrap(), "other||");
        assert_eq!(expand("$SET $(SET) ${} ${1}").unwrap(), "$SET $(SET) ${} ${1}");
        assert_eq!(expand("${SET:-${x}").unwrap(), "value");
    }

    #[test]
    fn an_unset_variable_without_a_default_is_an_error_that_names_it() {
        assert_eq!(expand("${UNSET}"), Err(TemplateError::Unset("UNSET".to_owned())));
        assert!(expand("${UNSET}").unwrap_err().to_string().contains("`${UNSET:-default}`"));
        assert_eq!(expand("${SET"), Err(TemplateError::Unclosed));
    }

    #[test]
    fn a_value_is_never_expanded_again() {
        let template = Template::new("${A}");
        assert_eq!(template.expand(|_| Some("${B}".to_owned())).unwrap(), "${B}");
    }

    #[test]
    fn debug_shows_names_and_no_literal_text() {
        let text = format!("{:?} {:?}", Template::new("secret"), Template::new("Bearer ${TOKEN}"));
        assert_eq!(text, "\"…\" ${TOKEN}");
    }
}
