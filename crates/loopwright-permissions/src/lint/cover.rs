//! Whether a rule matches all that another one matches.

use crate::call::Access;
use crate::matcher::{Matcher, simple_glob};
use crate::tools;

/// Returns `true` if the first matcher matches every call that the second one matches. `false` if that is not plain.
pub(super) fn covers(one: &Matcher, other: &Matcher) -> bool {
    match (one, other) {
        (Matcher::Never, _) | (_, Matcher::Never) => false,
        (Matcher::Every, _) => true,
        (Matcher::Tool(tool), other) => tool_covers(tool, other),
        (Matcher::Mcp { server, tool }, Matcher::Mcp { server: of, tool: other }) => {
            let is_name = |pattern: &str, name: &str| {
                pattern == "*"
                    || pattern == name
                    || !name.contains('*') && simple_glob(pattern, name)
            };
            is_name(server, of) && is_name(tool, other)
        }
        (Matcher::Command(one), Matcher::Command(other)) => one.covers(other),
        (
            Matcher::Path { access, only, pattern },
            Matcher::Path { access: of, only: other_only, pattern: other },
        ) => access == of && (only.is_none() || only == other_only) && pattern.covers(other),
        (
            Matcher::Domain { is_network, pattern },
            Matcher::Domain { is_network: other_network, pattern: other },
        ) => is_network == other_network && pattern.covers(other),
        (Matcher::Agent(one), Matcher::Agent(other))
        | (Matcher::Skill(one), Matcher::Skill(other)) => one.covers(other),
        _ => false,
    }
}

fn tool_covers(tool: &str, other: &Matcher) -> bool {
    let tool = tools::find(tool);
    let covers = |name: &str| tools::covers(tool, tools::find(name));
    match other {
        // `Read` is more than the tool of that name, so it is covered only by itself.
        Matcher::Tool(name) => {
            tool.name == name
                || covers(name)
                    && !matches!(
                        name.as_str(),
                        "bash" | "read_file" | "edit_file" | "spawn_subagent"
                    )
        }
        Matcher::Command(_) => tool.name == "bash",
        Matcher::Path { only: Some(only), .. } => covers(only),
        Matcher::Path { access: Access::Read, .. } => tool.name == "read_file",
        Matcher::Path { access: Access::Write, .. } => tool.name == "edit_file",
        Matcher::Domain { is_network, .. } => {
            tool.name == if *is_network { "network" } else { "web_fetch" }
        }
        Matcher::Agent(_) => tool.name == "spawn_subagent",
        Matcher::Skill(_) => tool.name == "load_skill",
        _ => false,
    }
}
