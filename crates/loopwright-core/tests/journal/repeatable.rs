//! Interrupted calls that their arguments keep from running again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use loopwright_core::{
    ExecutionStatus, OnInterrupted, RunOptions, SideEffects, Tool, ToolCx, ToolError, ToolOptions,
    ToolOutput,
};
use loopwright_testing::{MemoryJournal, ScenarioStep, block_on, run_until_stuck};
use serde_json::json;

use super::with_effects;
use crate::support::{agent, asked, journaled, replay};

/// Sends letters. Its journal covers those that need no stamp.
struct Post(Arc<AtomicUsize>);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Letter {
    stamp: bool,
}

impl Tool for Post {
    type Args = Letter;
    type Output = ToolOutput;
    type Error = ToolError;

    fn name(&self) -> &'static str {
        "send"
    }

    fn description(&self) -> &'static str {
        "Sends a letter."
    }

    fn options(&self) -> ToolOptions {
        with_effects(SideEffects::Resumable)
    }

    fn is_repeatable(&self, letter: &Letter) -> bool {
        !letter.stamp
    }

    async fn call(&self, _: Letter, _: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        if self.0.fetch_add(1, SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        Ok(ToolOutput::text("sent"))
    }
}

#[test]
fn a_resumable_tool_does_not_repeat_an_interrupted_call_whose_arguments_are_not_repeatable() {
    for (stamp, policy, expected, runs) in [
        (false, OnInterrupted::RequireApproval, ExecutionStatus::Completed, 2),
        (true, OnInterrupted::RequireApproval, ExecutionStatus::Paused, 1),
        (true, OnInterrupted::ReportUnknown, ExecutionStatus::Completed, 1),
    ] {
        let (journal, ran) = (MemoryJournal::new(), Arc::new(AtomicUsize::new(0)));
        let calls = [ScenarioStep::tool_call("send", json!({ "stamp": stamp })), "done".into()];
        let agent = agent(calls).with_tool(Post(Arc::clone(&ran)));
        assert!(run_until_stuck(agent.start(asked(), journaled(&journal)).finish()).is_none());
        let options = RunOptions { on_interrupted: policy, ..journaled(&journal) };
        let state = block_on(agent.start(replay(&journal), options).finish());
        let waiting: Vec<String> =
            state.pending().iter().map(|it| it.question.source.to_string()).collect();
        let is_paused = expected == ExecutionStatus::Paused;
        let decisions = if is_paused { vec!["recovery".to_owned()] } else { Vec::new() };
        assert_eq!((state.status(), ran.load(SeqCst), waiting), (&expected, runs, decisions));
    }
}
