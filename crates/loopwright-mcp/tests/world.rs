//! A folder of its own for each test, and a server that behaves as it is told.

use std::sync::Arc;
use std::time::Duration;

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_capabilities::questions::OnQuestion;
use loopwright_core::{
    AgentLoop, AgentState, ToolSources,
    messages::{Turn, TurnBody},
};
use loopwright_mcp::{McpClient, McpHost, McpServer, McpToolSource, StdioServer, UseMcp};
use loopwright_sandbox::{Backend, BackendSandbox};
use loopwright_testing::{EventRecorder, FakeModel, ModelDriver, ScenarioStep, test_loop};
use serde_json::{Value, json};

pub(crate) const SERVER: &str = env!("CARGO_BIN_EXE_loopwright-mcp-fake-server");

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        loopwright_sandbox::set_helper_path(SERVER);
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn host(&self) -> McpHost {
        McpHost::in_dir(self.folder.path())
            .with_sandbox(Arc::new(BackendSandbox::new(Backend::Namespaces)))
    }

    /// A server that may be read, as its program is in no folder of the system.
    pub(crate) fn server(mode: &str) -> McpServer {
        let program = std::path::Path::new(SERVER);
        let mut server = McpServer::stdio("fake", StdioServer::new(SERVER).with_args([mode]));
        server.sandbox = server.sandbox.with_read(program.parent().unwrap());
        server.with_startup_timeout(Duration::from_secs(20))
    }

    pub(crate) fn client(&self, mode: &str) -> McpClient {
        McpClient::new(Self::server(mode), self.host())
    }
}

/// An agent with the tools of a server. Its model begins with a call of `mcp__fake__echo` without arguments.
pub(crate) fn agent(client: &McpClient, model: &FakeModel) -> AgentLoop {
    agent_with(client, model, OnQuestion::Wait)
}

pub(crate) fn agent_with(
    client: &McpClient,
    model: &FakeModel,
    on_question: OnQuestion,
) -> AgentLoop {
    AgentBuilder::base()
        .with(UseLlmConfig::model(model.clone()))
        .with(UseMcp::new([client.clone()]).with_on_question(on_question))
        .build()
        .unwrap()
}

/// A model that calls `mcp__fake__echo`, and then says this.
pub(crate) fn calling<S: Into<ScenarioStep>>(then: impl IntoIterator<Item = S>) -> FakeModel {
    let first = ScenarioStep::tool_call("mcp__fake__echo", json!({}));
    FakeModel::script(std::iter::once(first).chain(then.into_iter().map(Into::into)))
}

/// What the calls of a run returned.
pub(crate) fn results(state: &AgentState) -> Vec<String> {
    let of_turn = |turn: &Arc<Turn>| match turn.body() {
        TurnBody::ToolExchange(exchange) => exchange.results().to_vec(),
        _ => Vec::new(),
    };
    state.transcript().iter().flat_map(of_turn).map(|it| it.to_text()).collect()
}

/// What waits, as text.
pub(crate) fn waiting(state: &AgentState) -> Vec<String> {
    state.pending().iter().map(|it| it.question.text.clone()).collect()
}

/// What a model is told that calls a tool of a server, and the events of the run.
pub(crate) async fn call(
    client: &McpClient,
    tool: &str,
    arguments: Value,
) -> (String, EventRecorder) {
    let mut sources = ToolSources::default();
    sources.add_with_wait(Arc::new(McpToolSource::new(client.clone())), Duration::from_mins(1));
    let steps = [ScenarioStep::tool_call(tool, arguments), "done".into()];
    let (model, events) = (FakeModel::script(steps), EventRecorder::new());
    let agent = test_loop(ModelDriver::new(model.clone()))
        .with(|parts| parts.sources = sources)
        .with_event_sink(events.sink());
    let state = agent.execute(AgentState::new().with_user_message("work")).await;
    (results(&state).join("\n"), events)
}
