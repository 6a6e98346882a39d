//! The loop: steps, executions, and what becomes of the conversation.

use std::sync::Arc;

use futures_util::StreamExt as _;
use loopwright_core::{
    AgentState, CRITERIA_RESULTS, CallableHook, ContinuationDecision, Evaluation, Execution,
    ExecutionStatus, Flow, Step, StepKind, StopDecision,
    events::ContinuationEvaluated,
    messages::{Content, FinishReason, Message, Part, Role, ToolCall, Transcript, TurnBody, Usage},
};
use loopwright_testing::{
    CurrentTraceOnly, EventRecorder, FakeDriver, FakeModel, MemoryJournal, ModelDriver,
    ScenarioStep, block_on, test_loop,
};
use serde_json::json;

use crate::support::{
    agent, asked, execute, execute_with, hooked, is_valid, options, replay, said,
};

#[test]
fn a_tool_then_an_answer_takes_two_steps_and_yields_two_states() {
    let events = EventRecorder::new();
    let agent =
        agent([ScenarioStep::tool("looking"), "done".into()]).with_event_sink(events.sink());
    let states: Vec<AgentState> = block_on(agent.iterate(asked()).collect());
    let counts: Vec<_> = states.iter().map(AgentState::step_count).collect();
    assert_eq!(counts, [1, 2]);
    let kinds: Vec<_> = states[1].execution().unwrap().steps().map(Step::kind).collect();
    assert_eq!(kinds, [StepKind::ToolExecution, StepKind::FinalResponse]);
    let evaluated: Vec<_> =
        events.events_of::<ContinuationEvaluated>().iter().map(|it| it.step).collect();
    assert_eq!(evaluated, [1, 2]);
    assert_eq!(states[1].status(), &ExecutionStatus::Completed);
}

#[test]
fn the_final_state_is_handed_out_once() {
    let mut run = agent([]).start(asked(), options());
    assert!(block_on(run.next()).is_some_and(|it| it.text() == "ok"));
    assert!(!run.has_next());
    assert!(block_on(run.next()).is_none());
    assert!(block_on(run.next()).is_none());
}

#[test]
fn requesting_continuation_once_after_an_answer_buys_one_more_step() {
    let hook = CallableHook::new("again").after_step(|state, _| {
        if state.step_count() == 1 {
            state.request_continuation();
        }
        Ok(Flow::Continue)
    });
    let state = execute(&hooked(&test_loop(FakeDriver::responses(["one", "two"])), hook), asked());
    assert_eq!((state.step_count(), state.text().as_str()), (2, "two"));
    assert_eq!(state.status(), &ExecutionStatus::Completed);
}

/// What requested the step after each step.
fn continued_by(state: &AgentState) -> Vec<Option<&str>> {
    state.steps().map(Step::continued_by).collect()
}

#[test]
fn a_step_keeps_which_hook_requested_the_next_one() {
    let hook = CallableHook::new("again").after_step(|state, _| {
        if state.step_count() == 2 {
            state.request_continuation();
        }
        Ok(Flow::Continue)
    });
    let journal = MemoryJournal::new();
    let agent = hooked(&agent([ScenarioStep::tool("looking"), "one".into(), "two".into()]), hook);
    let state = execute_with(&agent, asked(), &journal);
    assert_eq!(continued_by(&state), [None, Some("again"), None]);
    assert_eq!(replay(&journal), state);
}

#[test]
fn a_step_keeps_that_a_hook_refused_to_stop_after_it() {
    let hook = CallableHook::new("more").on_stop(|_, state, _| {
        Ok(if state.step_count() == 1 { StopDecision::Continue } else { StopDecision::Stop })
    });
    let state = execute(&hooked(&test_loop(FakeDriver::responses(["one", "two"])), hook), asked());
    assert_eq!(continued_by(&state), [Some("on_stop"), None]);
}

#[test]
fn a_step_keeps_which_criterion_requested_the_next_one() {
    let hook = CallableHook::new("criteria").after_step(|state, _| {
        let decision = match state.step_count() {
            1 => ContinuationDecision::RequestContinuation,
            _ => ContinuationDecision::AllowStop,
        };
        let evaluation = Evaluation {
            criterion: "unfinished".into(),
            decision,
            reason: String::new(),
            stop_reason: None,
        };
        state.set(&CRITERIA_RESULTS, &vec![evaluation])?;
        Ok(Flow::Continue)
    });
    let state = execute(&hooked(&test_loop(FakeDriver::responses(["one", "two"])), hook), asked());
    assert_eq!(continued_by(&state), [Some("unfinished"), None]);
}

#[test]
fn the_input_of_a_step_is_the_conversation_before_it() {
    let agent = agent([ScenarioStep::tool("looking"), "one".into(), "two".into()]);
    let state = execute(&agent, asked());
    let stored = serde_json::to_value(&state).unwrap();
    let restored = serde_json::from_value::<AgentState>(stored).unwrap();
    for state in [&state, &restored] {
        let inputs: Vec<Option<Transcript>> =
            state.steps().map(|step| state.input_of(step)).collect();
        let first = |turns| Some(state.transcript().prefix(turns));
        assert_eq!(inputs, [first(1), first(2)]);
    }
    let answered = state.step_at(1).unwrap().clone();
    let summarized = state.with_messages([Message::user("a summary")]);
    assert_eq!(summarized.input_of(&answered), None);
}

