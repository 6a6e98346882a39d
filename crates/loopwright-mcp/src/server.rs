//! Tools of an agent as a server of the protocol.

mod ask;
mod calls;
mod changes;
mod client_requests;
mod content;
mod driver;
mod handler;
#[cfg(feature = "http-server")]
mod http;
mod notes;
mod result;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use loopwright_agent::AgentLoopExt as _;
use loopwright_core::{AgentLoop, ToolSet};
use rmcp::ServiceExt as _;
use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "http-server")]
pub use self::http::HttpToolServer;
use self::{calls::Calls, driver::IdleDriver, handler::Handler};
pub use self::{
    changes::ServerChanges,
    client_requests::{ClientReplies, ClientRequests},
    content::{
        Completion, PromptCall, PromptReply, ResourceBody, ResourceData, ServedArgument,
        ServedContent, ServedPrompt, ServedResource, ServedTemplate,
    },
};

/// How long a running tool has to come to an end once its call is cancelled.
const GRACE: Duration = Duration::from_secs(5);

/// Tools that any client of the Model Context Protocol can call.
///
/// ```no_run
/// use loopwright_core::{BoxError, NoArgs, ToolSet, tool_fn};
/// use loopwright_mcp::ToolServer;
///
/// # async fn serve() -> Result<(), BoxError> {
/// let dice = tool_fn("roll_dice", "Rolls a die.", |_: NoArgs| async { Ok::<_, BoxError>(4) });
/// ToolServer::new(ToolSet::new().with(dice)).serve_stdio().await?;
/// # Ok(())
/// # }
/// ```
///
/// Each call is a run of its own: the hooks of the agent see it, and a cancelled call ends. [`McpProgress`](crate::McpProgress)
/// and [`McpToolLog`](crate::McpToolLog), emitted as events, reach the client. Questions of hooks and tools go to the client's
/// user, if the client supports this; otherwise, the call is refused. Tools can [ask](ClientRequests) clients for more.
#[derive(Clone)]
pub struct ToolServer {
    agent: AgentLoop,
    name: String,
    version: String,
    instructions: Option<String>,
    content: Option<Arc<dyn ServedContent>>,
    changes: Option<ServerChanges>,
}

/// An error that ended a server.
#[derive(Debug, thiserror::Error)]
#[error("the MCP connection failed: {0}")]
pub struct ServeError(String);

impl ToolServer {
    /// Creates a server with these tools.
    #[must_use]
    pub fn new(tools: ToolSet) -> Self {
        Self::from_agent(&AgentLoop::from_driver(Arc::new(IdleDriver)).with_tools(tools))
    }

    /// Creates a server with the tools of an agent. Its hooks apply to the calls of clients:
    /// permission rules, guards and listeners. Its model is not called.
    #[must_use]
    pub fn from_agent(agent: &AgentLoop) -> Self {
        Self {
            agent: agent.clone(),
            name: "loopwright".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
            content: None,
            changes: None,
        }
    }

    /// Sets the name and the version that clients see.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..self }
    }

    /// Sets the instructions for clients.
    #[must_use]
    pub fn with_instructions(self, instructions: impl Into<String>) -> Self {
        Self { instructions: Some(instructions.into()), ..self }
    }

    /// Also serves resources and prompts.
    #[must_use]
    pub fn with_content(self, content: Arc<dyn ServedContent>) -> Self {
        Self { content: Some(content), ..self }
    }

    /// Notifies clients about changed lists.
    #[must_use]
    pub fn with_changes(self, changes: &ServerChanges) -> Self {
        Self { changes: Some(changes.clone()), ..self }
    }

    /// Serves a client on standard input and output until it closes the connection. Until then,
    /// no other code may write to standard output.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        let (input, output) = rmcp::transport::stdio();
        Box::pin(self.serve(input, output)).await
    }

    /// Serves a client on two streams until it closes the connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails.
    pub async fn serve(
        self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), ServeError> {
        let service = match Handler::new(self, Arc::new(Calls::new())).serve((input, output)).await
        {
            Ok(service) => service,
            // A client that leaves before it says anything has done nothing wrong.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(ServeError(error.to_string())),
        };
        let ended = service.waiting().await;
        ended.map(drop).map_err(|error| ServeError(error.to_string()))
    }
}

impl std::fmt::Debug for ToolServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolServer")
            .field("name", &self.name)
            .field("tools", &self.agent.tools().names())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
