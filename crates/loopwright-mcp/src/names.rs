//! The names of server tools for models and permission rules.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

/// The maximum length of a tool name that every provider accepts.
pub const MAX_TOOL_NAME: usize = 64;

/// The longest name of a server, as a part of the names of its tools.
const MAX_SERVER_NAME: usize = 24;

/// Returns the part of tool names for a server. Names of only letters, digits, `_` and `-`, without
/// `__` and without `_` at the end, do not change.
///
/// The part has no `__` and no `_` at the end, so that the `__` after it is the first one: the name of a tool
/// belongs to one server, whatever its other tools and servers are called.
pub fn server_part(server: &str) -> String {
    let mut part = clean(server);
    while part.contains("__") {
        part = part.replace("__", "_");
    }
    if part == server && !part.is_empty() && !part.ends_with('_') && part.len() <= MAX_SERVER_NAME {
        return part;
    }
    let hash = hash(server);
    part.truncate(MAX_SERVER_NAME - hash.len());
    format!("{}{hash}", part.trim_end_matches('_'))
}

/// Returns the name of each tool of a server for models, `mcp__SERVER__TOOL`, in the order of `tools`.
///
/// A name depends only on the names of the server and its tools, never on their order. A name that
/// would be too long or would occur twice ends with a hash of the tool's own name. The second of
/// two tools with equal names gets no name.
pub fn tool_names<'a>(
    server: &str,
    tools: impl IntoIterator<Item = &'a str>,
) -> Vec<Option<String>> {
    let prefix = format!("mcp__{}__", server_part(server));
    let tools: Vec<&str> = tools.into_iter().collect();
    let mut owners: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for tool in &tools {
        owners.entry(clean(tool)).or_default().insert(tool);
    }
    let mut taken = BTreeSet::new();
    let name = |tool: &&str| {
        let cleaned = clean(tool);
        let is_unique = owners.get(&cleaned).is_some_and(|owners| owners.len() == 1);
        let room = MAX_TOOL_NAME - prefix.len();
        let is_kept = (is_unique || cleaned == **tool) && cleaned.len() <= room;
        let part =
            if is_kept && !cleaned.is_empty() { cleaned } else { shorten(&cleaned, tool, room) };
        let name = format!("{prefix}{part}");
        taken.insert(name.clone()).then_some(name)
    };
    tools.iter().map(name).collect()
}

fn clean(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}

/// Cuts a clean name and ends it with a hash of the name as it is.
fn shorten(clean: &str, name: &str, room: usize) -> String {
    let hash = hash(name);
    let kept = clean.len().min(room - hash.len());
    format!("{}{hash}", &clean[..kept])
}

fn hash(name: &str) -> String {
    format!("_{:.8x}", Sha256::digest(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(server: &str, tools: &[&str]) -> Vec<Option<String>> {
        tool_names(server, tools.iter().copied())
    }

    fn is_valid(name: &str) -> bool {
        name.len() <= MAX_TOOL_NAME
            && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-')
    }

    #[test]
    fn ordinary_names_are_kept() {
        assert_eq!(names("git", &["log"]), [Some("mcp__git__log".to_owned())]);
        assert_eq!(names("git", &["repo.log"]), [Some("mcp__git__repo_log".to_owned())]);
    }

    #[test]
    fn every_name_is_valid_and_unique() {
        let long = "x".repeat(300);
        let tools =
            ["a b", "a_b", "a/b", "", "日本", "語学", &long, "\u{1b}[31m", "a\nb", "__", "-"];
        for server in ["s", "claude.ai Slack", "a__b", &"s".repeat(100), "", "日本"] {
            let names: Vec<String> = names(server, &tools).into_iter().flatten().collect();
            assert_eq!(names.len(), tools.len(), "{server}");
            assert!(names.iter().all(|it| is_valid(it)), "{names:?}");
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), tools.len(), "{names:?}");
        }
    }

    #[test]
    fn names_do_not_depend_on_the_order_of_tools() {
        let (there, back) = (names("s", &["a b", "a_b", "c"]), names("s", &["c", "a_b", "a b"]));
        assert_eq!(there.iter().rev().cloned().collect::<Vec<_>>(), back);
        assert_eq!(there[1].as_deref(), Some("mcp__s__a_b"));
    }

    #[test]
    fn the_second_tool_of_the_same_name_has_no_name() {
        assert_eq!(names("s", &["a", "a"]), [Some("mcp__s__a".to_owned()), None]);
    }

    #[test]
    fn the_name_of_a_tool_belongs_to_one_server() {
        let long = format!("{}_{}", "s".repeat(MAX_SERVER_NAME - 10), "t".repeat(20));
        let servers = [
            "a b", "a_b", "a.b", "a__b", "a___b", "a", "a_", "a__", "a!_", "_a", "_", "!", "",
            "日本", &long,
        ];
        let parts: BTreeSet<String> = servers.into_iter().map(server_part).collect();
        assert_eq!(parts.len(), servers.len(), "{parts:?}");
        for (server, part) in servers.iter().map(|it| (it, server_part(it))) {
            for name in names(server, &["x", "_x", "_b__x", "__", ""]).into_iter().flatten() {
                let rest = name.strip_prefix("mcp__").unwrap();
                assert_eq!(rest.split_once("__").unwrap().0, part, "{server}: {name}");
            }
        }
    }
}
