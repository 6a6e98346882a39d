//! Values by key, each taken once and type-checked.

use loopwright_agent::NameList;
use loopwright_capabilities::front_matter::Lines;
use loopwright_permissions::ToolRule;
use serde_json::{Map, Value};

use crate::problem::{Diagnostic, DiagnosticKind};

const TEXT: &str = "a string; put it in quotes";
const NAMES: &str = "a list of names, or names separated by commas; `[]` means none";
const MAP: &str = "a list of `key: value` pairs";
const COUNT: &str = "a whole number, 0 or more, within the supported range";
const SWITCH: &str = "`true` or `false`";
const AMOUNT: &str = "a number, 0 or more";

/// What was found wrong.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
}

/// Where a value is.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) key: String,
    pub(super) line: Option<usize>,
}

/// A map inside of another.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) values: Map<String, Value>,
    at: At,
    lines: Lines,
}

/// The values of a map that were not taken yet.
pub(super) struct Fields<'f> {
    values: Map<String, Value>,
    lines: Lines,
    around: String,
    found: &'f mut Findings,
}

impl<'f> Fields<'f> {
    pub(super) fn new(values: Map<String, Value>, lines: Lines, found: &'f mut Findings) -> Self {
        Self { values, lines, around: String::new(), found }
    }

    /// Enters a map; its problems are reported with the others.
    pub(super) fn enter(&mut self, inner: Inner) -> Fields<'_> {
        let Inner { values, at, lines } = inner;
        Fields { values, lines, around: format!("{}.", at.key), found: self.found }
    }

    fn at(&self, key: &str) -> At {
        let line = self.lines.within.get(key).map(|it| it.line).filter(|it| *it > 0);
        At { key: format!("{}{key}", self.around), line }
    }

    pub(super) fn error(&mut self, at: At, kind: DiagnosticKind) {
        self.found.errors.push(Diagnostic { line: at.line, key: Some(at.key), kind });
    }

    pub(super) fn warn(&mut self, at: At, kind: DiagnosticKind) {
        self.found.warnings.push(Diagnostic { line: at.line, key: Some(at.key), kind });
    }

    pub(super) fn missing(&mut self, key: &str, remedy: &'static str) {
        let is_known = self.found.errors.iter().any(|it| it.key.as_deref() == Some(key));
        if !is_known {
            let at = At { key: key.to_owned(), line: None };
            self.error(at, DiagnosticKind::Missing { remedy });
        }
    }

    /// Takes what one of these keys says; null says nothing. The first key is the one we write.
    pub(super) fn take(&mut self, keys: &[&'static str]) -> Option<(At, Value)> {
        let mut taken: Option<(&'static str, At, Value)> = None;
        for key in keys {
            let at = self.at(key);
            let Some(value) = self.values.remove(*key).filter(|it| !it.is_null()) else { continue };
            match &taken {
                Some((other, ..)) => self.error(at, DiagnosticKind::ConflictingKeys { other }),
                None => taken = Some((key, at, value)),
            }
        }
        taken.map(|(_, at, value)| (at, value))
    }

    /// Returns what a key says, which stays to be taken; null says nothing.
    pub(super) fn peek(&self, key: &str) -> Option<(At, Value)> {
        let value = self.values.get(key).filter(|it| !it.is_null())?;
        Some((self.at(key), value.clone()))
    }

    /// Tells of keys that say null, where that may not stand for nothing at all.
    pub(super) fn not_null(&mut self, keys: &[&'static str]) {
        for key in keys {
            if self.values.get(*key).is_some_and(Value::is_null) {
                self.error(self.at(key), DiagnosticKind::WrongType { expected: NAMES });
            }
        }
    }

    pub(super) fn text(&mut self, keys: &[&'static str]) -> Option<(At, String)> {
        match self.take(keys)? {
            (at, Value::String(text)) => Some((at, text)),
            (at, _) => {
                self.error(at, DiagnosticKind::WrongType { expected: TEXT });
                None
            }
        }
    }

    pub(super) fn map(&mut self, keys: &[&'static str]) -> Option<Inner> {
        let (at, value) = self.take(keys)?;
        self.inner(at, value, MAP)
    }

    pub(super) fn inner(&mut self, at: At, value: Value, expected: &'static str) -> Option<Inner> {
        let key = at.key.strip_prefix(&self.around).unwrap_or(&at.key);
        let lines = self.lines.within.get(key).cloned().unwrap_or_default();
        let Value::Object(values) = value else {
            self.error(at, DiagnosticKind::WrongType { expected });
            return None;
        };
        Some(Inner { values, at, lines })
    }

    /// Takes a list of texts, or a text in which commas or blanks part them. Those in parentheses do
    /// not.
    pub(super) fn words(&mut self, keys: &[&'static str]) -> Option<(At, Vec<String>)> {
        let (at, value) = self.take(keys)?;
        let words = match value {
            Value::String(text) => {
                let words = ToolRule::list(&text).iter().map(ToString::to_string).collect();
                Some(words).filter(|it: &Vec<String>| !it.is_empty())
            }
            Value::Array(words) => words.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        if words.is_none() {
            self.error(at.clone(), DiagnosticKind::WrongType { expected: NAMES });
        }
        words.map(|words| (at, words))
    }

    pub(super) fn names(&mut self, keys: &[&'static str]) -> Option<NameList> {
        self.words(keys).map(|(_, words)| words.into_iter().collect())
    }

    pub(super) fn count<T: TryFrom<u64>>(&mut self, keys: &[&'static str]) -> Option<(At, T)> {
        let (at, value) = self.take(keys)?;
        let Some(count) = value.as_u64().and_then(|it| T::try_from(it).ok()) else {
            self.error(at, DiagnosticKind::WrongType { expected: COUNT });
            return None;
        };
        Some((at, count))
    }

    pub(super) fn switch(&mut self, keys: &[&'static str]) -> Option<bool> {
        let (at, value) = self.take(keys)?;
        if !value.is_boolean() {
            self.error(at, DiagnosticKind::WrongType { expected: SWITCH });
        }
        value.as_bool()
    }

    pub(super) fn amount(&mut self, keys: &[&'static str]) -> Option<(At, f64)> {
        let (at, value) = self.take(keys)?;
        let Some(amount) = value.as_f64().filter(|it| it.is_finite() && *it >= 0.0) else {
            self.error(at, DiagnosticKind::WrongType { expected: AMOUNT });
            return None;
        };
        Some((at, amount))
    }

    /// Takes keys that say what does not count, and tells why.
    pub(super) fn ignore(&mut self, keys: &[&'static str], kind: &DiagnosticKind) {
        for key in keys {
            if let Some((at, _)) = self.take(&[key]) {
                self.warn(at, kind.clone());
            }
        }
    }

    /// Reports the keys that are left. One that is another spelling of a key that restricts the agent
    /// is an error.
    pub(super) fn rest(&mut self) {
        let keys: Vec<String> = self.values.keys().cloned().collect();
        for key in keys {
            let at = self.at(&key);
            match meant(&key).filter(|_| self.around.is_empty()) {
                Some(meant) => self.error(at, DiagnosticKind::Misspelled { meant }),
                None => self.warn(at, DiagnosticKind::UnknownKey),
            }
        }
        self.values.clear();
    }
}

/// Keys that restrict an agent, by their letters without capitals, `-` and `_`.
const RESTRICTIONS: [(&str, &str); 10] = [
    ("allowedtools", "tools"),
    ("budget", "budget"),
    ("deniedtools", "toolsDeny"),
    ("disallowedtools", "disallowedTools"),
    ("hooks", "hooks"),
    ("maxturns", "maxTurns"),
    ("mcpservers", "mcpServers"),
    ("permissionmode", "permissionMode"),
    ("tools", "tools"),
    ("toolsdeny", "toolsDeny"),
];

/// Returns the key that restricts an agent and that an unknown key is another spelling of.
fn meant(key: &str) -> Option<&'static str> {
    let letters = key.chars().filter(|it| !matches!(it, '-' | '_' | ' '));
    let letters: String = letters.flat_map(char::to_lowercase).collect();
    RESTRICTIONS.iter().find(|(known, _)| *known == letters).map(|(_, meant)| *meant)
}
