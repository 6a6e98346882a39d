//! What a state remembers, and in which form.

use std::time::Duration;

use loopwright_core::{
    AgentState, BoxError, Budget, Change, Clock as _, Edit, ExecutionStatus, LlmConfig, RunOptions,
    Step, StopReason, StopSignal, Timestamp,
    messages::{AgentId, Message, Role, Usage},
};
use loopwright_testing::{
    FakeDriver, FakeModel, FrozenClock, MemoryJournal, MockTool, ModelDriver, ScenarioStep,
    block_on, run_until_stuck, test_loop,
};
use serde_json::{Value, json};

use crate::support::{agent, asked, execute, execute_with, is_valid, options, replay, said};

#[track_caller]
#[expect(clippy::unwrap_used, reason = "the lint spares tests, but not what they share")]
fn round_trip(state: &AgentState) -> AgentState {
    let restored: AgentState =
        serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap();
    assert_eq!(&restored, state);
    restored
}

#[test]
fn a_stored_state_without_an_execution_stays_without_one() {
    let state = AgentState::new();
    assert_eq!(round_trip(&state).execution(), None);
    let stored = json!({ "execution": null });
    let restored: AgentState = serde_json::from_value(stored).unwrap();
    assert_eq!((restored.execution(), restored.status()), (None, &ExecutionStatus::Pending));
}

#[test]
fn malformed_dates_of_a_stored_state_read_as_none() {
    let state = execute(&agent([]), asked());
    let stored = serde_json::to_value(&state).unwrap();
    for malformed in
        [json!("yesterday"), json!("2026-13-01T00:00:00Z"), json!(7), json!({}), json!(null)]
    {
        for key in ["created_at", "updated_at"] {
            let mut stored = stored.clone();
            stored[key] = malformed.clone();
            let restored: AgentState = serde_json::from_value(stored).unwrap();
            let kept = |own: &str| state.created_at().filter(|_| own != key);
            let expect = (kept("created_at"), kept("updated_at"));
            assert_eq!((restored.created_at(), restored.updated_at()), expect, "{malformed}");
            assert_eq!(restored.transcript(), state.transcript(), "nothing else is lost");
        }
    }
    assert!(state.created_at().is_some() && state.created_at() == state.updated_at());
}

#[test]
fn ids_configuration_and_stamps_survive_the_round_trip() {
    let budget = Budget {
        steps: Some(4),
        time: Some(Duration::from_millis(1500)),
        deadline: Some(FrozenClock::new().now().plus(Duration::from_hours(1))),
        ..Budget::default()
    };
    let state = asked()
        .with_budget(budget)
        .with_llm(LlmConfig::named("openai/gpt"))
        .with_parent(AgentId::new("parent"))
        .with_system_prompt("Be brief.")
        .with_metadata("color", "red");
    let state = execute(&agent([ScenarioStep::tool("looking"), "done".into()]), state);
    let restored = round_trip(&state);
    assert_eq!(restored.id(), state.id());
    assert_eq!(restored.budget(), &budget);
    assert_eq!(restored.llm().unwrap().model.as_deref(), Some("gpt"));
    let stored = serde_json::to_value(&state).unwrap();
    assert_eq!(stored["created_at"], "2026-01-01T00:00:00.000Z");
}

#[test]
fn a_state_in_the_middle_of_a_step_survives_the_round_trip() {
    let agent =
        agent([ScenarioStep::tool_call("hang", json!({}))]).with_tool(MockTool::hanging("hang"));
    let journal = MemoryJournal::new();
    let mut run = agent.start(asked(), crate::support::journaled(&journal));
    assert!(run_until_stuck(run.next()).is_none());
    assert_eq!(run.state().execution().unwrap().open_step().unwrap().calls().len(), 1);
    round_trip(run.state());
}

#[test]
fn a_stamp_is_written_in_utc_with_milliseconds() {
    let stamp: Timestamp = "2026-03-04T05:06:07.089Z".parse().unwrap();
    assert_eq!(stamp.to_string(), "2026-03-04T05:06:07.089Z");
    assert_eq!(serde_json::to_value(stamp).unwrap(), json!("2026-03-04T05:06:07.089Z"));
}

