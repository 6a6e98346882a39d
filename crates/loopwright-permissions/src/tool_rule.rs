//! Entries of tool lists in definitions and skills.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::matcher::covers_mcp;
use crate::rule;
use crate::tools;

/// An entry of a tool list in a definition or a skill: `read_file`, `Read`, `Bash(git:*)`. It is a
/// rule: [`Source::with_tools`](crate::Source::with_tools) applies lists of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ToolRule(String);

impl ToolRule {
    /// Parses an entry. An invalid rule matches no tool.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Parses the entries of a text, separated by commas or spaces outside parentheses.
    pub fn list(text: &str) -> Vec<Self> {
        rule::split(text).map(Self::new).collect()
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the written name, without the specifier.
    pub fn name(&self) -> &str {
        self.0.split_once('(').map_or(self.0.as_str(), |(name, _)| name.trim_end())
    }

    /// Returns `true` if the entry is about a tool, with some arguments at least.
    pub fn names(&self, tool: &str) -> bool {
        let Ok(parsed) = rule::parse(&self.0) else { return false };
        if parsed.tool == "*" {
            return true;
        }
        match parsed.tool.strip_prefix("mcp__") {
            Some(name) => {
                let (server, of) = name.split_once("__").unwrap_or((name, "*"));
                covers_mcp(server, of, tool)
            }
            None => tools::covers(tools::find(parsed.tool), tools::find(tool)),
        }
    }

    /// Returns the native tools for another program's tool name, the closest one first; empty if
    /// there are none.
    pub fn native_names(&self) -> Vec<&'static str> {
        tools::native(self.name())
    }

    /// Returns `true` if the arguments decide whether a call matches.
    pub fn is_conditional(&self) -> bool {
        rule::parse(&self.0).map_or(true, |parsed| parsed.specifier.is_some_and(|it| it != "*"))
    }
}

impl fmt::Display for ToolRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for ToolRule {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<ToolRule> for String {
    fn from(rule: ToolRule) -> Self {
        rule.0
    }
}
