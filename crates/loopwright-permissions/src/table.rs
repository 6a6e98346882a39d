//! Tables of calls with expected decisions.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::Call;
use crate::decision::Decision;
use crate::policy::Policy;
use crate::verdict::Verdict;

/// Calls with expected decisions, one JSON object per line.
///
/// A line has `expect` and either `command` or `tool` with `arguments`; `confined` and `read_only` say the same as the
/// methods of [`Call`]. Empty lines and lines that start with `#` are skipped.
///
/// ```
/// use loopwright_permissions::{Policy, Source, SourceKind, Table};
///
/// let source = Source::new(SourceKind::Project, "rules.toml", "/project").deny("Bash(git push *)", 1);
/// let policy = Policy::builder("/project").source(source).build();
/// let table = Table::parse(
///     r#"
///     ## nothing is pushed
///     { "command": "git push --force", "expect": "deny" }
///     { "tool": "read_file", "arguments": { "path": "src/lib.rs" }, "expect": "allow" }
///     "#,
/// )?;
/// assert_eq!(table.len(), 2);
/// assert!(table.failures(&policy).is_empty());
/// # Ok::<(), loopwright_permissions::TableError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    rows: Vec<(usize, Row)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    confined: Option<bool>,
    #[serde(default)]
    read_only: bool,
    expect: Decision,
}

/// A line of a table that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the table cannot be read: {source}")]
pub struct TableError {
    /// The line, starting with 1.
    pub line: usize,
    source: serde_json::Error,
}

/// A call with an unexpected decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TableFailure {
    /// The line of the table, starting with 1.
    pub line: usize,
    /// The command, or the tool with its arguments.
    pub call: String,
    /// The expected decision.
    pub expected: Decision,
    /// The actual decision.
    pub verdict: Verdict,
}

impl fmt::Display for TableFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: `{}`: expected {}, got {}",
            self.line, self.call, self.expected, self.verdict
        )
    }
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    ///
    /// Returns a [`TableError`] for the first invalid line.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let read = |(line, text)| match serde_json::from_str(text) {
            Ok(row) => Ok((line, row)),
            Err(source) => Err(TableError { line, source }),
        };
        Ok(Self { rows: lines.map(read).collect::<Result<_, _>>()? })
    }

    /// Returns the number of calls.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns `true` if the table has no calls.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Decides all calls, and returns those with unexpected decisions. Shadow rules do not count
    /// them.
    pub fn failures(&self, policy: &Policy) -> Vec<TableFailure> {
        self.failures_with(policy, |call| call)
    }

    /// As [`failures`](Self::failures), with calls that `mark` marks, such as those that a sandbox confines. A line that has
    /// `confined` decides this for its call.
    pub fn failures_with(
        &self,
        policy: &Policy,
        mark: impl for<'a> Fn(Call<'a>) -> Call<'a>,
    ) -> Vec<TableFailure> {
        self.rows.iter().filter_map(|(line, row)| row.failure(*line, policy, &mark)).collect()
    }
}

impl Row {
    fn failure(
        &self,
        line: usize,
        policy: &Policy,
        mark: &impl for<'a> Fn(Call<'a>) -> Call<'a>,
    ) -> Option<TableFailure> {
        let command = self.command.as_ref();
        let arguments = match (&self.arguments, command) {
            (Some(arguments), _) => arguments.clone(),
            (None, Some(command)) => json!({ "command": command }),
            (None, None) => json!({}),
        };
        let tool = self.tool.as_deref().unwrap_or("bash");
        let mut call = mark(Call::new(tool, &arguments));
        call.is_confined = self.confined.unwrap_or(call.is_confined);
        call.is_read_only = self.read_only;
        let verdict = policy.explain(&call).verdict;
        let text = || command.cloned().unwrap_or_else(|| format!("{tool} {arguments}"));
        (verdict.decision != self.expect).then(|| TableFailure {
            line,
            call: text(),
            expected: self.expect,
            verdict,
        })
    }
}
