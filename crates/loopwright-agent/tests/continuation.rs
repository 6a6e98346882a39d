//! Whether another step is taken: criteria, and what the loop makes of them.

use std::{sync::Arc, time::Duration};

use loopwright_agent::{
    AgentBuilder, ContinuationCriteria, CriterionResult, ErrorPolicy, UseContinuation, UseGuards,
    UseHook,
    continuation::{
        FnCriterion, always, cumulative_execution_time_limit, error_policy, error_presence,
        execution_time_limit, finish_reason, response_content, retry_limit, steps_limit,
        token_usage_limit, tool_call_presence,
    },
};
use loopwright_core::{
    AgentState, Budget, CallableHook, Clock as _, ContinuationDecision, ContinuationOutcome,
    ErrorDecision, Evaluation, ExecutionStatus, Flow, RunOptions, StopDecision, StopReason,
    StopSignal, Timestamp,
    events::ContinuationEvaluated,
    messages::{FinishReason, Usage},
};
use loopwright_testing::{FrozenClock, ScenarioStep, block_on};
use proptest::prelude::*;

use crate::support::{asked, execute, recorded, scripted, stopped, with};

use ContinuationDecision::{AllowContinuation, AllowStop, ForbidContinuation, RequestContinuation};

const DECISIONS: [ContinuationDecision; 4] =
    [ForbidContinuation, RequestContinuation, AllowStop, AllowContinuation];

fn voice(criterion: &str, decision: ContinuationDecision) -> Evaluation {
    Evaluation { criterion: criterion.into(), decision, reason: String::new(), stop_reason: None }
}

#[track_caller]
fn check_table(decisions: &[ContinuationDecision], expect: (bool, &str, Option<StopReason>)) {
    let names = ["first", "second", "third"];
    let voices = names.iter().zip(decisions).map(|(name, it)| voice(name, *it)).collect();
    let outcome = ContinuationOutcome::resolve(voices);
    assert_eq!((outcome.should_continue, &*outcome.resolved_by, outcome.stop_reason), expect);
}

#[test]
fn forbid_wins_over_request_and_request_over_stop_and_stop_over_allow() {
    let stop = |by| (false, by, Some(StopReason::Completed));
    let forbidden = |by| (false, by, Some(StopReason::StopRequested));
    let go = |by| (true, by, None);
    check_table(&[], stop("default"));
    check_table(&[AllowContinuation], go("first"));
    check_table(&[AllowContinuation, AllowStop], stop("second"));
    check_table(&[AllowStop, AllowContinuation, RequestContinuation], go("third"));
    check_table(&[RequestContinuation, ForbidContinuation], forbidden("second"));
    check_table(&[ForbidContinuation, ForbidContinuation], forbidden("first"));
    check_table(&[RequestContinuation, AllowStop, RequestContinuation], go("first"));
}

#[test]
fn the_strongest_reason_of_forbidding_criteria_is_reported() {
    let forbid = |name: &str, reason| {
        let stop_reason = Some(reason);
        Evaluation { stop_reason, ..voice(name, ForbidContinuation) }
    };
    let outcome = ContinuationOutcome::resolve(vec![
        forbid("tokens", StopReason::TokenLimitReached),
        forbid("error", StopReason::ErrorForbade),
        forbid("steps", StopReason::StepsLimitReached),
    ]);
    assert_eq!(outcome.stop_reason, Some(StopReason::ErrorForbade));
    assert_eq!(&*outcome.resolved_by, "error");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_in_which_criteria_speak_makes_no_difference(
        spoken in prop::collection::vec((0..4_usize, prop::option::of(0..11_usize)), 0..8),
        order in any::<prop::sample::Index>(),
    ) {
        let voices: Vec<Evaluation> = spoken
            .iter()
            .map(|(decision, reason)| Evaluation {
                stop_reason: reason.map(|it| StopReason::ALL[it]),
                ..voice("somebody", DECISIONS[*decision])
            })
            .collect();
        let mut turned = voices.clone();
        turned.reverse();
        if !turned.is_empty() {
            turned.rotate_left(order.index(voices.len()));
        }
        let (one, other) = (ContinuationOutcome::resolve(voices), ContinuationOutcome::resolve(turned));
        prop_assert_eq!(one.should_continue, other.should_continue);
        prop_assert_eq!(one.stop_reason, other.stop_reason);
        let has = |decision| one.evaluations.iter().any(|it| it.decision == decision);
        let expect = !has(ForbidContinuation)
            && (has(RequestContinuation) || (!has(AllowStop) && has(AllowContinuation)));
        prop_assert_eq!(one.should_continue, expect);
    }
}

