//! What may be called while a skill is active.

use std::fmt;

use globset::GlobBuilder;
use loopwright_core::messages::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool that a skill allows, as its front matter writes it: `read_file`, `Read`, `Bash(git:*)`.
///
/// Names of other hosts' tools stand for ours. What is in parentheses restricts the call further: for
/// commands it is a command or the beginning of one, followed by `:*` or ` *`; for tools that take a
/// `path` it is a glob. Where it cannot be checked, the call is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ToolRule {
    name: String,
    specifier: Option<String>,
}

/// What other hosts call our tools, in small letters.
const NAMES: &[(&str, &[&str])] = &[
    ("agent", &["spawn_subagent"]),
    ("bash", &["bash", "bash_start", "bash_read", "bash_stop"]),
    ("bashoutput", &["bash_read"]),
    ("edit", &["edit_file"]),
    ("glob", &["search_files"]),
    ("grep", &["grep"]),
    ("killshell", &["bash_stop"]),
    ("ls", &["list_dir"]),
    ("multiedit", &["edit_file"]),
    ("read", &["read_file"]),
    ("shell", &["bash", "bash_start", "bash_read", "bash_stop"]),
    ("task", &["spawn_subagent"]),
    ("todowrite", &["todo_write"]),
    ("write", &["write_file"]),
];

/// What lets a shell run more than the command at the beginning.
const MORE_THAN_ONE_COMMAND: &[char] = &[';', '|', '&', '\n', '`', '$', '<', '>', '(', ')'];

impl ToolRule {
    /// Reads a rule.
    pub fn new(text: &str) -> Self {
        let text = text.trim();
        match text.strip_suffix(')').and_then(|it| it.split_once('(')) {
            Some((name, specifier)) => {
                Self { name: name.trim().to_owned(), specifier: Some(specifier.trim().to_owned()) }
            }
            None => Self { name: text.to_owned(), specifier: None },
        }
    }

    /// Reads the rules of a text, which commas or blanks separate. Those in parentheses do not.
    pub fn list(text: &str) -> Vec<Self> {
        let mut depth = 0_usize;
        let separates = |it: char| {
            match it {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => (),
            }
            depth == 0 && (it == ',' || it.is_whitespace())
        };
        let words = text.split(separates).filter(|it| !it.is_empty());
        words.map(Self::new).collect()
    }

    /// Returns `true` if the rule is about a tool, whatever it is called with.
    pub fn names(&self, tool: &str) -> bool {
        if self.name == "*" || self.name == tool {
            return true;
        }
        // The name of a server stands for all its tools.
        let of_server = tool.strip_prefix(self.name.as_str()).and_then(|it| it.strip_prefix("__"));
        if self.name.starts_with("mcp__") && of_server.is_some() {
            return true;
        }
        self.native_names().is_some_and(|ours| ours.contains(&tool))
    }

    /// Returns the name as it is written, without what is in parentheses.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns our tools that other hosts know by this name, the closest one first; `None` if none is.
    pub fn native_names(&self) -> Option<&'static [&'static str]> {
        let name = self.name.to_ascii_lowercase();
        NAMES.iter().find(|(other, _)| *other == name).map(|(_, ours)| *ours)
    }

    /// Returns `true` if it depends on the arguments whether a call is allowed.
    pub fn is_conditional(&self) -> bool {
        self.specifier.is_some()
    }

    /// Returns `true` if the rule allows a call.
    pub fn allows(&self, call: &ToolCall) -> bool {
        self.names(&call.name)
            && match &self.specifier {
                None => true,
                Some(specifier) => is_within(specifier, call),
            }
    }
}

fn is_within(specifier: &str, call: &ToolCall) -> bool {
    if matches!(&*call.name, "bash_read" | "bash_stop") {
        return true;
    }
    let Ok(arguments) = call.parse_arguments() else { return false };
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    match (text("command"), text("path")) {
        (Some(command), _) => allows_command(specifier, command.trim()),
        (None, Some(path)) => allows_path(specifier, path),
        (None, None) => false,
    }
}

fn allows_command(specifier: &str, command: &str) -> bool {
    let beginning = specifier.strip_suffix(":*").or_else(|| specifier.strip_suffix(" *"));
    let Some(beginning) = beginning.map(str::trim_end) else {
        return specifier == "*" || specifier == command;
    };
    let rest = command.strip_prefix(beginning);
    let is_it = rest.is_some_and(|it| it.is_empty() || it.starts_with([' ', '\t']));
    is_it && !command.contains(MORE_THAN_ONE_COMMAND)
}

fn allows_path(specifier: &str, path: &str) -> bool {
    let path = path.trim_start_matches("./");
    let is_plain = !path.starts_with('/') && path.split('/').all(|it| it != "..");
    let glob = GlobBuilder::new(specifier.trim_start_matches("./")).literal_separator(true).build();
    is_plain && glob.is_ok_and(|it| it.compile_matcher().is_match(path))
}

impl fmt::Display for ToolRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.specifier.as_ref().map_or(Ok(()), |it| write!(f, "({it})"))
    }
}

impl From<String> for ToolRule {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<ToolRule> for String {
    fn from(rule: ToolRule) -> Self {
        rule.to_string()
    }
}

/// Writes rules as people read them.
pub(super) fn joined(rules: &[ToolRule]) -> String {
    rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
