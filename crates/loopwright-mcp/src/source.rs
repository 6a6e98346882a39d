//! A server as a source of tools.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;
use loopwright_core::{BoxError, ToolListing, ToolSet, ToolSource, ToolVisibility};

use crate::client::McpClient;
use crate::tool;

/// The tools of a server for agents. No run waits for the server.
#[derive(Clone, Debug)]
#[must_use]
pub struct McpToolSource {
    client: McpClient,
    announced: Arc<AtomicU64>,
}

/// Tools of one server that every request shows.
const MAX_SHOWN: usize = 40;

impl McpToolSource {
    /// Creates the source of a server.
    pub fn new(client: McpClient) -> Self {
        Self { client, announced: Arc::default() }
    }

    /// Returns the client.
    pub fn client(&self) -> &McpClient {
        &self.client
    }
}

#[async_trait]
impl ToolSource for McpToolSource {
    fn name(&self) -> &str {
        &self.client.server().name
    }

    fn version(&self) -> u64 {
        self.client.version()
    }

    async fn tools(&self) -> Result<ToolListing, BoxError> {
        // The version from before: a change meanwhile lists the tools once more.
        let (version, listing) = loop {
            self.client.tools().await?;
            let version = self.client.version();
            let listing = self.client.tools().await?;
            if self.client.version() == version {
                break (version, listing);
            }
        };
        let server = self.client.server();
        let defer = server.defer.unwrap_or(listing.tools.len() > MAX_SHOWN);
        let visibility = if defer { ToolVisibility::Deferred } else { ToolVisibility::Always };
        let tools: ToolSet = listing
            .named(server)
            .map(|(name, listed)| {
                tool::tool(&self.client, name, listed, visibility, &self.announced)
            })
            .collect();
        Ok(ToolListing::new(version, tools))
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.client.close().await;
        Ok(())
    }
}
