//! The description of an agent, for people, programs and the agent itself.

use std::{fmt, sync::Arc};

use loopwright_core::{AgentLoop, AnyTool, HookPoint, ToolVisibility};
use serde::Serialize;
use serde_json::{Map, Value};

/// The composition of an agent. It contains no secrets: only the names and limits of the model, and
/// only the points, priorities and names of hooks.
///
/// ```
/// use loopwright_agent::{AgentBuilder, DescribeAgent as _, UseGuards, UseIdentity};
/// # use loopwright_agent::UseDriver;
/// # use loopwright_testing::FakeDriver;
///
/// let agent = AgentBuilder::base()
///     .with(UseIdentity::new("librarian", "Finds books."))
///     .with(UseGuards::default())
/// #   .with(UseDriver::new(FakeDriver::default()))
///     .build()?;
/// let profile = agent.describe();
/// assert_eq!(&*profile.name, "librarian");
/// assert_eq!(profile.hooks[0].name, "guard:steps_limit");
/// # Ok::<_, loopwright_agent::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AgentProfile {
    /// The name; `anonymous` if unset.
    pub name: Arc<str>,
    /// The description of when to use the agent; empty if unset.
    pub description: Arc<str>,
    /// The driver.
    pub driver: &'static str,
    /// The default model, as far as it is known.
    pub llm: LlmInfo,
    /// The names of its capabilities, in the order in which they were added.
    pub capabilities: Vec<Arc<str>>,
    /// The tools that it can call.
    pub tools: Vec<ToolInfo>,
    /// Its hooks, one entry for each point, in the order of points and then of calls.
    pub hooks: Vec<HookInfo>,
    /// The annotations of capabilities, such as `selfKnowledge`.
    pub notes: Map<String, Value>,
}

/// The public data of a model. API keys, base URLs, headers and provider-specific fields are left
/// out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LlmInfo {
    /// The provider's name.
    pub provider: Option<Arc<str>>,
    /// The model's name.
    pub model: Option<Arc<str>>,
    /// The maximum number of output tokens.
    pub max_output_tokens: Option<u64>,
}

/// A tool in a description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolInfo {
    /// The name.
    pub name: Arc<str>,
    /// The description, written for the model.
    pub description: Arc<str>,
    /// The description in one line.
    pub summary: String,
    /// Its group, if it has one.
    pub namespace: Option<String>,
    /// Whether models see it from the start.
    pub visibility: ToolVisibility,
}

/// A hook at one of its points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HookInfo {
    /// The point, as events name it.
    pub point: &'static str,
    /// The priority: higher runs earlier.
    pub priority: i16,
    /// The name.
    pub name: String,
}

/// Describes the composition of an agent.
pub trait DescribeAgent {
    /// Returns the description of the agent as it is now. A copy with other tools describes those.
    fn describe(&self) -> AgentProfile;
}

impl DescribeAgent for AgentLoop {
    fn describe(&self) -> AgentProfile {
        let (profile, llm) = (self.profile(), self.driver().llm());
        let name = if profile.name.is_empty() { "anonymous" } else { &profile.name };
        AgentProfile {
            name: name.into(),
            description: Arc::clone(&profile.description),
            driver: self.driver().name(),
            llm: LlmInfo {
                provider: llm.provider,
                model: llm.model,
                max_output_tokens: llm.options.max_output_tokens,
            },
            capabilities: profile.capabilities.clone(),
            tools: self.tools().iter().map(ToolInfo::of).collect(),
            hooks: HookPoint::ALL.iter().flat_map(|point| hooks_at(self, *point)).collect(),
            notes: profile.annotations(self).map(|(name, note)| (name.to_owned(), note)).collect(),
        }
    }
}

fn hooks_at(agent: &AgentLoop, point: HookPoint) -> impl Iterator<Item = HookInfo> {
    let there = agent.interceptor().hooks().iter().filter(move |it| it.points().contains(point));
    there.map(move |it| HookInfo {
        point: point.as_str(),
        priority: it.priority().0,
        name: it.name().to_owned(),
    })
}

impl ToolInfo {
    fn of(tool: &AnyTool) -> Self {
        let descriptor = tool.descriptor();
        Self {
            name: Arc::clone(tool.name()),
            description: descriptor.description().into(),
            summary: descriptor.summary(),
            namespace: descriptor.namespace().map(str::to_owned),
            visibility: tool.options().visibility,
        }
    }
}

impl AgentProfile {
    /// Returns the description as Markdown.
    pub fn to_markdown(&self) -> String {
        let head = format!("# {}\n", self.name);
        let about = match &*self.description {
            "" => String::new(),
            description => format!("\n{description}\n"),
        };
        let mut text = head + &about;
        text +=
            &["\n- driver: `", self.driver, "`\n- model: ", &self.llm.to_string(), "\n"].concat();
        let capabilities = self.capabilities.iter().map(|it| format!("`{it}`"));
        text += &section("Capabilities", capabilities);
        let tools = self.tools.iter().map(|it| format!("`{}`: {}", it.name, it.summary));
        text += &section("Tools", tools);
        let hooks =
            self.hooks.iter().map(|it| format!("`{}`: `{}` at {}", it.point, it.name, it.priority));
        text += &section("Hooks", hooks);
        text + &section("Notes", self.notes.iter().map(|(name, it)| format!("`{name}`: {it}")))
    }
}

fn section(title: &str, lines: impl Iterator<Item = String>) -> String {
    let lines = lines.map(|line| ["- ", &line, "\n"].concat()).collect::<Vec<_>>().concat();
    if lines.is_empty() { lines } else { format!("\n## {title}\n\n{lines}") }
}

impl fmt::Display for LlmInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.provider, &self.model) {
            (Some(provider), Some(model)) => write!(f, "{provider}/{model}"),
            (Some(provider), None) => write!(f, "{provider}/"),
            (None, Some(model)) => f.write_str(model),
            (None, None) => f.write_str("(unknown)"),
        }
    }
}

/// Writes a few lines of plain text.
impl fmt::Display for AgentProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |names: Vec<&str>| {
            if names.is_empty() { "(none)".to_owned() } else { names.join(", ") }
        };
        writeln!(f, "name: {}", self.name)?;
        if !self.description.is_empty() {
            writeln!(f, "description: {}", self.description)?;
        }
        writeln!(f, "driver: {}", self.driver)?;
        writeln!(f, "model: {}", self.llm)?;
        writeln!(
            f,
            "capabilities: {}",
            joined(self.capabilities.iter().map(|it| &**it).collect())
        )?;
        writeln!(f, "tools: {}", joined(self.tools.iter().map(|it| &*it.name).collect()))?;
        write!(f, "hooks: {}", self.hooks.len())
    }
}
