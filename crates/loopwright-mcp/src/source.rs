//! A server as a source of tools.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;
use loopwright_capabilities::questions::OnQuestion;
use loopwright_core::{BoxError, ToolListing, ToolSet, ToolSource, ToolVisibility};

use crate::client::McpClient;
use crate::resource_tool;
use crate::tool;
use crate::tools::ToolOwner;

/// The tools of a server for agents. No run waits for the server.
#[derive(Clone, Debug)]
#[must_use]
pub struct McpToolSource {
    client: McpClient,
    announced: Arc<AtomicU64>,
    /// Whether the tools are found by a search, whatever their number is.
    defer_all: bool,
    on_question: OnQuestion,
}

/// Tools that every request shows. Of more, none is shown.
pub(crate) const MAX_SHOWN: usize = 40;

impl McpToolSource {
    /// Creates the source of a server.
    pub fn new(client: McpClient) -> Self {
        let (announced, on_question) = (Arc::default(), OnQuestion::default());
        Self { client, announced, defer_all: false, on_question }
    }

    /// Sets what happens to a call whose server asks the user a question; by default, the call waits.
    pub fn with_on_question(mut self, on_question: OnQuestion) -> Self {
        self.on_question = on_question;
        self
    }

    /// Lets the tools be found by a search, whatever their number is, unless the configuration says otherwise.
    pub(crate) fn deferring(mut self, defer_all: bool) -> Self {
        self.defer_all = defer_all;
        self
    }

    /// Returns `true` if the tools are known.
    pub(crate) fn is_known(&self) -> bool {
        self.client.status().listing.is_some()
    }

    /// Returns `true` if requests leave the tools out until they are found.
    pub(crate) fn is_deferred(&self, defer_all: bool) -> bool {
        self.client.server().defer.unwrap_or(defer_all || self.count() > MAX_SHOWN)
    }

    /// Returns the number of tools that every request would show.
    pub(crate) fn shown(&self) -> usize {
        if self.is_deferred(false) { 0 } else { self.count() }
    }

    fn count(&self) -> usize {
        self.client.status().listing.map_or(0, |listing| listing.count())
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
        let defer = self.is_deferred(self.defer_all);
        let visibility = if defer { ToolVisibility::Deferred } else { ToolVisibility::Always };
        let tools: ToolSet = listing
            .named(server)
            .map(|(name, listed, owner)| match owner {
                ToolOwner::Server => {
                    let announced = &self.announced;
                    tool::tool(&self.client, name, listed, visibility, self.on_question, announced)
                }
                ToolOwner::Client => resource_tool::tool(&self.client, name, listed, visibility),
            })
            .collect();
        Ok(ToolListing::new(version, tools))
    }

    async fn close(&self) -> Result<(), BoxError> {
        self.client.close().await;
        Ok(())
    }
}
