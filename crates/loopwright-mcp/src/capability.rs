//! The capability for MCP servers.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_capabilities::questions::OnQuestion;
use loopwright_capabilities::tool_registry::OfferActivatedTools;
use loopwright_core::{HookPoint, HookPoints, IntoTool as _, Priority, ToolSet};

use crate::client::McpClient;
use crate::search::SearchTool;
use crate::source::{MAX_SHOWN, McpToolSource};

/// Adds the tools of servers of the Model Context Protocol.
///
/// No run waits for a server. The model finds the tools of servers with many tools, and of servers
/// that are not started yet, with the tool `mcp_search`; the found tools follow those that requests
/// already contain.
///
/// ```
/// use loopwright_mcp::{McpClient, McpHost, McpServer, StdioServer, UseMcp};
///
/// let server = McpServer::stdio("git", StdioServer::new("mcp-server-git"));
/// let client = McpClient::new(server, McpHost::in_dir("."));
/// let capability = UseMcp::new([client]);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseMcp {
    sources: Vec<McpToolSource>,
}

impl UseMcp {
    /// Adds the tools of these servers.
    pub fn new(clients: impl IntoIterator<Item = McpClient>) -> Self {
        Self { sources: clients.into_iter().map(McpToolSource::new).collect() }
    }

    /// Sets what happens to a call whose server asks the user a question; by default, the call waits.
    pub fn with_on_question(mut self, on_question: OnQuestion) -> Self {
        let sources = self.sources.into_iter();
        self.sources = sources.map(|it| it.with_on_question(on_question)).collect();
        self
    }
}

impl Capability for UseMcp {
    fn name(&self) -> Cow<'static, str> {
        "use_mcp".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        if self.sources.is_empty() {
            return Ok(());
        }
        // Many servers with a few tools each are many tools too.
        let shown: usize = self.sources.iter().map(McpToolSource::shown).sum();
        let defer_all = shown > MAX_SHOWN;
        for source in &self.sources {
            agent.sources.add(Arc::new(source.clone().deferring(defer_all)));
        }
        let is_hidden =
            |source: &McpToolSource| !source.is_known() || source.is_deferred(defer_all);
        if self.sources.iter().any(is_hidden) {
            let clients = self.sources.iter().map(|it| it.client().clone()).collect();
            agent.tools.merge(&ToolSet::new().with(SearchTool::new(clients).into_tool()));
            let points =
                HookPoints::from_points([HookPoint::BeforeExecution, HookPoint::BeforeInference]);
            let hook = Arc::new(OfferActivatedTools::default());
            agent.hooks.register("mcp_search".into(), Priority::CONTEXT, points, hook);
        }
        Ok(())
    }
}
