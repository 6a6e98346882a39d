//! The state of the Model Context Protocol in a server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use loopwright_core::Timestamp;
use loopwright_mcp::{HttpToolServer, ServedContent};

use crate::{agents::AgentInfo, principal::Role};

/// Servers by the name and the role of their principal.
type PrincipalServers = BTreeMap<(Arc<str>, Role), PrincipalServer>;

/// The servers of the principals, each of which has only what belongs to its principal.
#[derive(Clone, Default)]
pub(crate) struct McpMount {
    pub(crate) prompts: Option<Arc<dyn ServedContent>>,
    servers: Arc<Mutex<PrincipalServers>>,
}

/// The server of a principal, with the agents that it offers.
pub(crate) struct PrincipalServer {
    pub(crate) server: HttpToolServer,
    pub(crate) agents: Vec<AgentInfo>,
    pub(crate) listed_at: Timestamp,
}

impl McpMount {
    pub(crate) fn new(prompts: Option<Arc<dyn ServedContent>>) -> Self {
        Self { prompts, ..Self::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, PrincipalServers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
