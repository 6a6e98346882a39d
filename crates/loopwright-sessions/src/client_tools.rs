//! Tools that the client of a session runs.

use std::sync::Arc;

use loopwright_core::{AgentLoop, AgentState, Edit, ExternalTool, Key};

const TOOLS: Key<Vec<ExternalTool>> = Key::session("client_tools", "tools");

/// Tools that the client of a session declares and runs itself, such as the `tools` of a request to a server.
///
/// They are part of the session's state. Every process that runs the session therefore offers them to the model, and
/// their calls wait for results.
///
/// ```
/// use loopwright_core::{AgentState, ExternalTool};
/// use loopwright_sessions::ClientTools;
/// use loopwright_testing::{FakeDriver, test_loop};
///
/// let tools = ClientTools::new([ExternalTool::new("locate", "Returns the position of the phone.")]);
/// let state = AgentState::new().edit(tools.edit());
/// let agent = ClientTools::of(&state).added_to(test_loop(FakeDriver::default()));
/// assert!(agent.tools().get("locate").is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientTools(Vec<ExternalTool>);

impl ClientTools {
    /// Creates a list of tools.
    pub fn new(tools: impl IntoIterator<Item = ExternalTool>) -> Self {
        Self(tools.into_iter().collect())
    }

    /// Returns those of a session.
    pub fn of(state: &AgentState) -> Self {
        Self(state.get(&TOOLS).unwrap_or_default())
    }

    /// Returns the edit that stores them in a state, in place of earlier ones.
    pub fn edit(&self) -> Edit {
        let value = serde_json::to_value(&self.0).ok();
        Edit::Set(TOOLS.slot(), value.filter(|_| !self.is_empty()))
    }

    /// Returns the tools.
    pub fn iter(&self) -> impl Iterator<Item = &ExternalTool> {
        self.0.iter()
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().map(ExternalTool::name)
    }

    /// Returns `true` if a tool has this name.
    pub fn contains(&self, name: &str) -> bool {
        self.names().any(|it| **it == *name)
    }

    /// Returns `true` if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds them to an agent. A tool whose name the agent has is left out: a client replaces no tool of the agent.
    #[must_use]
    pub fn added_to(&self, agent: AgentLoop) -> AgentLoop {
        if self.is_empty() {
            return agent;
        }
        agent.with(|parts| {
            for tool in &self.0 {
                if parts.tools.get(tool.name()).is_none() {
                    parts.tools.add(tool.clone());
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use loopwright_agent::AgentDefinition;
    use loopwright_core::{ApprovalDecision, ExecutionStatus, Timestamp};
    use loopwright_testing::{FakeDriver, MockTool, ScenarioStep, test_loop};
    use serde_json::json;

    use super::*;
    use crate::{
        AgentSession, ContinueRun, DecideCall, MemoryStore, SendMessage, SessionFactory,
        SessionRuntime, action_fn,
    };

    fn locate() -> ClientTools {
        ClientTools::new([ExternalTool::new("locate", "Finds a thing.")])
    }

    #[test]
    fn a_client_replaces_no_tool_of_the_agent() {
        let own = MockTool::returning("locate", "Looks.", "here");
        let agent = locate().added_to(test_loop(FakeDriver::default()).with_tool(own));
        assert!(!agent.tools().get("locate").unwrap().is_external());
    }

    #[tokio::test]
    async fn a_run_of_any_process_has_the_tools_of_the_session_and_waits_for_their_results() {
        let steps = [ScenarioStep::tool_call("locate", json!({})), "In Bern.".into()];
        let agent = test_loop(FakeDriver::steps(steps));
        let runtime = SessionRuntime::new(Arc::new(MemoryStore::new()), agent);
        let definition = AgentDefinition::new("helper", "Helps.", "You help.");
        let session = SessionFactory::new().create(definition, Timestamp::from_millis(0));
        let id = runtime.create(session).await.unwrap().id().clone();
        let add = action_fn("add", |session: AgentSession| async move {
            let state = session.state().clone().edit(locate().edit());
            Ok(session.with_state(state))
        });
        runtime.execute(&id, &add).await.unwrap();
        let paused = runtime.execute(&id, &SendMessage::text("Where?")).await.unwrap();
        assert_eq!(*paused.state().status(), ExecutionStatus::Paused);
        let resolution = ApprovalDecision::Reply(json!("46.9, 7.4"));
        runtime.execute(&id, &DecideCall { path: None, resolution }).await.unwrap();
        let ended = runtime.execute(&id, &ContinueRun).await.unwrap();
        assert_eq!(ended.state().text(), "In Bern.");
        let remove = ended.state().clone().edit(ClientTools::default().edit());
        assert!(ClientTools::of(&remove).is_empty());
    }
}
