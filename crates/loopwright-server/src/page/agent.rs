//! The available agents, and the agent of a session with its instructions and tools.

use axum::{extract::State, response::Response};
use loopwright_agent::LoopFactory as _;
use maud::{Markup, html};

use super::{
    conversation::{tabs, title},
    layout::{self, Tab},
    visitor::Visitor,
};
use crate::{extract::OwnSession, problem::Problem, routes::agents::infos, server::Server};

/// Lists the agents.
pub(crate) async fn list(
    State(server): State<Server>,
    visitor: Visitor,
) -> Result<Response, Problem> {
    let agents = infos(&server).await?;
    let main = html! {
        h1 { "Agents" }
        @for agent in &agents {
            article {
                h2 { (agent.name) }
                p { (agent.description) }
            }
        }
        p.hint { "To see an agent's instructions and tools, open the “Agent” page of one of its sessions." }
    };
    Ok(layout::page("Agents", &visitor, Tab::Agents, &main))
}

/// Shows the agent of a session.
pub(crate) async fn show(
    State(server): State<Server>,
    visitor: Visitor,
    OwnSession(header): OwnSession,
) -> Result<Response, Problem> {
    let definition = server.store().definition(&header.id).await?;
    let definition = definition.ok_or_else(Problem::unknown_session)?;
    let built = match server.agents().of(&header).await {
        Ok(loops) => loops.instantiate(&definition).map_err(Into::into),
        Err(error) => Err(error),
    };
    let main = html! {
        h1 { (title(&header)) }
        (tabs(&header, "Agent"))
        h2 { (definition.name) }
        p { (definition.description) }
        @if !definition.skills.is_empty() {
            p { "Skills: " (definition.skills.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")) }
        }
        (text("System prompt", &definition.system_prompt))
        @match &built {
            Ok(agent) => {
                @for (name, fragment) in agent.instructions().texts(agent) {
                    (text(&format!("Instructions: {name}"), &fragment))
                }
                h2 { "Tools" }
                ul.tools {
                    @for tool in agent.tools().iter() {
                        @let descriptor = tool.descriptor();
                        li { strong { (descriptor.name()) } " " (descriptor.description()) }
                    }
                }
            }
            Err(error) => {
                // An error message may contain paths on the server.
                @let () = tracing::warn!(%error, session = %header.id, "the agent cannot be built");
                p role="alert" { "The agent cannot be built on this server; see the server log." }
            }
        }
    };
    Ok(layout::page(&format!("Agent of {}", title(&header)), &visitor, Tab::Sessions, &main))
}

fn text(name: &str, text: &str) -> Markup {
    html! {
        @if !text.trim().is_empty() {
            details { summary { (name) } pre { (text) } }
        }
    }
}