fn now() -> Timestamp {
    FrozenClock::new().now()
}

#[test]
fn criteria_can_be_asked_in_tests() {
    let criteria = ContinuationCriteria::new()
        .with(steps_limit(1))
        .when("never_enough", |_| RequestContinuation);
    let fresh = criteria.evaluate(&AgentState::new(), now());
    assert_eq!((fresh.should_continue, &*fresh.resolved_by), (true, "never_enough"));

    let state = execute(&scripted(["done"]).build().unwrap(), asked());
    let outcome = criteria.evaluate(&state, now());
    let forbid = Evaluation {
        reason: "1 of 1 used".into(),
        stop_reason: Some(StopReason::StepsLimitReached),
        ..voice("steps_limit", ForbidContinuation)
    };
    let request = Evaluation {
        reason: "the closure decided".into(),
        ..voice("never_enough", RequestContinuation)
    };
    let expect = ContinuationOutcome {
        should_continue: false,
        resolved_by: "steps_limit".into(),
        stop_reason: Some(StopReason::StepsLimitReached),
        evaluations: vec![forbid, request],
    };
    assert_eq!(outcome, expect);
    let text = "STOP, decided by steps_limit: steps_limit forbids another step (1 of 1 used); \
                never_enough requests another step (the closure decided)";
    assert_eq!(outcome.explain(), text);
    assert_eq!(format!("{criteria:?}"), r#"["steps_limit", "never_enough"]"#);
}

#[test]
fn without_criteria_the_run_stops() {
    let outcome = ContinuationCriteria::new().evaluate(&AgentState::new(), now());
    assert_eq!((outcome.should_continue, &*outcome.resolved_by), (false, "default"));
}

fn usage(step: ScenarioStep) -> ScenarioStep {
    step.with_usage(Usage::new(8, 2))
}

/// One tool step of ten tokens.
fn working() -> AgentState {
    let steps = [usage(ScenarioStep::tool("looking")), ScenarioStep::error("down")];
    let state = execute(&scripted(steps).build().unwrap(), asked());
    assert_eq!(state.step_count(), 2);
    state
}

/// One answer of ten tokens.
fn answered() -> AgentState {
    execute(&scripted([usage("forty two".into())]).build().unwrap(), asked())
}

/// A tool that is not there, then a model that does not respond.
fn troubled() -> AgentState {
    let steps =
        [ScenarioStep::tool_call("missing", serde_json::json!({})), ScenarioStep::error("down")];
    execute(&scripted(steps).build().unwrap(), asked())
}

/// One step that takes so long.
fn worked(time: Duration) -> AgentState {
    let clock = FrozenClock::new();
    let advance = clock.clone();
    let slow = CallableHook::new("slow").before_step(move |_, _| {
        advance.advance(time);
        Ok(Flow::Continue)
    });
    let options = RunOptions { env: clock.env(1), ..RunOptions::default() };
    let agent = with(scripted(["done"]), UseHook::new(slow));
    block_on(agent.start(asked(), options).finish())
}

/// What one criterion says.
#[track_caller]
fn check(
    criteria: &ContinuationCriteria,
    state: &AgentState,
    decision: ContinuationDecision,
    reason: impl Into<Option<StopReason>>,
) {
    let said = criteria.evaluations(state, now());
    let [said] = &said[..] else { panic!("one voice: {said:?}") };
    assert_eq!((said.decision, said.stop_reason), (decision, reason.into()), "{}", said.reason);
}

fn only(criterion: impl loopwright_agent::ContinuationCriterion + 'static) -> ContinuationCriteria {
    ContinuationCriteria::new().with(criterion)
}

#[test]
fn limits_forbid_at_their_edge_and_allow_below_it() {
    use StopReason::{RetryLimitReached, StepsLimitReached, TimeLimitReached, TokenLimitReached};
    let (working, troubled) = (working(), troubled());
    check(&only(steps_limit(2)), &working, ForbidContinuation, StepsLimitReached);
    check(&only(steps_limit(3)), &working, AllowContinuation, None);
    check(&only(steps_limit(0)), &AgentState::new(), ForbidContinuation, StepsLimitReached);
    check(&only(token_usage_limit(10)), &working, ForbidContinuation, TokenLimitReached);
    check(&only(token_usage_limit(11)), &working, AllowContinuation, None);
    check(&only(retry_limit(2)), &troubled, ForbidContinuation, RetryLimitReached);
    check(&only(retry_limit(3)), &troubled, AllowContinuation, None);
    check(&only(retry_limit(2)), &working, AllowContinuation, None);
    let second = Duration::from_secs(1);
    let none = Duration::ZERO;
    check(&only(execution_time_limit(none)), &working, ForbidContinuation, TimeLimitReached);
    check(&only(execution_time_limit(second)), &working, AllowContinuation, None);
    let cumulative = cumulative_execution_time_limit;
    check(&only(cumulative(none)), &working, ForbidContinuation, TimeLimitReached);
    check(&only(cumulative(second)), &working, AllowContinuation, None);

    check(
        &only(execution_time_limit(second)),
        &worked(second),
        ForbidContinuation,
        TimeLimitReached,
    );
    check(&only(execution_time_limit(second * 2)), &worked(second), AllowContinuation, None);
    check(&only(cumulative(second)), &worked(second), ForbidContinuation, TimeLimitReached);
    let later = now().plus(second);
    assert!(only(execution_time_limit(second)).evaluate(&working, later).should_continue);
}

#[test]
fn errors_forbid_where_a_policy_or_their_presence_says_so() {
    use StopReason::ErrorForbade;
    let (answered, troubled) = (answered(), troubled());
    check(&only(error_presence()), &troubled, ForbidContinuation, ErrorForbade);
    check(&only(error_presence()), &answered, AllowContinuation, None);
    check(&only(error_presence()), &AgentState::new(), AllowContinuation, None);
    let strict = ErrorPolicy::stop_on_any_error();
    check(&only(error_policy(strict)), &troubled, ForbidContinuation, ErrorForbade);
    check(&only(error_policy(strict)), &answered, AllowContinuation, None);
    let patient = ErrorPolicy::retry_all(3);
    check(&only(error_policy(patient)), &troubled, AllowContinuation, None);
    let used_up = ErrorPolicy::retry_all(2);
    check(&only(error_policy(used_up)), &troubled, ForbidContinuation, ErrorForbade);
}

#[test]
fn a_finish_reason_forbids_and_words_request_and_never_forbid() {
    let (answered, fresh) = (answered(), AgentState::new());
    let finish = StopReason::FinishReasonReceived;
    check(&only(finish_reason([FinishReason::Stop])), &answered, ForbidContinuation, finish);
    check(&only(finish_reason([FinishReason::Length])), &answered, AllowContinuation, None);
    check(&only(finish_reason([FinishReason::Stop])), &fresh, AllowContinuation, None);
    let content = |word: &'static str| only(response_content(move |text| text.contains(word)));
    check(&content("two"), &answered, AllowStop, None);
    check(&content("three"), &answered, RequestContinuation, None);
    check(&content("two"), &fresh, AllowContinuation, None);
}

#[test]
fn tool_calls_request_and_always_says_the_same() {
    check(&only(tool_call_presence()), &AgentState::new(), RequestContinuation, None);
    check(&only(tool_call_presence()), &answered(), AllowStop, None);
    let mut run = with(scripted([ScenarioStep::tool("looking")]), UseGuards::none())
        .start(asked(), RunOptions::default());
    let looking = block_on(run.next()).unwrap().clone();
    check(&only(tool_call_presence()), &looking, RequestContinuation, None);
    for decision in DECISIONS {
        check(&only(always(decision)), &AgentState::new(), decision, None);
    }
}

/// An agent that answers `one`, `two` and so on, and asks these criteria.
fn counting(criteria: ContinuationCriteria) -> AgentBuilder {
    scripted(["one", "two", "three", "four"]).with_capability(UseContinuation(criteria))
}

#[test]
fn a_request_buys_steps_until_the_criterion_is_content() {
    let criteria =
        ContinuationCriteria::new().with(response_content(|text| text.contains("three")));
    let state = execute(&counting(criteria).build().unwrap(), asked());
    assert_eq!((state.step_count(), state.text().as_str()), (3, "three"));
    assert_eq!(state.status(), &ExecutionStatus::Completed);
    assert_eq!(state.explain_stop(), "completed after 3 steps: the model called no tools");
}

#[test]
fn a_request_buys_steps_until_a_limit_forbids() {
    let endless = || ContinuationCriteria::new().with(always(RequestContinuation));
    let limited = endless().with(steps_limit(2));
    let state = execute(&counting(limited).build().unwrap(), asked());
    assert_eq!(state.step_count(), 2);
    assert_eq!(stopped(&state), Some((StopReason::StepsLimitReached, "steps_limit".into())));
    let text = "stopped after 2 steps by steps_limit: steps_limit: 2 of 2 used";
    assert_eq!(state.explain_stop(), text);

    let state = execute(
        &with(counting(endless()), UseGuards::new(Budget::unlimited().with_steps(3))),
        asked(),
    );
    assert_eq!(state.step_count(), 3);
    assert_eq!(stopped(&state), Some((StopReason::StepsLimitReached, "guard:steps_limit".into())));
}

#[test]
fn criteria_are_asked_before_the_first_step() {
    let state = execute(&counting(only(steps_limit(0))).build().unwrap(), asked());
    assert_eq!(state.step_count(), 0);
    assert_eq!(stopped(&state), Some((StopReason::StepsLimitReached, "steps_limit".into())));
    let state = execute(&counting(only(always(AllowStop))).build().unwrap(), asked());
    assert_eq!(state.text(), "one");
}

/// What the loop told of each decision: the step, whether it continues, who decided, and the voices.
#[track_caller]
fn decisions(builder: &AgentBuilder) -> Vec<(u32, bool, String, Vec<String>)> {
    let (_, events) = recorded(&builder.build().unwrap(), asked());
    let told = |it: ContinuationEvaluated| {
        let voices = it.outcome.evaluations.iter();
        let voices = voices.map(|it| format!("{} {:?}", it.criterion, it.decision)).collect();
        (it.step, it.outcome.should_continue, it.outcome.resolved_by.to_string(), voices)
    };
    events.events_of::<ContinuationEvaluated>().into_iter().map(told).collect()
}

#[test]
fn every_voice_is_part_of_the_event() {
    let criteria = ContinuationCriteria::new()
        .with(steps_limit(2))
        .when("more", |_| RequestContinuation)
        .when("whatever", |_| AllowContinuation);
    let told = decisions(&counting(criteria));
    let voices = |it: &[&str]| it.iter().map(ToString::to_string).collect::<Vec<_>>();
    let first = voices(&[
        "continuation RequestContinuation",
        "steps_limit AllowContinuation",
        "more RequestContinuation",
        "whatever AllowContinuation",
        "tool_calls AllowStop",
    ]);
    let second = voices(&[
        "steps_limit ForbidContinuation",
        "more RequestContinuation",
        "whatever AllowContinuation",
    ]);
    let expect =
        [(1, true, "continuation".into(), first), (2, false, "steps_limit".into(), second)];
    assert_eq!(told, expect);
}

#[test]
fn criteria_of_two_capabilities_all_speak() {
    let one = UseContinuation(ContinuationCriteria::new().when("one", |_| AllowContinuation));
    let other = UseContinuation(ContinuationCriteria::new().when("other", |_| AllowStop));
    let told = decisions(&scripted(["done"]).with_capability(one).with_capability(other));
    let voices = ["one AllowContinuation", "other AllowStop", "tool_calls AllowStop"];
    let [(1, false, _, said)] = &told[..] else { panic!("one decision: {told:?}") };
    assert_eq!(*said, voices);
}

#[test]
fn a_criterion_that_forbids_is_stronger_than_one_that_requests() {
    let criteria = ContinuationCriteria::new()
        .when("enough", |state| match state.step_count() {
            2.. => ForbidContinuation,
            _ => AllowContinuation,
        })
        .with(always(RequestContinuation));
    let state = execute(&counting(criteria).build().unwrap(), asked());
    assert_eq!((state.step_count(), state.text().as_str()), (2, "two"));
    assert_eq!(stopped(&state), Some((StopReason::StopRequested, "enough".into())));
}

#[test]
fn a_forbidding_criterion_raises_its_signal_beside_one_of_the_same_name() {
    for limits in [[2, 4], [4, 2]] {
        let criteria = limits
            .into_iter()
            .fold(ContinuationCriteria::new(), |criteria, max| criteria.with(steps_limit(max)))
            .with(always(RequestContinuation));
        let state = execute(&counting(criteria.clone()).build().unwrap(), asked());
        assert_eq!(state.step_count(), 2);
        assert_eq!(stopped(&state), Some((StopReason::StepsLimitReached, "steps_limit".into())));
        assert_eq!(state.status().as_str(), "stopped");
        let told = decisions(&counting(criteria));
        let mut voices = told.last().unwrap().3.clone();
        voices.sort();
        let expect = [
            "always RequestContinuation",
            "steps_limit AllowContinuation",
            "steps_limit ForbidContinuation",
        ];
        assert_eq!(voices, expect);
    }
}

#[test]
fn two_criteria_of_one_name_that_forbid_are_both_told() {
    let criteria = only(steps_limit(1)).with(steps_limit(1));
    let told = decisions(&counting(criteria));
    assert_eq!(told.last().unwrap().3, ["steps_limit ForbidContinuation"; 2]);
}

/// Wants another step at every point where a hook may want one.
fn insisting() -> UseHook {
    let hook = CallableHook::new("insisting")
        .after_step(|state, _| {
            state.request_continuation();
            Ok(Flow::Continue)
        })
        .on_stop(|_, state, _| {
            for reason in StopReason::ALL {
                state.withdraw(reason);
            }
            state.request_continuation();
            Ok(StopDecision::Continue)
        });
    UseHook::new(hook)
}

#[test]
fn nothing_overrules_a_criterion_that_forbids() {
    let forbidding = || {
        ContinuationCriteria::new().when("enough", |state| match state.step_count() {
            0 => AllowContinuation,
            _ => ForbidContinuation,
        })
    };
    let limited = |criteria| {
        with(
            counting(criteria).with_capability(UseGuards::new(Budget::unlimited().with_steps(4))),
            insisting(),
        )
    };
    let state = execute(&limited(forbidding()), asked());
    assert_eq!(state.step_count(), 1);
    assert_eq!(stopped(&state), Some((StopReason::StopRequested, "enough".into())));
    assert_eq!(state.status().as_str(), "stopped");
    let finish = only(finish_reason([FinishReason::Stop]));
    let state = execute(&limited(finish), asked());
    assert_eq!((state.step_count(), state.status()), (1, &ExecutionStatus::Completed));
    assert_eq!(stopped(&state), Some((StopReason::FinishReasonReceived, "finish_reason".into())));
}

#[test]
fn a_criterion_that_forbids_the_first_step_is_not_overruled_either() {
    let criteria = ContinuationCriteria::new().when("closed", |_| ForbidContinuation);
    let state = execute(&with(counting(criteria), insisting()), asked());
    assert_eq!(state.step_count(), 0);
    assert_eq!(stopped(&state), Some((StopReason::StopRequested, "closed".into())));
}

#[test]
fn evaluations_of_criteria_hold_for_one_step() {
    let criteria = ContinuationCriteria::new().with(always(RequestContinuation));
    let limited =
        counting(criteria).with_capability(UseGuards::new(Budget::unlimited().with_steps(3)));
    let stop = CallableHook::new("stop").before_step(|state, _| {
        Ok(match state.step_count() {
            1 => Flow::Stop(StopSignal::requested("stop", "that is enough")),
            _ => Flow::Continue,
        })
    });
    let (state, events) = recorded(&with(limited, UseHook::new(stop)), asked());
    assert_eq!(state.step_count(), 1);
    assert_eq!(stopped(&state), Some((StopReason::StopRequested, "stop".into())));
    // The criterion has spoken after the step, and that counted; before the next one it has no voice.
    let told = events.events_of::<ContinuationEvaluated>().into_iter().map(|it| it.outcome);
    let voices = told.map(|it| it.evaluations.into_iter().map(|it| it.criterion.to_string()));
    let voices: Vec<Vec<_>> = voices.map(Iterator::collect).collect();
    assert_eq!(voices, [vec!["continuation", "always", "tool_calls"], vec!["stop"]]);
}

#[test]
fn a_final_finish_reason_and_a_criterion_that_wants_more_end_with_the_answer_that_is_enough() {
    let criteria = only(response_content(|text| text.contains("enough")));
    let agent = scripted(["enough".into(), ScenarioStep::tool("looking"), "enough now".into()])
        .with_capability(
            UseGuards::new(Budget::unlimited().with_steps(6))
                .with_finish_reasons([FinishReason::Stop]),
        )
        .with_capability(UseContinuation(criteria))
        .build()
        .unwrap();
    let first = execute(&agent, asked());
    assert_eq!((first.step_count(), first.text().as_str()), (1, "enough"));
    // What was requested after the call does not speak for the answer.
    let second = execute(&agent, first.with_user_message("again"));
    assert_eq!((second.step_count(), second.text().as_str()), (2, "enough now"));
    assert_eq!(stopped(&second).map(|it| it.0), Some(StopReason::FinishReasonReceived));
}

#[test]
fn a_criterion_that_wants_more_overrules_a_final_finish_reason() {
    let agent = scripted(["one", "two", "enough"])
        .with_capability(
            UseGuards::new(Budget::unlimited().with_steps(6))
                .with_finish_reasons([FinishReason::Stop]),
        )
        .with_capability(UseContinuation(only(response_content(|text| text == "enough"))));
    let state = execute(&agent.build().unwrap(), asked());
    assert_eq!((state.step_count(), state.text().as_str()), (3, "enough"));
}

#[test]
fn criteria_are_asked_about_the_step_after_which_an_error_policy_stops() {
    let strict = loopwright_agent::UseErrorPolicy(ErrorPolicy::stop_on_any_error());
    let steps = [ScenarioStep::tool_call("missing", serde_json::json!({}))];
    let criteria = ContinuationCriteria::new().when("steps", |state| match state.step_count() {
        0 => AllowContinuation,
        _ => RequestContinuation,
    });
    let told = decisions(
        &scripted(steps).with_capability(strict).with_capability(UseContinuation(criteria)),
    );
    let [(1, false, by, voices)] = &told[..] else { panic!("one decision: {told:?}") };
    assert_eq!(by, "error_policy");
    assert!(voices.contains(&"steps RequestContinuation".to_owned()), "{voices:?}");
}

#[test]
fn a_request_before_the_first_step_buys_none_after_it() {
    let agent = counting(only(tool_call_presence()))
        .with_capability(UseGuards::new(Budget::unlimited().with_steps(3)));
    assert_eq!(execute(&agent.build().unwrap(), asked()).step_count(), 1);
}

#[test]
fn a_request_before_the_first_step_overrules_a_soft_stop_of_that_round_only() {
    let stop = || {
        let stop = CallableHook::new("stop").before_step(|state, _| {
            Ok(match state.step_count() {
                0 => Flow::Stop(StopSignal::requested("stop", "not now")),
                _ => Flow::Continue,
            })
        });
        UseHook::new(stop)
    };
    let state = execute(&with(counting(only(tool_call_presence())), stop()), asked());
    assert_eq!((state.step_count(), state.text().as_str()), (1, "one"));
    let state = execute(&with(counting(only(always(AllowContinuation))), stop()), asked());
    assert_eq!(state.step_count(), 0);
}

#[test]
fn a_run_that_stopped_after_one_step_says_why() {
    let check = |builder: AgentBuilder, expect: &str| {
        let state = execute(&builder.build().unwrap(), asked());
        assert_eq!((state.step_count(), state.explain_stop().as_str()), (1, expect));
    };
    check(scripted(["done"]), "completed after 1 step: the model called no tools");
    check(
        scripted([ScenarioStep::tool("looking")])
            .with_capability(UseGuards::new(Budget::unlimited().with_steps(1))),
        "stopped after 1 step by guard:steps_limit: steps_limit: the step limit of 1 was reached",
    );
    check(
        scripted([ScenarioStep::error("no paper")]),
        "failed after 1 step: the driver failed: no paper",
    );
    let policy = loopwright_agent::UseErrorPolicy(ErrorPolicy::stop_on_any_error());
    check(
        scripted([ScenarioStep::tool_call("missing", serde_json::json!({}))])
            .with_capability(policy),
        "stopped after 1 step by error_policy: error: the error policy stops the run (failed steps: 1)",
    );
    assert_eq!(AgentState::new().explain_stop(), "not run yet");
}

#[test]
fn a_failed_step_is_not_tried_again_for_a_request_alone() {
    let builder = scripted([ScenarioStep::error("down"), "done".into()])
        .with_capability(UseContinuation(only(always(RequestContinuation))));
    assert!(matches!(
        execute(&builder.build().unwrap(), asked()).status(),
        ExecutionStatus::Failed(_)
    ));
    let retry = CallableHook::new("retry").on_error(|_, _, _| Ok(ErrorDecision::Retry));
    let limited = UseGuards::new(Budget::unlimited().with_steps(2));
    let state = execute(&with(builder.with_capability(UseHook::new(retry)), limited), asked());
    assert_eq!(state.text(), "done");
}

#[test]
fn a_closure_sees_the_time() {
    let moment = now();
    let criterion = FnCriterion::new("noon", move |_: &AgentState, at| {
        if at >= moment {
            CriterionResult::forbid(StopReason::TimeLimitReached, "it is noon")
        } else {
            CriterionResult::allow("")
        }
    });
    let criteria = Arc::new(only(criterion));
    assert!(!criteria.evaluate(&AgentState::new(), moment).should_continue);
    assert!(criteria.evaluate(&AgentState::new(), Timestamp::from_millis(0)).should_continue);
}
