//! Gives a task to a remote agent on this machine, without a model, and prints the result. The second argument is the
//! message, the third the answer to a question of the remote agent. Without a third argument, a question ends the program.
//! With `PROTOCOL=ag-ui`, the remote agent speaks AG-UI, else A2A.
//!
//! ```text
//! cargo run -p loopwright-capabilities --features remote --example ask_remote_agent -- http://127.0.0.1:8080 "How many?"
//! ```

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::env;
use std::time::Duration;

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_capabilities::remote_agent::{
    RemoteAgent, RemoteAgentPolicy, RemoteProtocol, UseRemoteAgent,
};
use loopwright_core::{AgentState, ApprovalDecision, BoxError};
use loopwright_testing::{FakeModel, ScenarioStep, tool_results};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut arguments = env::args().skip(1);
    let url = arguments.next().ok_or("pass the address of a remote agent")?;
    let message = arguments.next().ok_or("pass a message")?;
    let answer = arguments.next();
    let seconds = env::var("TIMEOUT").ok().and_then(|it| it.parse().ok()).unwrap_or(60.0);

    let is_ag_ui = env::var("PROTOCOL").is_ok_and(|it| it == "ag-ui");
    let protocol = if is_ag_ui { RemoteProtocol::AgUi } else { RemoteProtocol::A2a };
    let remote = RemoteAgent::new("remote", "Is asked.", &url)?.with_private_addresses();
    let remote = remote.with_protocol(protocol);
    let policy = RemoteAgentPolicy {
        timeout: Duration::from_secs_f64(seconds),
        poll_interval: Duration::from_millis(100),
        ..RemoteAgentPolicy::default()
    };
    let ask = json!({ "agent": "remote", "message": message });
    let steps = [ScenarioStep::tool_call("ask_remote_agent", ask), "done".into()];
    let agent = AgentBuilder::base()
        .with(UseLlmConfig::model(FakeModel::script(steps)))
        .with(UseRemoteAgent::new([remote]).with_policy(policy))
        .build()?;
    let mut state = agent.execute(AgentState::new().with_user_message("go")).await;
    while let Some(pending) = state.pending().first() {
        println!("question: {}", pending.question.text);
        let Some(answer) = &answer else { return Ok(()) };
        let address = pending.address();
        let decided =
            agent.decide(&state, &address, ApprovalDecision::Reply(answer.as_str().into()))?;
        state = agent.execute(decided).await;
    }
    for result in tool_results(&state) {
        println!("{result}");
    }
    Ok(())
}
