//! `/v1/agents`.

use axum::{extract::State, http::HeaderMap, response::Response, routing::get};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reply_tagged;
use crate::{
    agents::AgentInfo,
    operation::{IF_NONE_MATCH, Operation, READ, empty, json},
    problem::Problem,
    server::Server,
};

/// The agents that new sessions can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The agents. The first one is the default.
    pub agents: Vec<AgentInfo>,
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation {
        method: "get",
        path: "/v1/agents",
        id: "listAgents",
        summary: "List the agents that new sessions can use",
        security: READ,
        parameters: &[IF_NONE_MATCH],
        body: None,
        responses: const { &[json::<AgentList>(200, "The agents."), empty(304, "No change.")] },
        handler: || get(list),
    }]
}

async fn list(State(server): State<Server>, headers: HeaderMap) -> Result<Response, Problem> {
    let agents = infos(&server).await?;
    reply_tagged(&headers, &AgentList { agents })
}

/// Returns the agents, or says that they cannot be read.
pub(crate) async fn infos(server: &Server) -> Result<Vec<AgentInfo>, Problem> {
    server.agents().list().await.map_err(|error| {
        tracing::error!(%error, "the agents cannot be listed");
        Problem::unavailable("the agents cannot be listed; try again")
    })
}
