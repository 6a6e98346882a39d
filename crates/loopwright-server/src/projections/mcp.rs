//! The Model Context Protocol: agents are tools, and sessions are resources.

mod agent_tool;
mod content;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::from_fn_with_state,
    response::Response,
    routing::any,
};
use loopwright_core::ToolSet;
use loopwright_mcp::{HttpToolServer, ToolServer};

use self::{agent_tool::agent_tool, content::PrincipalContent};
use crate::{
    agents::AgentInfo,
    guard::authorized,
    mcp_mount::{McpMount, PrincipalServer},
    operation::RUN,
    principal::Principal,
    problem::Problem,
    routes::agents::infos,
    server::Server,
};

const PATH: &str = "/mcp";

/// How long a list of agents is taken for current.
const CURRENT: Duration = Duration::from_mins(1);

/// How many principals have a server of their own at once.
const MAX_PRINCIPALS: usize = 1024;

/// Adds the route, if the server has it.
pub(crate) fn mounted(server: &Server, router: Router<Server>) -> Router<Server> {
    if server.mcp().is_none() {
        return router;
    }
    let state = (server.clone(), RUN);
    router.route(PATH, any(handle).layer(from_fn_with_state(state, authorized)))
}

async fn handle(
    State(server): State<Server>,
    principal: Principal,
    request: Request,
) -> Result<Response, Problem> {
    let mount = server.mcp().ok_or_else(|| Problem::not_found("unknown path"))?;
    let own = of(mount, &server, &principal).await?;
    Ok(own.handle(request).await.map(Body::new))
}

/// Returns the server of a principal, with the agents that there are now.
async fn of(
    mount: &McpMount,
    server: &Server,
    principal: &Principal,
) -> Result<HttpToolServer, Problem> {
    let now = server.clock().now();
    let key = (Arc::clone(principal.name()), principal.role());
    let is_current = |it: &PrincipalServer| now < it.listed_at.plus(CURRENT);
    let known = |it: &PrincipalServer| it.server.clone();
    if let Some(current) = mount.lock().get(&key).filter(|it| is_current(it)).map(known) {
        return Ok(current);
    }
    let agents = infos(server).await?;
    let mut servers = mount.lock();
    if let Some(known) = servers.get_mut(&key).filter(|it| it.agents == agents) {
        known.listed_at = now;
        return Ok(known.server.clone());
    }
    if servers.len() >= MAX_PRINCIPALS {
        let oldest = servers.iter().min_by_key(|(_, it)| it.listed_at);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            servers.remove(&oldest);
        }
    }
    let made = server_of(mount, server, principal, &agents);
    servers.insert(key, PrincipalServer { server: made.clone(), agents, listed_at: now });
    Ok(made)
}

fn server_of(
    mount: &McpMount,
    server: &Server,
    principal: &Principal,
    agents: &[AgentInfo],
) -> HttpToolServer {
    let mut tools = ToolSet::new();
    for agent in agents {
        tools.add(agent_tool(server, principal, agent));
    }
    let content = PrincipalContent::new(server, principal, mount.prompts.clone());
    let tools = ToolServer::new(tools)
        .with_name("loopwright", env!("CARGO_PKG_VERSION"))
        .with_content(Arc::new(content));
    HttpToolServer::behind_checks(tools, server.max_body(), server.drain().clone())
}
