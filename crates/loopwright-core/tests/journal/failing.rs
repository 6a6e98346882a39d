//! Journals that fail: what a run does then, and how it goes on.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, ApprovalRequest, BoxError, CallableHook, Change, ChangeRecord, ExecutionStatus,
    FailureKind, Flow, Hook, HookCx, IdempotencyKey, Journal, JournalError, RunHandle, RunOptions,
    Seq, StateEdit, ToolDecision, messages::Message,
};
use loopwright_testing::{
    EventRecorder, FakeModel, Fault, FrozenClock, MemoryJournal, MockTool, ModelDriver,
    ScenarioStep, block_on, poll_times, test_loop, yield_times,
};
use serde_json::json;

use crate::support::{agent, asked, execute_with, hooked, journaled, lock, outcomes, replay, said};

/// An agent whose second step must not begin, and the tool that it would call.
fn two_tools(journal: &MemoryJournal) -> (AgentLoop, MockTool, EventRecorder) {
    let (pay, events) = (MockTool::returning("pay", "", "paid"), EventRecorder::new());
    let steps =
        [ScenarioStep::tool("looking"), ScenarioStep::tool_call("pay", json!({})), "done".into()];
    let agent = agent(steps).with_tool(pay.clone()).with_event_sink(events.sink());
    assert!(journal.changes().is_empty());
    (agent, pay, events)
}

#[track_caller]
fn check_fenced(fault: Fault) {
    for append in 0..5 {
        let journal = MemoryJournal::new();
        let (agent, pay, events) = two_tools(&journal);
        journal.fail_at(append, fault);
        let state = execute_with(&agent, asked(), &journal);
        let ExecutionStatus::Failed(failure) = state.status() else {
            panic!("{append}: {state:?}")
        };
        assert_eq!(failure.kind, FailureKind::Journal);
        assert_eq!(journal.appends(), append + 1, "nothing is appended after a failure");
        assert_eq!(pay.keys().len(), usize::from(append > 3), "append {append}");
        let failed = events.names().iter().filter(|it| **it == "ExecutionFailed").count();
        assert_eq!(failed, usize::from(append > 0) + usize::from(append == 0));
    }
}

#[test]
fn after_a_conflict_there_is_no_further_effect_and_no_further_append() {
    check_fenced(Fault::Conflict);
}

#[test]
fn after_a_lost_lease_there_is_no_further_effect_and_no_further_append() {
    check_fenced(Fault::LeaseLost);
}

#[test]
fn a_run_whose_journal_failed_is_over_and_is_handed_out_once() {
    let journal = MemoryJournal::new();
    journal.lose_lease();
    let mut run = agent([]).start(asked(), journaled(&journal));
    assert!(block_on(run.next()).is_some());
    assert!(!run.has_next());
    assert!(block_on(run.next()).is_none());
    assert_eq!(journal.appends(), 1);
}

#[test]
fn a_lease_that_is_lost_while_a_tool_runs_ends_the_run_before_the_next_effect() {
    let journal = MemoryJournal::new();
    let losing = journal.clone();
    let look = MockTool::new("look", "", move |_| {
        losing.lose_lease();
        Ok::<_, loopwright_core::BoxError>("seen")
    });
    let model = FakeModel::script([ScenarioStep::tool_call("look", json!({})), "done".into()]);
    let agent = test_loop(ModelDriver::new(model.clone())).with_tool(look);
    let state = execute_with(&agent, asked(), &journal);
    assert!(
        matches!(state.status(), ExecutionStatus::Failed(it) if it.kind == FailureKind::Journal)
    );
    assert_eq!(model.asked(), 1);
    assert_eq!(outcomes(&state, 0).len(), 1, "what the tool said is not lost");
}

#[track_caller]
fn check_healed(fault: Fault) {
    let mut steps = Vec::new();
    for append in 0..5 {
        let journal = MemoryJournal::new();
        let (agent, pay, _) = two_tools(&journal);
        journal.fail_at(append, fault);
        let state = execute_with(&agent, asked(), &journal);
        assert!(
            matches!(state.status(), ExecutionStatus::Failed(it) if it.kind == FailureKind::Journal)
        );
        // A caller may go on talking; that comes after what was not acknowledged.
        let state = execute_with(&agent, state.with_user_message("are you there?"), &journal);
        assert_eq!(state.status(), &ExecutionStatus::Completed, "append {append}");
        let sent = journal.sent();
        assert_eq!(sent[append], sent[append + 1], "append {append}");
        assert_eq!(pay.keys().len(), 1);
        steps.push(state.step_count());
        assert_eq!(replay(&journal), state, "append {append}");
    }
    // Where the last step was open, another one answers the message.
    assert_eq!(steps, [3, 3, 3, 3, 4]);
}

#[test]
fn a_batch_that_failed_is_sent_again_unchanged_before_any_other() {
    check_healed(Fault::Unavailable);
}

#[test]
fn a_batch_without_acknowledgement_is_sent_again_and_kept_once() {
    check_healed(Fault::Unacknowledged);
}

#[test]
fn an_append_goes_on_where_it_was_however_often_next_is_dropped() {
    let journal = MemoryJournal::new().with_delay(3);
    let (agent, pay, _) = two_tools(&journal);
    let mut run = agent.start(asked(), journaled(&journal));
    let mut state = None;
    while run.has_next() {
        if let Some(Some(handed_out)) = poll_times(pin!(run.next()), 1) {
            state = Some(handed_out.clone());
        }
    }
    let state = state.unwrap();
    assert_eq!((state.text().as_str(), pay.keys().len()), ("done", 1));
    assert_eq!(replay(&journal), state);
    let sent = journal.sent();
    assert!(sent.windows(2).all(|pair| pair[0] != pair[1]), "nothing was sent twice");
    assert_eq!(run.into_state(), state);
}