#[test]
fn a_second_execution_is_a_new_one_on_the_same_conversation() {
    let agent = agent([ScenarioStep::tool("looking"), "one".into(), "two".into()]);
    let first = execute(&agent, asked());
    let stored = serde_json::to_string(&first).unwrap();
    let restored: AgentState = serde_json::from_str(&stored).unwrap();
    assert_eq!(restored, first);
    for state in [first.clone(), restored] {
        let second = execute(&agent, state.with_user_message("and now?"));
        assert_ne!(second.execution().unwrap().id(), first.execution().unwrap().id());
        assert_eq!((second.step_count(), second.execution_count()), (1, 2));
        assert_eq!(said(&second), ["go", "looking", "one", "and now?", "two"]);
        assert_eq!(second.id(), first.id());
        assert_eq!(second.total_steps(), 3);
    }
}

#[test]
fn tool_turns_of_earlier_executions_are_hidden_and_those_of_this_one_are_shown() {
    let tool = || ScenarioStep::tool("looking");
    let model = FakeModel::script([tool(), tool(), "one".into(), tool(), "two".into()]);
    let agent = test_loop(ModelDriver::new(model.clone()))
        .with(|parts| parts.compiler = Arc::new(CurrentTraceOnly));
    let first = execute(&agent, asked());
    assert_eq!(said(&first), ["go", "looking", "looking", "one"]);
    let second = execute(&agent, first.with_user_message("again"));
    let shown: Vec<Vec<String>> = model
        .requests()
        .iter()
        .map(|it| it.prompt.turns.iter().map(|turn| turn.message().text()).collect())
        .collect();
    assert_eq!(shown[2], ["go", "looking", "looking"]);
    assert_eq!(shown[3], ["go", "one", "again"]);
    assert_eq!(shown[4], ["go", "one", "again", "looking"]);
    assert_eq!(second.transcript().len(), 7);
    is_valid(&second);
}

#[test]
fn a_reply_with_calls_and_its_results_are_one_exchange_paired_by_position() {
    let call = |text: &str| {
        Part::new(Content::ToolCall(ToolCall {
            id: None,
            name: "scripted".into(),
            arguments: text.into(),
        }))
    };
    let reply = Message::new(
        Role::Assistant,
        [Part::text("before"), call("{}"), Part::text("between"), call(" { } ")],
    );
    let expected = reply.clone();
    let driver = FakeModel::from_fn(move |request| {
        if request.prompt.turns.len() > 1 {
            return ScenarioStep::final_answer("done").to_response();
        }
        let usage = Usage::default();
        Ok(loopwright_core::messages::InferenceResponse {
            finish_reason: FinishReason::ToolCalls,
            ..loopwright_core::messages::InferenceResponse::new(reply.clone(), usage)
        })
    });
    let state = execute(&test_loop(ModelDriver::new(driver)), asked());
    let turn = state.transcript().get(1).unwrap();
    let TurnBody::ToolExchange(exchange) = turn.body() else { panic!("{turn:?}") };
    assert_eq!(exchange.reply(), &expected);
    assert_eq!(exchange.results().len(), 2);
    let meta = turn.meta();
    assert_eq!(meta.execution.as_ref(), state.execution().map(Execution::id));
    assert_eq!((meta.step, meta.is_trace), (Some(1), true));
    let answer = state.transcript().last().unwrap();
    assert!(matches!(answer.body(), TurnBody::Reply(_)));
    assert_eq!((answer.meta().step, answer.meta().is_trace), (Some(2), false));
}

#[test]
fn arguments_stay_as_the_model_wrote_them_byte_for_byte() {
    let raw = r#"{"b":1.0e2,"a":  "x", "a": 2}"#;
    let agent = agent([ScenarioStep::raw_tool_calls([("scripted", raw)]), "done".into()]);
    let state = execute(&agent, asked());
    let stored: AgentState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    for state in [state, stored] {
        let turn = Arc::clone(state.transcript().get(1).unwrap());
        let written: Vec<_> = turn.message().tool_calls().map(|it| &*it.arguments).collect();
        assert_eq!(written, [raw]);
    }
}

#[test]
fn a_snapshot_and_an_append_share_all_turns_at_any_length() {
    for len in [10, 10_000] {
        let turns: Transcript = (0..len)
            .map(|_| loopwright_core::messages::Turn::from_message(Message::user("x")).unwrap())
            .collect();
        let before = AgentState::new().with_transcript(turns);
        let after = before.clone().with_user_message("y");
        let pairs = before.transcript().iter().zip(after.transcript());
        assert_eq!(pairs.filter(|(one, other)| Arc::ptr_eq(one, other)).count(), len);
        assert!(after.transcript().starts_with(before.transcript()));
    }
}

#[test]
fn the_same_answers_make_the_same_state_byte_for_byte() {
    let run = || {
        let steps = [
            ScenarioStep::tool_calls([("scripted", json!({})), ("missing", json!({ "a": 1 }))]),
            "done".into(),
        ];
        let state = execute(&agent(steps), asked());
        (serde_json::to_string(&state).unwrap(), state)
    };
    assert_eq!(run(), run());
}

#[test]
fn an_answer_that_says_nothing_completes_without_a_turn() {
    let state = execute(&agent(["".into()]), asked());
    assert_eq!(state.status(), &ExecutionStatus::Completed);
    assert_eq!(said(&state), ["go"]);
    assert!(!state.has_final_response());
}

#[test]
fn refusals_and_filtered_answers_are_outcomes_and_not_failures() {
    for finish in [FinishReason::Length, FinishReason::ContentFilter, FinishReason::Refusal] {
        let step = ScenarioStep::final_answer("part").with_finish(finish.clone());
        let state = execute(&agent([step]), asked());
        assert_eq!(state.status(), &ExecutionStatus::Completed);
        assert_eq!(state.last_step().unwrap().finish_reason(), Some(&finish));
        assert_eq!(state.text(), "part");
    }
}
