//! Rules, compiled.

use std::sync::Arc;

use crate::call::Access;
use crate::command::CommandPattern;
use crate::decision::Decision;
use crate::domain::DomainPattern;
use crate::path::{Bases, PathPattern};
use crate::rule::{Parsed, Rule, is_of_a_name};
use crate::tools::{self, ToolKind, ToolName};

/// A rule that can be held against calls.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) rule: Arc<Rule>,
    pub(crate) matcher: Matcher,
    /// Why the rule is not what it seems to be.
    pub(crate) problem: Option<Trouble>,
}

/// Why a rule is not what it seems to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The text is not a rule, or its specifier is invalid.
    Malformed(String),
    /// The rule is well-formed and can never match.
    Dead(String),
    /// The tool takes no specifier.
    Unsupported,
}

/// What a rule matches.
#[derive(Clone, Debug)]
pub(crate) enum Matcher {
    /// Every call.
    Every,
    /// Every call of a tool.
    Tool(String),
    /// Every call of the tools of an MCP server whose names match.
    Mcp { server: String, tool: String },
    /// Commands.
    Command(CommandPattern),
    /// Files that are read or written: by any tool, or only by the one with this name.
    Path { access: Access, only: Option<String>, pattern: PathPattern },
    /// Hosts: of any call, or only of tools that request URLs.
    Domain { is_network: bool, pattern: DomainPattern },
    /// Agents of a type.
    Agent(NamePattern),
    /// Skills of a name.
    Skill(NamePattern),
    /// Nothing.
    Never,
}

/// A name, or the beginning of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamePattern {
    start: String,
    has_more: bool,
}

impl NamePattern {
    fn new(text: &str) -> Self {
        let start = text.strip_suffix(":*").or_else(|| text.strip_suffix('*'));
        let start = start.map_or(text, str::trim_end);
        Self { start: start.to_owned(), has_more: start.len() != text.len() }
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        if self.has_more { name.starts_with(&self.start) } else { name == self.start }
    }

    /// Returns the name, or how the names begin.
    pub(crate) fn text(&self) -> &str {
        &self.start
    }

    /// Returns `true` if names may go on.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        self == other || self.has_more && other.start.starts_with(&self.start)
    }
}

/// What a rule's specifier is to be read as.
pub(crate) fn compile(parsed: Parsed<'_>, bases: Bases<'_>) -> (Matcher, Option<Trouble>) {
    let tool = tools::find(parsed.tool);
    if parsed.tool == "*" {
        return (Matcher::Every, parsed.specifier.map(|_| Trouble::Unsupported));
    }
    if let Some(name) = parsed.tool.strip_prefix("mcp__") {
        return mcp(name, parsed.specifier);
    }
    let Some(specifier) = parsed.specifier else {
        return (Matcher::Tool(tool.name.to_owned()), None);
    };
    let malformed = |message: String| (Matcher::Never, Some(Trouble::Malformed(message)));
    match tool.kind {
        ToolKind::Command => match CommandPattern::new(specifier) {
            Ok(pattern) => (Matcher::Command(pattern), None),
            Err(error) => (Matcher::Never, Some(Trouble::Dead(error.to_string()))),
        },
        ToolKind::Write if tool.name != "edit_file" => {
            let name = parsed.tool;
            let message = format!(
                "`{name}(path)` never matches; write `Edit({specifier})`, which covers all tools that write"
            );
            (Matcher::Never, Some(Trouble::Dead(message)))
        }
        ToolKind::Read | ToolKind::Write => {
            let access = if tool.kind == ToolKind::Read { Access::Read } else { Access::Write };
            let is_all = matches!(tool.name, "read_file" | "edit_file");
            let only = (!is_all).then(|| tool.name.to_owned());
            match PathPattern::new(specifier, bases) {
                Ok(pattern) => (Matcher::Path { access, only, pattern }, None),
                Err(error) => malformed(error.to_string()),
            }
        }
        ToolKind::Web | ToolKind::Network => {
            let is_network = tool.kind == ToolKind::Network;
            let domain = specifier.strip_prefix("domain:").map(str::trim);
            let Some(domain) = domain else {
                return malformed(format!("write `{}(domain:HOST)`", parsed.tool));
            };
            match DomainPattern::new(domain) {
                Some(pattern) => (Matcher::Domain { is_network, pattern }, None),
                None => malformed(format!(
                    "`{domain}` is not a host name; write a name such as `example.com` or \
                        `*.example.com`"
                )),
            }
        }
        ToolKind::Agent => (Matcher::Agent(NamePattern::new(specifier)), None),
        ToolKind::Skill => (Matcher::Skill(NamePattern::new(specifier)), None),
        ToolKind::Mcp | ToolKind::Harmless | ToolKind::Other => {
            (Matcher::Never, Some(Trouble::Unsupported))
        }
    }
}

