//! Whatever is cut, and wherever, the conversation is one that a provider accepts.

use crate::summarization::{MessageBufferSummarized, MessagesMovedToBuffer};
use loopwright_core::AgentState;
use loopwright_testing::{FakeModel, ScenarioStep, validate};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::json;

use super::support::{agent, limits, run, whole};

/// What the model does: so many calls, with so many words.
type Plan = Vec<Vec<(usize, usize)>>;

fn words(count: usize) -> String {
    vec!["word"; count].join(" ")
}

fn live_through(plan: &Plan, messages: u64, buffer: u64) -> Result<(), String> {
    let steps = plan.iter().flat_map(|turn| {
        let calls = turn.iter().map(|(calls, said)| {
            let calls = (0..*calls).map(|_| ("scripted", json!({ "of": words(*said) })));
            ScenarioStep::tool_calls(calls).with_text(words(*said))
        });
        calls.chain([ScenarioStep::final_answer("done with that")])
    });
    let model = FakeModel::script(steps);
    let summarization = limits(messages, buffer, 10).with_model(FakeModel::script(["sum"]));
    let (agent, events) = agent(&model, summarization);
    let mut state = AgentState::new();
    for (number, _) in plan.iter().enumerate() {
        let task = format!("task {number}");
        state = run(&agent, state, &task);
        validate(&whole(&state)).map_err(|problems| problems.join("; "))?;
        let says = |turn: &std::sync::Arc<_>| {
            let turn: &loopwright_core::messages::Turn = turn;
            turn.message().text() == task
        };
        if !whole(&state).iter().any(says) {
            return Err(format!("{task} is gone"));
        }
        if state.transcript().is_empty() {
            return Err("the conversation is empty".to_owned());
        }
    }
    let turns: usize = plan.iter().map(|turn| turn.len() + 2).sum();
    let gone: usize =
        events.events_of::<MessageBufferSummarized>().iter().map(|it| it.buffer.turns).sum();
    let summary = state.section("summary").count();
    if whole(&state).len() + gone != turns + summary {
        return Err("turns were lost".to_owned());
    }
    let last = events.events_of::<MessagesMovedToBuffer>().pop();
    match last {
        Some(last) if last.kept.turns > 2 && last.kept.tokens > messages => {
            Err("more stays than fits".to_owned())
        }
        _ => Ok(()),
    }
}

#[test]
fn every_cut_leaves_a_valid_conversation_with_the_task_in_it() {
    let plan = vec(vec((1..4_usize, 0..12_usize), 0..6), 1..5);
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&(plan, 1..60_u64, 1..60_u64), |(plan, messages, buffer)| {
            live_through(&plan, messages, buffer).map_err(TestCaseError::fail)
        })
        .unwrap();
}
