//! Names of tools: native ones, and those of other programs.

/// What a tool does, as far as rules can tell by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolKind {
    /// Runs a command.
    Command,
    /// Reads files.
    Read,
    /// Writes files.
    Write,
    /// Requests a URL.
    Web,
    /// Opens a connection. This name is used for requests of the sandbox.
    Network,
    /// Starts an agent.
    Agent,
    /// Loads a skill.
    Skill,
    /// A tool of an MCP server.
    Mcp,
    /// Has no effect outside of the conversation.
    Harmless,
    /// Any other tool.
    Other,
}

impl ToolKind {
    /// Returns what a tool of this name does.
    ///
    /// ```
    /// use loopwright_permissions::ToolKind;
    ///
    /// assert_eq!(ToolKind::of("edit_file"), ToolKind::Write);
    /// assert_eq!(ToolKind::of("Edit"), ToolKind::Write);
    /// assert_eq!(ToolKind::of("set_version"), ToolKind::Other);
    /// ```
    pub fn of(tool: &str) -> Self {
        find(tool).kind
    }
}

/// Our name of each known tool, what it does, and its other names: first the one for which hooks of other programs look.
const TOOLS: &[(&str, ToolKind, &[&str])] = &[
    ("bash", ToolKind::Command, &["Bash", "Shell", "run_shell_command"]),
    ("bash_start", ToolKind::Command, &[]),
    ("bash_read", ToolKind::Harmless, &["BashOutput", "TaskOutput"]),
    ("bash_stop", ToolKind::Harmless, &["KillShell", "KillBash", "TaskStop"]),
    ("read_file", ToolKind::Read, &["Read", "NotebookRead"]),
    ("grep", ToolKind::Read, &["Grep"]),
    ("search_files", ToolKind::Read, &["Glob"]),
    ("list_dir", ToolKind::Read, &["LS"]),
    ("edit_file", ToolKind::Write, &["Edit"]),
    ("write_file", ToolKind::Write, &["Write"]),
    ("multi_edit", ToolKind::Write, &["MultiEdit"]),
    ("notebook_edit", ToolKind::Write, &["NotebookEdit"]),
    ("web_fetch", ToolKind::Web, &["WebFetch"]),
    ("web_search", ToolKind::Other, &["WebSearch"]),
    ("network", ToolKind::Network, &["Network"]),
    ("spawn_subagent", ToolKind::Agent, &["Task", "Agent"]),
    ("research_subagent", ToolKind::Agent, &[]),
    ("subagent_read", ToolKind::Harmless, &[]),
    ("subagent_stop", ToolKind::Harmless, &[]),
    ("load_skill", ToolKind::Skill, &["Skill", "SlashCommand"]),
    ("todo_write", ToolKind::Harmless, &["TodoWrite"]),
    ("store_metadata", ToolKind::Harmless, &[]),
    ("read_metadata", ToolKind::Harmless, &[]),
    ("list_metadata", ToolKind::Harmless, &[]),
    ("tools", ToolKind::Harmless, &[]),
    ("mcp_search", ToolKind::Harmless, &[]),
    ("plan_with_subagent", ToolKind::Harmless, &[]),
    ("execution_retrospective", ToolKind::Harmless, &[]),
    ("self_critic", ToolKind::Harmless, &[]),
    ("llm_query", ToolKind::Harmless, &[]),
    ("ask_user", ToolKind::Harmless, &["AskUserQuestion"]),
    ("ExitPlanMode", ToolKind::Harmless, &[]),
    ("EnterPlanMode", ToolKind::Harmless, &[]),
];

/// A tool by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToolName<'a> {
    /// Our name, or the name as it is for a tool that is not known.
    pub(crate) name: &'a str,
    pub(crate) kind: ToolKind,
}

/// Finds a tool. Known names are compared without case, since no two of them differ by it.
pub(crate) fn find(name: &str) -> ToolName<'_> {
    let is_name = |known: &&str| known.eq_ignore_ascii_case(name);
    let row = TOOLS.iter().find(|(ours, _, others)| is_name(ours) || others.iter().any(is_name));
    match row {
        Some((name, kind, _)) => ToolName { name, kind: *kind },
        None if name.starts_with("mcp__") => ToolName { name, kind: ToolKind::Mcp },
        None => ToolName { name, kind: ToolKind::Other },
    }
}

