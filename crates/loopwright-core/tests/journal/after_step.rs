//! A step that is on record without what hooks did about it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use loopwright_core::{
    AgentLoop, AgentState, CallableHook, ChangeRecord, ErrorDecision, Flow, StopSignal,
};
use loopwright_testing::{MemoryJournal, MockTool, ScenarioStep, block_on};
use serde_json::json;

use crate::support::{agent, asked, execute_with, hooked, journaled, replay};

/// A hook that stops the run after its first step, and counts how often it is called.
fn stopping_after_step(calls: &Arc<AtomicUsize>) -> CallableHook {
    let calls = Arc::clone(calls);
    CallableHook::new("enough").after_step(move |_, _| {
        calls.fetch_add(1, SeqCst);
        Ok(Flow::Stop(StopSignal::requested("enough", "enough")))
    })
}

#[test]
fn a_run_that_crashed_before_its_after_step_hooks_were_called_calls_them_when_it_resumes() {
    let (journal, calls) = (MemoryJournal::new(), Arc::new(AtomicUsize::new(0)));
    let look = MockTool::returning("look", "", "seen");
    let agent = agent([ScenarioStep::tool_call("look", json!({})), "done".into()]).with_tool(look);
    let agent = hooked(&agent, stopping_after_step(&calls));
    let closing = journal_until(&journal, &agent, "step_closed");
    let state = AgentState::new().replay(closing).unwrap();
    calls.store(0, SeqCst);
    let rest = MemoryJournal::starting_at(state.seq());
    let resumed = block_on(agent.start(state, journaled(&rest)).finish());
    assert_eq!((calls.load(SeqCst), resumed.step_count()), (1, 1));
    assert_eq!(resumed.status().as_str(), "stopped");
}

/// The changes of a whole run up to the first of a name.
fn journal_until(journal: &MemoryJournal, agent: &AgentLoop, name: &str) -> Vec<ChangeRecord> {
    execute_with(agent, asked(), journal);
    let mut changes = journal.changes();
    let end = changes.iter().position(|it| it.change.name() == name);
    changes.truncate(end.map_or(0, |it| it + 1));
    changes
}

#[test]
fn a_run_that_resumes_between_two_steps_does_not_call_after_step_hooks_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let hook = CallableHook::new("count").after_step(move |_, _| {
        counter.fetch_add(1, SeqCst);
        Ok(Flow::Continue)
    });
    let journal = MemoryJournal::new();
    let look = MockTool::returning("look", "", "seen");
    let agent = agent([ScenarioStep::tool_call("look", json!({})), "done".into()]).with_tool(look);
    let agent = hooked(&agent, hook);
    let mut run = agent.start(asked(), journaled(&journal));
    block_on(run.next()).unwrap();
    drop(run);
    assert_eq!(calls.load(SeqCst), 1);
    let state = execute_with(&agent, replay(&journal), &journal);
    assert_eq!((calls.load(SeqCst), state.step_count()), (2, 2));
}

#[test]
fn a_run_that_crashed_after_a_failed_step_calls_its_error_hooks_when_it_resumes() {
    let (journal, asked_about) = (MemoryJournal::new(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&asked_about);
    let hook = CallableHook::new("errors").on_error(move |_, _, _| {
        counter.fetch_add(1, SeqCst);
        Ok(ErrorDecision::Fail)
    });
    let agent = hooked(&agent([ScenarioStep::error("down"), "done".into()]), hook);
    let failed = journal_until(&journal, &agent, "step_failed");
    let state = AgentState::new().replay(failed).unwrap();
    asked_about.store(0, SeqCst);
    let journal = MemoryJournal::starting_at(state.seq());
    let resumed = execute_with(&agent, state, &journal);
    assert_eq!((asked_about.load(SeqCst), resumed.step_count()), (1, 1));
    assert_eq!(resumed.status().as_str(), "failed");
}
