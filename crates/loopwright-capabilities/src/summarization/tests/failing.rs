//! Summaries that fail, and runs that end meanwhile.

use crate::summarization::{MessageBufferSummarized, SummarizationFailed};
use async_trait::async_trait;
use loopwright_core::{
    AgentState, Budget, ExecutionStatus, HookCx, RunOptions, StepError, StopReason,
    messages::{FinishReason, Usage},
};
use loopwright_testing::{FakeModel, ScenarioStep, run_until_stuck};

use super::support::{agent, limits, run, talk, texts};
use crate::summarization::{Summarizer, SummaryInput};

/// A run of so many steps, each of which fills the buffer.
fn steps(count: usize) -> FakeModel {
    let steps = (1..count).map(|_| ScenarioStep::tool("a a a a a a a a"));
    FakeModel::script(steps.chain(["done".into()]))
}

/// Says when it was tried, and how often it had failed.
fn failures(events: &loopwright_testing::EventRecorder) -> Vec<(u32, u64)> {
    events
        .events_of::<SummarizationFailed>()
        .iter()
        .map(|it| (it.failures, it.retry_after))
        .collect()
}

#[test]
fn a_summariser_that_fails_never_fails_the_run_and_is_asked_less_and_less() {
    let summarizer = FakeModel::script([ScenarioStep::error("down")]);
    let (agent, events) = agent(&steps(40), limits(5, 6, 10).with_model(summarizer.clone()));
    let state = run(&agent, AgentState::new(), "go");
    assert_eq!((state.status(), state.step_count()), (&ExecutionStatus::Completed, 40));
    assert_eq!(failures(&events), [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32)]);
    assert_eq!(summarizer.asked(), 5);
    assert!(events.events_of::<SummarizationFailed>()[0].error.contains("down"));
    // Nothing is lost meanwhile.
    assert_eq!(texts(&state, "buffer").len() + state.transcript().len(), 41);
}

#[test]
fn a_summariser_that_is_back_takes_what_has_piled_up() {
    let summarizer = FakeModel::script([ScenarioStep::error("down"), "sum".into()]);
    let (agent, events) = agent(&steps(6), limits(5, 6, 10).with_model(summarizer));
    let state = run(&agent, AgentState::new(), "go");
    assert_eq!(failures(&events), [(1, 2)]);
    let summarised = events.events_of::<MessageBufferSummarized>();
    assert_eq!(summarised[0].buffer.turns, 3);
    assert_eq!(state.status(), &ExecutionStatus::Completed);
}

#[test]
fn answers_that_are_no_summary_are_failures() {
    let check = |step: ScenarioStep, expect: &str| {
        let summarization = limits(5, 6, 10).with_model(FakeModel::script([step]));
        let (agent, events) = agent(&steps(3), summarization);
        let state = run(&agent, AgentState::new(), "go");
        assert_eq!(state.status(), &ExecutionStatus::Completed);
        assert_eq!(events.events_of::<SummarizationFailed>()[0].error, expect);
    };
    check(" ".into(), "the summary is empty");
    let refused = ScenarioStep::final_answer("I will not.").with_finish(FinishReason::Refusal);
    check(refused, "the model response is invalid: the model wrote no summary: refusal");
}

/// Loses its head.
struct Panicking;

#[async_trait]
impl Summarizer for Panicking {
    async fn summarize(
        &self,
        _: SummaryInput<'_>,
        _: &AgentState,
        _: &HookCx<'_>,
    ) -> Result<String, StepError> {
        panic!("no words")
    }
}

#[test]
fn a_summariser_that_panics_is_one_that_fails() {
    let (agent, events) = agent(&steps(3), limits(5, 6, 10).with_summarizer(Panicking));
    let state = run(&agent, AgentState::new(), "go");
    assert_eq!(state.status(), &ExecutionStatus::Completed);
    assert_eq!(events.events_of::<SummarizationFailed>()[0].error, "it panicked: no words");
}

#[test]
fn without_budget_no_summary_is_written() {
    // A summary may take ten tokens, and two are left.
    let model = FakeModel::script([
        ScenarioStep::tool("a a a a a a a a").with_usage(Usage::new(1, 0)),
        ScenarioStep::tool("a a a a a a a a").with_usage(Usage::new(1, 0)),
        ScenarioStep::final_answer("done").with_usage(Usage::new(1, 0)),
    ]);
    let (agent, events) = agent(&model, limits(5, 6, 10).with_model(FakeModel::script(["sum"])));
    let state = AgentState::new().with_budget(Budget { tokens: Some(4), ..Budget::unlimited() });
    let state = run(&agent, state, "go");
    assert_eq!((state.status(), state.text().as_str()), (&ExecutionStatus::Completed, "done"));
    assert_eq!(failures(&events), [(1, 2)]);
}

#[test]
fn a_run_that_is_cancelled_in_mid_summary_keeps_the_conversation() {
    let summarizer = FakeModel::pending();
    let (agent, events) = agent(&steps(9), limits(5, 6, 10).with_model(summarizer.clone()));
    let state = AgentState::new().with_user_message("go");
    let run = agent.start(state, RunOptions::default());
    let handle = run.handle();
    let mut finished = Box::pin(run.finish());
    assert!(run_until_stuck(finished.as_mut()).is_none());
    assert_eq!(summarizer.asked(), 1);
    handle.cancel();
    let state = run_until_stuck(finished).unwrap();
    assert_eq!(state.stop_signal().map(|it| it.reason), Some(StopReason::UserRequested));
    assert_eq!(texts(&state, "summary"), Vec::<String>::new());
    assert_eq!(texts(&state, "buffer").len() + state.transcript().len(), 3);
    assert_eq!(
        (failures(&events), events.events_of::<MessageBufferSummarized>()),
        (vec![], vec![])
    );
}

#[test]
fn the_next_turn_waits_as_long_as_it_was_told_to() {
    let summarizer = FakeModel::script([ScenarioStep::error("down"), "sum".into()]);
    let (agent, events) =
        agent(&FakeModel::script(["d", "e", "f"]), limits(2, 5, 10).with_model(summarizer.clone()));
    let state = run(&agent, talk(&["a a a", "b b b"]), "c");
    assert_eq!((summarizer.asked(), failures(&events)), (1, vec![(1, 2)]));
    let state = run(&agent, state, "g");
    assert_eq!(summarizer.asked(), 1);
    let state = run(&agent, state, "h");
    assert_eq!((summarizer.asked(), texts(&state, "summary").len()), (2, 1));
}