#[test]
fn the_final_state_is_handed_out_even_if_next_was_dropped_in_the_last_append() {
    let journal = MemoryJournal::new().with_delay(2);
    let mut run = agent([]).start(asked(), journaled(&journal));
    let mut handed_out = Vec::new();
    for _ in 0..50 {
        if let Some(Some(state)) = poll_times(pin!(run.next()), 1) {
            handed_out.push(state.text());
        }
    }
    assert_eq!(handed_out, ["ok"]);
}

#[test]
fn an_append_is_not_given_up_when_the_run_is_cancelled() {
    let journal = MemoryJournal::new();
    journal.fail_at(0, Fault::Delay(3));
    let clock = FrozenClock::new();
    let mut run = agent([]).start(asked(), RunOptions { env: clock.env(0), ..journaled(&journal) });
    assert!(poll_times(pin!(run.next()), 1).is_none(), "it waits for the journal");
    run.handle().cancel();
    let state = block_on(run.finish());
    assert!(matches!(state.status(), ExecutionStatus::Stopped(_)), "{:?}", state.status());
    assert_eq!(replay(&journal), state);
}

#[test]
fn a_message_that_came_while_the_journal_failed_is_answered_when_the_run_goes_on() {
    let journal = MemoryJournal::new();
    let agent = agent(["one".into(), "two".into()]);
    journal.fail_at(1, Fault::Unavailable);
    let mut run = agent.start(asked(), journaled(&journal));
    let handle = run.handle();
    handle.steer(Message::user("heard at once")).unwrap();
    assert!(poll_times(pin!(run.next()), 0).is_none());
    let failed = block_on(run.finish());
    assert!(
        matches!(failed.status(), ExecutionStatus::Failed(it) if it.kind == FailureKind::Journal)
    );
    assert_eq!(handle.steer(Message::user("late")), Err(Message::user("late")));
    let state = execute_with(&agent, failed, &journal);
    assert_eq!(state.text(), "one");
    assert_eq!(replay(&journal), state);
}

#[test]
fn a_failed_journal_is_a_change_that_the_next_batch_carries() {
    let journal = MemoryJournal::new();
    let agent = agent(["one".into()]);
    journal.fail_at(1, Fault::Unavailable);
    let failed = execute_with(&agent, asked(), &journal);
    let is_failure = |it: &Change| matches!(it, Change::JournalFailed(_));
    assert!(failed.unsaved_changes().last().is_some_and(is_failure));
    let state = execute_with(&agent, failed, &journal);
    let changes = journal.changes();
    assert_eq!(changes.iter().filter(|it| is_failure(&it.change)).count(), 1);
    assert_eq!(replay(&journal), state);
}

/// A journal that cannot be reached once, while the user says something.
struct Interrupting(MemoryJournal, Mutex<Option<RunHandle>>);

#[async_trait]
impl Journal for Interrupting {
    async fn append(&self, first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError> {
        let Some(handle) = lock(&self.1).take() else { return self.0.append(first, changes).await };
        assert_eq!(handle.steer(Message::user("are you there?")), Ok(()));
        Err(JournalError::Unavailable("no answer".into()))
    }

    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal> {
        self.0.child(call)
    }
}

#[test]
fn a_message_during_a_journal_failure_is_answered_after_the_open_step() {
    let (journal, agent) = (MemoryJournal::new(), agent(["one".into(), "two".into()]));
    let interrupting = Arc::new(Interrupting(journal.clone(), Mutex::default()));
    let options =
        RunOptions { journal: Some(Arc::clone(&interrupting) as _), ..journaled(&journal) };
    let run = agent.start(asked(), options);
    *lock(&interrupting.1) = Some(run.handle());
    let failed = block_on(run.finish());
    assert!(
        matches!(failed.status(), ExecutionStatus::Failed(it) if it.kind == FailureKind::Journal)
    );
    let state = execute_with(&agent, failed, &journal);
    assert_eq!(said(&state), ["go", "one", "are you there?", "two"]);
    assert_eq!(replay(&journal), state);
}

/// Waits a little at the beginning of an execution, and then changes the state.
struct Slow;

#[async_trait]
impl Hook for Slow {
    async fn before_execution(
        &self,
        state: &mut StateEdit<'_>,
        _: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        yield_times(2).await;
        state.set_metadata("seen", json!(true));
        Ok(Flow::Continue)
    }
}

#[test]
fn changes_recorded_while_a_hook_runs_are_sent_once() {
    let journal = MemoryJournal::new();
    let mut run = hooked(&agent([]), Slow).start(asked(), journaled(&journal));
    assert!(poll_times(pin!(run.next()), 1).is_none(), "the hook is at work");
    block_on(run.flush());
    assert_eq!(journal.names(), ["state_edited", "execution_started"]);
    let state = block_on(run.finish());
    assert_eq!((state.status(), replay(&journal)), (&ExecutionStatus::Completed, state.clone()));
}

#[test]
fn an_edit_of_a_state_that_waits_for_a_decision_is_kept_by_a_step_that_does_nothing() {
    let journal = MemoryJournal::new();
    let ask = CallableHook::new("ask")
        .before_tool(|_, _, _| Ok(ToolDecision::Ask(ApprovalRequest::new("really?", "ask"))));
    let agent = hooked(&agent([ScenarioStep::tool_call("scripted", json!({}))]), ask);
    let paused = execute_with(&agent, asked(), &journal);
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    let mut run = agent.start(paused.with_metadata("seen", true), journaled(&journal));
    assert!(block_on(run.step()));
    assert_eq!(journal.names().last(), Some(&"state_edited"));
    assert_eq!(replay(&journal), *run.state());
}