/// Characters at the start of the name of a server that are in the names of its tools, if they may be there.
const MAX_KEPT: usize = 15;

fn mcp(name: &str, specifier: Option<&str>) -> (Matcher, Option<Trouble>) {
    let (server, tool) = name.split_once("__").unwrap_or((name, "*"));
    if server.is_empty() || tool.is_empty() {
        let message = "write `mcp__SERVER` or `mcp__SERVER__TOOL`".to_owned();
        return (Matcher::Never, Some(Trouble::Malformed(message)));
    }
    let tool = tool.to_owned();
    if server.contains(|c: char| !is_of_a_tool_name(c)) {
        let message = format!(
            "no tool has `{server}` in its name; write the names that `loopwright mcp show` prints"
        );
        return (
            Matcher::Mcp { server: stricter(server), tool },
            Some(Trouble::Malformed(message)),
        );
    }
    let matcher = Matcher::Mcp { server: server.to_owned(), tool };
    (matcher, specifier.map(|_| Trouble::Unsupported))
}

fn is_of_a_tool_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*')
}

/// Returns a pattern that covers the tools of a server of this name, in whose names other characters replace some.
fn stricter(server: &str) -> String {
    let kept = server.chars().take(MAX_KEPT);
    let kept = kept.map(|c| if is_of_a_tool_name(c) { c } else { '*' });
    kept.chain(['*']).collect()
}

impl Compiled {
    /// Compiles a rule. What cannot be understood is read in the stricter way: a deny or ask rule then covers its whole
    /// tool, or everything if the tool cannot be told; an allow rule covers nothing.
    pub(crate) fn new(rule: Arc<Rule>, bases: Bases<'_>) -> Self {
        let is_strict = rule.decision != Decision::Allow;
        let (matcher, problem) = match crate::rule::parse(&rule.text) {
            Ok(parsed) => match compile(parsed, bases) {
                // A rule that is dead in other programs is dead here, too.
                (matcher, problem @ (None | Some(Trouble::Dead(_)))) => (matcher, problem),
                (matcher, problem) => {
                    let strict = match matcher {
                        Matcher::Never => Matcher::Tool(tools::find(parsed.tool).name.to_owned()),
                        matcher => matcher,
                    };
                    (if is_strict { strict } else { Matcher::Never }, problem)
                }
            },
            Err(error) => {
                let whole = |tool| compile(Parsed { tool, specifier: None }, bases).0;
                let strict = match the_tool(&rule.text).map(whole) {
                    None | Some(Matcher::Never) => Matcher::Every,
                    Some(matcher) => matcher,
                };
                let problem = Some(Trouble::Malformed(error.to_string()));
                (if is_strict { strict } else { Matcher::Never }, problem)
            }
        };
        Self { rule, matcher, problem }
    }
}

/// Returns the tool that a text which is no rule is about: it begins with the name, and names no other tool.
fn the_tool(text: &str) -> Option<&str> {
    let text = text.trim();
    let (before, specifier) = text.split_once('(').unwrap_or((text, ""));
    let after = specifier.rsplit_once(')').map_or("", |(_, after)| after);
    let words = |text| <str>::split(text, |c: char| !is_of_a_name(c));
    let first = words(before).next().filter(|name| tools::is_known(name))?;
    let others = words(before).skip(1).chain(words(after));
    let names_others = others.filter(|it| !it.is_empty()).any(tools::is_known);
    (!names_others).then_some(first)
}

impl Matcher {
    /// Returns `true` if the rule is about tools, whatever they are called with.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::Every | Self::Tool(_) | Self::Mcp { .. })
    }

    /// Returns `true` if the rule covers a tool whatever it is called with.
    pub(crate) fn covers_tool(&self, tool: ToolName<'_>, called: &str) -> bool {
        match self {
            Self::Every => true,
            Self::Tool(name) => tools::covers(tools::find(name), tool),
            Self::Mcp { server, tool } => covers_mcp(server, tool, called),
            _ => false,
        }
    }
}

pub(crate) fn covers_mcp(server: &str, tool: &str, called: &str) -> bool {
    let Some((of, name)) = called.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"))
    else {
        return false;
    };
    simple_glob(server, of) && simple_glob(tool, name)
}

/// Matches a text with `*` for any text.
pub(crate) fn simple_glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(found) = rest.find(piece) else { return false };
        rest = &rest[found + piece.len()..];
    }
    true
}
