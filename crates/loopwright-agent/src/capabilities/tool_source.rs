//! Tools that can change while an agent works.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_core::{
    AnyTool, BoxError, ToolListing, ToolOptions, ToolSet, ToolSource, ToolVisibility,
};

use crate::capabilities::capability;

/// Adds the tools of a source, which can change while the agent works.
///
/// The agent's own tools come first in requests and take precedence over tools of the same name.
/// See [`ToolSource`] for changes of the tools, and
/// [`AgentLoop::close`](loopwright_core::AgentLoop::close) for the end of the agent. A sub-agent
/// has the tools that the source has listed when the sub-agent starts.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_agent::UseToolSource;
/// use loopwright_core::ToolSet;
/// use loopwright_testing::{MockTool, ScriptedToolSource};
///
/// let tools = ToolSet::new().with(MockTool::returning("search", "Searches issues.", "[]"));
/// let issues = UseToolSource::new(ScriptedToolSource::new("issues", tools))
///     .with_prefix("issues_")
///     .with_wait(Duration::from_secs(2));
/// ```
#[derive(Clone)]
#[must_use]
pub struct UseToolSource {
    source: Arc<dyn ToolSource>,
    wait: Duration,
    prefix: Option<Arc<str>>,
    visibility: Option<ToolVisibility>,
}

impl UseToolSource {
    /// Adds a source that no step waits for.
    pub fn new(source: impl ToolSource + 'static) -> Self {
        Self::from_arc(Arc::new(source))
    }

    /// Adds a source that is shared with other owners.
    pub fn from_arc(source: Arc<dyn ToolSource>) -> Self {
        Self { source, wait: Duration::ZERO, prefix: None, visibility: None }
    }

    /// Lets a step wait for the tools of the source, at most for `wait` after the run has requested
    /// them. The first step then has the tools of a source that responds in time. Waiting needs a timer,
    /// which the system clock has only under Tokio; a source that responds at once needs none.
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Adds `prefix` before the name of each tool, so that two sources with equal names can be
    /// used.
    pub fn with_prefix(mut self, prefix: impl Into<Arc<str>>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Keeps the tools out of requests until the model asks for them with the tool `tools` of
    /// `UseToolRegistry`. Tools that arrive late then do not change the prefix of requests. Without
    /// `UseToolRegistry`, the tools are in every request.
    pub fn deferred(mut self) -> Self {
        self.visibility = Some(ToolVisibility::Deferred);
        self
    }
}

capability!(UseToolSource, "use_tool_source", |it, agent| {
    agent.sources.add_with_wait(Arc::new(it.clone()), it.wait);
});

/// The source, with the changes of the capability.
#[async_trait]
impl ToolSource for UseToolSource {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn version(&self) -> u64 {
        self.source.version()
    }

    async fn tools(&self) -> Result<ToolListing, BoxError> {
        let mut listing = self.source.tools().await?;
        if self.prefix.is_some() || self.visibility.is_some() {
            let changed: ToolSet = listing.tools.iter().map(|tool| self.adapt(tool)).collect();
            listing.tools = changed;
        }
        Ok(listing)
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.source.close().await
    }
}

impl UseToolSource {
    fn adapt(&self, tool: &AnyTool) -> AnyTool {
        let tool = match &self.prefix {
            Some(prefix) => tool.with_name(format!("{prefix}{}", tool.name())),
            None => tool.clone(),
        };
        match self.visibility {
            Some(visibility) => {
                tool.with_options(ToolOptions { visibility, ..tool.options().clone() })
            }
            None => tool,
        }
    }
}

impl fmt::Debug for UseToolSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UseToolSource")
            .field("source", &self.source.name())
            .field("wait", &self.wait)
            .field("prefix", &self.prefix)
            .field("visibility", &self.visibility)
            .finish()
    }
}