#[test]
fn only_a_final_step_that_says_something_gives_a_final_answer() {
    #[track_caller]
    fn check(steps: impl IntoIterator<Item = ScenarioStep>, expect: Option<&str>) -> AgentState {
        let budget = Budget { steps: Some(1), ..Budget::default() };
        let state = execute(&agent(steps), asked().with_budget(budget));
        assert_eq!(state.final_response().map(Message::text).as_deref(), expect);
        assert_eq!(state.has_final_response(), expect.is_some());
        state
    }
    check(["yes".into()], Some("yes"));
    check([" \n ".into()], None);
    check([ScenarioStep::error("down")], None);
    let state = check([ScenarioStep::tool("looking")], None);
    assert_eq!(state.current_response().map(Message::text).as_deref(), Some("looking"));
    assert!(state.into_result().unwrap_err().to_string().contains("steps_limit"));
}

#[test]
fn messages_that_are_set_replace_the_conversation_and_appended_ones_follow_it() {
    let texts =
        |texts: &[&'static str]| texts.iter().map(|it| Message::user(*it)).collect::<Vec<_>>();
    let state = asked().with_appended_messages(texts(&["one", "two"]));
    assert_eq!(said(&state), ["go", "one", "two"]);
    let state = state.with_messages(texts(&["three", "", "four"]));
    assert_eq!(said(&state), ["three", "four"]);
    assert_eq!(said(&state.with_messages([])), [""; 0]);
}

#[test]
fn each_step_has_an_id_of_its_own_that_survives_the_round_trip() {
    let agent = agent([ScenarioStep::tool("looking"), ScenarioStep::error("down")]);
    let first = execute(&agent, asked());
    let second = execute(&agent, first.clone().with_user_message("again"));
    let ids = |state: &AgentState| state.steps().map(Step::id).collect::<Vec<_>>();
    let mut all = [ids(&first), ids(&second)].concat();
    assert_eq!(ids(&round_trip(&first)), ids(&first));
    assert_eq!(all[0], format!("{}/1", first.execution().unwrap().id()));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 3);
}

#[test]
fn an_unfinished_second_execution_has_no_final_answer() {
    let first = execute(&agent([]), asked());
    assert!(first.has_final_response());
    let deaf = test_loop(ModelDriver::new(FakeModel::ignoring_cancel()));
    let mut run = deaf.start(first.with_user_message("again"), options());
    assert!(run_until_stuck(run.next()).is_none());
    assert_eq!(run.state().final_response(), None);
    assert_eq!(run.state().text(), "");
}

#[test]
fn a_duration_is_measured_below_one_second_on_the_monotonic_clock() {
    let clock = FrozenClock::new();
    let slow = clock.clone();
    let wait = MockTool::new("wait", "", move |_| {
        slow.advance(Duration::from_micros(1500));
        // The machine's clock is set back by years meanwhile.
        slow.set_time_of_day(loopwright_core::Timestamp::from_millis(1_000_000));
        Ok::<_, BoxError>("waited")
    });
    let agent = agent([ScenarioStep::tool_call("wait", json!({})), "done".into()]).with_tool(wait);
    let options = RunOptions { env: clock.env(1), ..options() };
    let state = block_on(agent.start(asked(), options).finish());
    assert_eq!(state.step_at(0).unwrap().duration(), Duration::from_micros(1500));
    assert_eq!(state.execution().unwrap().worked(), Duration::from_micros(1500));
    assert_eq!(state.cumulative_time(), Duration::from_micros(1500));
    assert_eq!(
        state.execution().unwrap().ended_at().map(loopwright_core::Timestamp::millis),
        Some(1_000_000)
    );
}

#[test]
fn a_change_moves_the_updated_stamp_and_never_the_created_one() {
    let clock = FrozenClock::new();
    let run = |state: AgentState| {
        let options = RunOptions { env: clock.env(1), ..options() };
        block_on(agent([]).start(state, options).finish())
    };
    let first = run(asked());
    assert_eq!(first.created_at(), first.updated_at());
    clock.advance(Duration::from_mins(1));
    let second = run(first.clone().with_user_message("again"));
    assert_eq!(second.created_at(), first.created_at());
    assert_eq!(
        second.updated_at().unwrap().since(first.updated_at().unwrap()),
        Duration::from_mins(1)
    );
}

