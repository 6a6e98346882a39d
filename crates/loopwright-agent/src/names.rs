//! Lists of names.

use serde::{Deserialize, Serialize};

/// Names in order, without duplicates and empty names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct NameList(Vec<String>);

impl NameList {
    /// Returns the names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns `true` if a name is in the list.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|it| it == name)
    }

    /// Returns `true` if the list names a tool, or the server that it is from.
    pub(crate) fn names_tool(&self, tool: &str) -> bool {
        let of_server = tool.strip_prefix("mcp__").and_then(|it| it.split_once("__"));
        self.contains(tool)
            || of_server.is_some_and(|(server, tool)| {
                self.iter().filter_map(|it| it.strip_prefix("mcp__")).any(|name| {
                    let (of, name) = name.split_once("__").unwrap_or((name, "*"));
                    matches(of, server) && matches(name, tool)
                })
            })
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Returns `true` if a name matches a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*') {
        let Some(at) = name.find(piece) else { return false };
        name = &name[at + piece.len()..];
    }
    name.ends_with(last)
}

impl<S: Into<String>> FromIterator<S> for NameList {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut list: Vec<String> = Vec::new();
        for name in names {
            let name: String = name.into().trim().to_owned();
            if !name.is_empty() && !list.contains(&name) {
                list.push(name);
            }
        }
        Self(list)
    }
}

impl From<Vec<String>> for NameList {
    fn from(names: Vec<String>) -> Self {
        names.into_iter().collect()
    }
}

impl From<NameList> for Vec<String> {
    fn from(names: NameList) -> Self {
        names.0
    }
}