/// Returns the name that other programs have for a tool, or its own. Hooks that were written for them look for it.
///
/// ```
/// use loopwright_permissions::foreign_name;
///
/// assert_eq!(foreign_name("edit_file"), "Edit");
/// assert_eq!(foreign_name("set_version"), "set_version");
/// ```
pub fn foreign_name(tool: &str) -> &str {
    let row = TOOLS.iter().find(|(ours, _, _)| *ours == tool);
    let name = row.and_then(|(_, kind, others)| others.first().copied().or(stand_in(*kind)));
    name.unwrap_or(tool)
}

/// Returns the name for a tool that other programs do not have. Hooks that guard commands, files or agents see it by this name.
fn stand_in(kind: ToolKind) -> Option<&'static str> {
    match kind {
        ToolKind::Command => Some("Bash"),
        ToolKind::Write => Some("Edit"),
        ToolKind::Agent => Some("Task"),
        _ => None,
    }
}

/// Returns our tools that a name of another program stands for, the closest one first.
pub(crate) fn native(name: &str) -> Vec<&'static str> {
    let rule = find(name);
    let is_ours = |name: &str| !name.starts_with(|c: char| c.is_ascii_uppercase());
    let covered = TOOLS.iter().map(|(ours, _, _)| *ours);
    let mut covered: Vec<_> =
        covered.filter(|ours| is_ours(ours) && covers(rule, find(ours))).collect();
    covered.sort_by_key(|ours| *ours != rule.name);
    covered
}

/// Returns `true` if the name is one of a known tool, or can be one of an MCP server.
pub(crate) fn is_known(name: &str) -> bool {
    name.starts_with("mcp__") || find(name).kind != ToolKind::Other || find(name).name != name
}

/// Returns `true` if a rule with a tool's name and no specifier covers a tool. `Read` and `Edit` stand for all tools
/// that read and write files, and `Bash` for all that have to do with commands.
pub(crate) fn covers(rule: ToolName<'_>, tool: ToolName<'_>) -> bool {
    match rule.name {
        "bash" => tool.name.starts_with("bash") && tool.kind != ToolKind::Other,
        "read_file" => tool.kind == ToolKind::Read,
        "edit_file" => tool.kind == ToolKind::Write,
        "spawn_subagent" => tool.kind == ToolKind::Agent,
        name => name == tool.name,
    }
}

/// Returns the names that a misspelt name could mean.
pub(crate) fn similar(name: &str) -> Option<&'static str> {
    let others = TOOLS.iter().flat_map(|(_, _, others)| others.iter());
    let mut names = others.chain(TOOLS.iter().map(|(ours, _, _)| ours)).copied();
    names.find(|known| is_similar(known, name))
}

/// Returns `true` if a name could be a misspelt form of another one.
pub(crate) fn is_similar(one: &str, other: &str) -> bool {
    let key = |text: &str| text.to_ascii_lowercase().replace(['_', '-', ' '], "");
    let (one, other) = (key(one), key(other));
    one == other || distance_is_small(&one, &other)
}

/// Returns `true` if one character more, less or other makes one text of the other, or two that are exchanged.
fn distance_is_small(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() < 4 || one.len().abs_diff(other.len()) > 1 {
        return false;
    }
    let sorted = |text: &[u8]| {
        let mut bytes = text.to_vec();
        bytes.sort_unstable();
        bytes
    };
    if sorted(one) == sorted(other) {
        return true;
    }
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let tail = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    same + tail + 1 >= one.len().max(other.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_see_every_tool_that_runs_writes_or_starts_something() {
        for kind in [ToolKind::Command, ToolKind::Write, ToolKind::Agent] {
            let name = stand_in(kind).unwrap();
            assert_eq!(ToolKind::of(name), kind, "{name}");
        }
        let guarded = TOOLS.iter().filter(|(_, kind, _)| stand_in(*kind).is_some());
        for (ours, kind, _) in guarded {
            assert_ne!(foreign_name(ours), *ours);
            assert_eq!(ToolKind::of(foreign_name(ours)), *kind, "{ours}");
        }
    }
}
