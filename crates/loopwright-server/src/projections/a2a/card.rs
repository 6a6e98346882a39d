//! The card of an agent.

use serde_json::{Value, json};

use super::VERSION;
use crate::{problem::Problem, routes::agents::infos, server::Server};

/// Makes the card of an agent, or of the first one.
pub(super) async fn of(server: &Server, agent: Option<&str>, host: &str) -> Result<Value, Problem> {
    let agents = infos(server).await?;
    let agent = match agent {
        Some(name) => agents.into_iter().find(|it| it.name == name),
        None => agents.into_iter().next(),
    };
    let agent = agent.ok_or_else(|| Problem::not_found("unknown agent"))?;
    let scheme = if server.access().is_encrypted() { "https" } else { "http" };
    let url = format!("{scheme}://{host}/v1/agents/{}/a2a", agent.name);
    let interface = |binding: &str| json!({ "url": url, "protocolBinding": binding, "protocolVersion": VERSION });
    Ok(json!({
        "name": agent.name,
        "description": agent.description,
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": [interface("JSONRPC"), interface("HTTP+JSON")],
        "capabilities": { "streaming": true, "pushNotifications": false, "extendedAgentCard": false },
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{
            "id": agent.name, "name": agent.name, "description": agent.description, "tags": ["agent"],
        }],
        "securitySchemes": { "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer" } } },
        "securityRequirements": [{ "schemes": { "bearer": { "list": [] } } }],
    }))
}