#[test]
fn edits_outside_a_run_are_stamped_by_the_next_one_as_the_journal_has_them() {
    let (clock, journal) = (FrozenClock::new(), MemoryJournal::new());
    let question = || loopwright_core::ApprovalRequest::new("?", "approval");
    let hook = loopwright_core::CallableHook::new("approval")
        .before_tool(move |_, _, _| Ok(loopwright_core::ToolDecision::Ask(question())));
    let agent = crate::support::hooked(&agent([ScenarioStep::tool("looking")]), hook);
    let run = |state| {
        let options = RunOptions { env: clock.env(1), ..crate::support::journaled(&journal) };
        block_on(agent.start(state, options).finish())
    };
    let paused = run(asked());
    clock.advance(Duration::from_secs(1));
    // Nobody has decided: the run only keeps what was said.
    let paused = run(paused.with_user_message("hurry up"));
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    assert_eq!(replay(&journal), paused);
}

#[test]
fn edits_of_a_caller_wait_for_a_journal() {
    let state = asked().with_metadata("color", json!("red"));
    assert_eq!(
        state.unsaved_changes().map(Change::name).collect::<Vec<_>>(),
        ["state_edited", "state_edited"]
    );
    assert_eq!(state.seq(), 2);
    let journal = MemoryJournal::new();
    let state = execute_with(&agent([]), state, &journal);
    assert_eq!(state.unsaved_changes().count(), 0);
    assert_eq!(state.seq(), journal.changes().len() as u64);
    assert_eq!(replay(&journal), state);
}

#[test]
fn an_empty_message_is_not_said() {
    let state =
        AgentState::new().with_user_message("  ").with_message(Message::new(Role::User, []));
    assert!(state.transcript().is_empty());
}

#[test]
fn sums_of_executions_and_of_the_state() {
    let step = |tokens| ScenarioStep::final_answer("ok").with_usage(Usage::new(tokens, 1));
    let agent = test_loop(FakeDriver::steps([step(2), step(5)]));
    let first = execute(&agent, asked());
    let second = execute(&agent, first.with_user_message("again"));
    assert_eq!((second.usage().total(), second.total_spent().usage.total()), (6, 9));
    assert_eq!((second.step_count(), second.total_steps()), (1, 2));
}

#[test]
fn a_caller_cannot_decide_about_a_call_that_is_over() {
    let state = execute(&agent([ScenarioStep::tool("looking"), "done".into()]), asked());
    let edit = Edit::Resolve { call: 0, resolution: loopwright_core::ApprovalDecision::Approve };
    assert_eq!(state.clone().edit(edit).execution(), state.execution());
}

#[test]
fn stop_reasons_are_written_as_the_contract_has_them() {
    let written: Vec<Value> =
        StopReason::ALL.iter().map(|it| serde_json::to_value(it).unwrap()).collect();
    let names: Vec<&str> = StopReason::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(written, names);
    assert_eq!(
        names,
        [
            "error",
            "stop_requested",
            "user_requested",
            "steps_limit",
            "token_limit",
            "time_limit",
            "cost_limit",
            "retry_limit",
            "finish_reason",
            "completed",
            "unknown",
        ]
    );
    let ranks: Vec<usize> = StopReason::ALL.iter().map(|it| it.priority()).collect();
    assert!(ranks.is_sorted());
    assert_eq!(StopSignal::strongest([]), None);
}

#[test]
fn dropping_an_execution_keeps_what_it_said() {
    let agent =
        agent([ScenarioStep::tool_call("hang", json!({}))]).with_tool(MockTool::hanging("hang"));
    let mut run = agent.start(asked(), options());
    assert!(run_until_stuck(run.next()).is_none());
    let state = run.into_state().for_next_execution();
    assert_eq!((state.execution(), said(&state).len()), (None, 2));
    is_valid(&state);
}

#[test]
fn tool_calls_of_all_executions_come_with_their_results_in_order() {
    let model = FakeModel::script([
        ScenarioStep::tool_call("look", json!({ "at": 1 })),
        "one".into(),
        ScenarioStep::tool_call("look", json!({ "at": 2 })),
        "two".into(),
    ]);
    let agent =
        test_loop(ModelDriver::new(model)).with_tool(MockTool::returning("look", "", "seen"));
    let state = execute(&agent, asked());
    let state = execute(&agent, state.with_user_message("and now?"));
    let calls: Vec<_> =
        state.tool_calls().map(|(call, result)| (&*call.arguments, result.to_text())).collect();
    assert_eq!(calls, [(r#"{"at":1}"#, "seen".to_owned()), (r#"{"at":2}"#, "seen".to_owned())]);
}
