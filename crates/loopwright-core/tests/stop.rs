//! Why a run ends, and who may say that it does not.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    AgentState, Budget, CRITERIA_RESULTS, CallableHook, ContinuationDecision, ContinuationOutcome,
    Driver, Evaluation, ExecutionStatus, Flow, Hook, StepError, StepResponse, StopDecision,
    StopReason, StopSignal, ThinkCx, ToolOutcome,
    events::{ContinuationEvaluated, ExecutionStopped, StopSignalReceived},
};
use loopwright_testing::{
    EventRecorder, FakeDriver, FakeModel, Fault, MemoryJournal, ModelDriver, ScenarioStep,
    Timeline, block_on, run_until_stuck, test_loop,
};
use serde_json::json;

use crate::support::{
    agent, asked, execute, execute_with, hooked, hooks, journaled, options, replay, told,
};

struct Stopping;

#[async_trait]
impl Driver for Stopping {
    async fn think(&self, _: &AgentState, _: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let signal = StopSignal::requested("driver", "no more").with("reason", json!("because"));
        Err(StepError::Stopped(signal))
    }
}

#[test]
fn a_driver_that_asks_to_stop_ends_the_run_before_its_step() {
    let events = EventRecorder::new();
    let state = execute(&test_loop(Stopping).with_event_sink(events.sink()), asked());
    let ExecutionStatus::Stopped(signal) = state.status() else { panic!("{state:?}") };
    assert_eq!(state.step_count(), 0);
    assert_eq!((signal.reason, &*signal.message), (StopReason::StopRequested, "no more"));
    assert_eq!(signal.source.as_deref(), Some("driver"));
    assert_eq!(signal.context["reason"], json!("because"));
    let evaluated: Vec<_> =
        events.events_of::<ContinuationEvaluated>().iter().map(|it| it.step).collect();
    assert_eq!(evaluated, [0]);
    assert_eq!(state.execution().unwrap().open_step(), None);
}

#[track_caller]
fn check_strongest(reasons: &[(StopReason, &'static str)], expect: &str) {
    let signals: Vec<_> =
        reasons.iter().map(|(reason, by)| StopSignal::new(*reason, *by, "")).collect();
    let hook = CallableHook::new("signals").before_step(move |state, _| {
        for signal in &signals {
            state.signal(signal.clone());
        }
        Ok(Flow::Continue)
    });
    let events = EventRecorder::new();
    let agent = hooked(&agent([]), hook).with_event_sink(events.sink());
    let state = execute(&agent, asked());
    let ExecutionStatus::Stopped(decisive) = state.status() else { panic!("{state:?}") };
    assert_eq!(decisive.source.as_deref(), Some(expect));
    assert_eq!(state.stop_signal(), Some(decisive));
    assert_eq!(&events.events_of::<ExecutionStopped>()[0].signal, decisive);
    assert_eq!(events.events_of::<StopSignalReceived>().len(), reasons.len());
}

#[test]
fn the_strongest_signal_decides_and_of_equal_ones_the_first() {
    use StopReason::{CostLimitReached, ErrorForbade, StepsLimitReached, UserRequested};
    check_strongest(&[(StepsLimitReached, "weak"), (UserRequested, "strong")], "strong");
    check_strongest(&[(UserRequested, "strong"), (StepsLimitReached, "weak")], "strong");
    check_strongest(&[(CostLimitReached, "weak"), (ErrorForbade, "strong")], "strong");
    check_strongest(&[(UserRequested, "first"), (UserRequested, "second")], "first");
}

#[test]
fn a_signal_completed_yields_to_a_later_request_of_the_user() {
    let hook = CallableHook::new("signals")
        .after_step(|state, _| {
            state.signal(StopSignal::new(StopReason::Completed, "early", ""));
            state.request_continuation();
            Ok(Flow::Continue)
        })
        .before_step(|state, _| {
            if state.step_count() == 1 {
                return Ok(Flow::Stop(StopSignal::user_requested("enough")));
            }
            Ok(Flow::Continue)
        });
    let state = execute(&hooked(&agent([]), hook), asked());
    let ExecutionStatus::Stopped(signal) = state.status() else { panic!("{state:?}") };
    assert_eq!((signal.reason, state.step_count()), (StopReason::UserRequested, 1));
}

#[test]
fn a_veto_overrules_soft_endings_only() {
    use StopReason::{FinishReasonReceived, StopRequested, Unknown};
    for reason in StopReason::ALL {
        let hook = CallableHook::new("stops")
            .after_step(move |state, _| {
                if state.step_count() == 1 {
                    return Ok(Flow::Stop(StopSignal::new(reason, "stops", "")));
                }
                Ok(Flow::Continue)
            })
            .on_stop(|_, state, _| {
                Ok(if state.step_count() == 1 {
                    StopDecision::Continue
                } else {
                    StopDecision::Stop
                })
            });
        let state = execute(&hooked(&agent([]), hook), asked());
        let is_soft = matches!(
            reason,
            StopRequested | FinishReasonReceived | Unknown | StopReason::Completed
        );
        assert_eq!(state.step_count(), if is_soft { 2 } else { 1 }, "{reason}");
        assert_eq!(matches!(state.status(), ExecutionStatus::Stopped(_)), !is_soft, "{reason}");
    }
}

#[test]
fn a_continuation_request_overrules_soft_endings_only() {
    for (reason, steps) in [(StopReason::StopRequested, 2), (StopReason::RetryLimitReached, 1)] {
        let hook = CallableHook::new("both").after_step(move |state, _| {
            if state.step_count() == 1 {
                state.request_continuation();
                return Ok(Flow::Stop(StopSignal::new(reason, "both", "")));
            }
            Ok(Flow::Continue)
        });
        assert_eq!(execute(&hooked(&agent([]), hook), asked()).step_count(), steps);
    }
}

#[test]
fn a_natural_end_can_be_vetoed_and_is_then_decided_about_anew() {
    let hook = CallableHook::new("again").on_stop(|signal, state, _| {
        assert_eq!(signal, None);
        Ok(if state.step_count() < 3 { StopDecision::Continue } else { StopDecision::Stop })
    });
    let state = execute(&hooked(&agent([]), hook), asked());
    assert_eq!((state.step_count(), state.status()), (3, &ExecutionStatus::Completed));
}

#[test]
fn a_hook_may_withdraw_a_soft_signal_and_not_a_hard_one() {
    for (reason, status) in
        [(StopReason::StopRequested, "completed"), (StopReason::TokenLimitReached, "stopped")]
    {
        let raise = CallableHook::new("raise").after_step(move |state, _| {
            state.signal(StopSignal::new(reason, "raise", ""));
            Ok(Flow::Continue)
        });
        let withdraw = CallableHook::new("withdraw").after_step(move |state, _| {
            state.withdraw(reason);
            Ok(Flow::Continue)
        });
        let interceptor = hooks([Arc::new(raise) as Arc<dyn Hook>, Arc::new(withdraw)]);
        let state = execute(&agent([]).with_interceptor(interceptor), asked());
        assert_eq!(state.status().as_str(), status, "{reason}");
    }
}

#[test]
fn a_hook_that_stops_before_the_first_execution_stops_at_no_step() {
    let hook = CallableHook::new("closed").before_execution(|_, _| {
        Ok(Flow::Stop(StopSignal::requested("closed", "come back later")))
    });
    let state = execute(&hooked(&agent([]), hook), asked());
    assert_eq!((state.step_count(), state.status().as_str()), (0, "stopped"));
}

#[test]
fn a_limit_of_so_many_steps_gives_exactly_so_many() {
    for steps in 0..4 {
        let budget = Budget { steps: Some(steps), ..Budget::default() };
        let state = execute(&agent([ScenarioStep::tool("more")]), asked().with_budget(budget));
        assert_eq!(state.step_count(), steps);
        assert_eq!(state.stop_signal().unwrap().reason, StopReason::StepsLimitReached);
    }
}

#[test]
fn a_failed_step_counts_against_the_limit_and_may_be_tried_again() {
    let hook =
        CallableHook::new("retry").on_error(|_, _, _| Ok(loopwright_core::ErrorDecision::Retry));
    let budget = Budget { steps: Some(3), ..Budget::default() };
    let agent = hooked(&agent([ScenarioStep::error("down")]), hook);
    let state = execute(&agent, asked().with_budget(budget));
    assert_eq!(state.step_count(), 3);
    assert_eq!(state.execution().unwrap().failed_in_a_row(), 3);
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::StepsLimitReached);
}

#[test]
fn a_stop_signal_from_before_a_crash_stops_the_run() {
    let journal = MemoryJournal::new();
    // That the last hook is asked, the signal is on record.
    let hook = CallableHook::new("stops")
        .after_step(|_, _| Ok(Flow::Stop(StopSignal::new(StopReason::ErrorForbade, "stops", ""))))
        .on_stop(|_, _, _| Ok(StopDecision::Stop));
    let agent = hooked(&test_loop(FakeDriver::steps([ScenarioStep::tool("more")])), hook);
    journal.fail_at(4, Fault::CrashBefore);
    assert!(run_until_stuck(agent.start(asked(), journaled(&journal)).finish()).is_none());
    assert_eq!(journal.names().last(), Some(&"stop_raised"));
    journal.recover();
    let state = execute_with(&agent, replay(&journal), &journal);
    assert_eq!(state.stop_signal().map(|it| it.reason), Some(StopReason::ErrorForbade));
    assert_eq!(state.step_count(), 1);
}

#[test]
fn voices_are_resolved_in_whatever_order_they_spoke() {
    use ContinuationDecision::{
        AllowContinuation, AllowStop, ForbidContinuation, RequestContinuation,
    };
    let voice = |decision| Evaluation {
        criterion: "it".into(),
        decision,
        reason: String::new(),
        stop_reason: None,
    };
    let resolve = |decisions: &[ContinuationDecision]| {
        let voices = decisions.iter().map(|it| voice(*it)).collect();
        let reversed = decisions.iter().rev().map(|it| voice(*it)).collect();
        let goes_on = ContinuationOutcome::resolve(voices).should_continue;
        assert_eq!(goes_on, ContinuationOutcome::resolve(reversed).should_continue);
        goes_on
    };
    assert!(!resolve(&[RequestContinuation, ForbidContinuation, AllowContinuation]));
    assert!(resolve(&[AllowStop, RequestContinuation]));
    assert!(!resolve(&[AllowContinuation, AllowStop]));
    assert!(resolve(&[AllowContinuation]));
    assert!(!resolve(&[]));
}

#[test]
fn a_decision_explains_itself() {
    let state = execute(&agent([]), asked());
    assert_eq!(state.explain_stop(), "completed after 1 step: the model called no tools");
    let budget = Budget { steps: Some(0), ..Budget::default() };
    let state = execute(&agent([]), asked().with_budget(budget));
    assert_eq!(
        state.explain_stop(),
        "stopped after 0 steps by budget: steps_limit: the step limit of 0 was reached"
    );
}

#[test]
fn an_ending_that_is_overruled_again_and_again_without_a_step_is_an_ending() {
    let hook = CallableHook::new("undecided")
        .before_step(|_, _| Ok(Flow::Stop(StopSignal::requested("undecided", "stop"))))
        .on_stop(|_, _, _| Ok(StopDecision::Continue));
    let state = execute(&hooked(&agent([]), hook), asked());
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::StopRequested);
    assert_eq!(state.step_count(), 0);
}

/// Notes at each point after something was done that it was called there.
fn noting(timeline: &Timeline) -> CallableHook {
    let (step, tool, inference) = (timeline.clone(), timeline.clone(), timeline.clone());
    CallableHook::new("noting")
        .after_step(move |_, _| {
            step.note("after_step");
            Ok(Flow::Continue)
        })
        .after_tool(move |_, _, _, _| {
            tool.note("after_tool");
            Ok(Flow::Continue)
        })
        .after_inference(move |_, _, _| {
            inference.note("after_inference");
            Ok(Flow::Continue)
        })
}

#[test]
fn a_stop_after_something_was_done_does_not_keep_later_hooks_from_seeing_it() {
    for reason in [StopReason::StopRequested, StopReason::ErrorForbade] {
        for point in ["after_inference", "after_tool", "after_step"] {
            let stop = move || Ok(Flow::Stop(StopSignal::new(reason, "stops", "enough")));
            let hook = CallableHook::new("stops");
            let hook = match point {
                "after_inference" => hook.after_inference(move |_, _, _| stop()),
                "after_tool" => hook.after_tool(move |_, _, _, _| stop()),
                _ => hook.after_step(move |_, _| stop()),
            };
            let timeline = Timeline::new();
            let interceptor = hooks([Arc::new(hook) as Arc<dyn Hook>, Arc::new(noting(&timeline))]);
            let model = FakeModel::script([ScenarioStep::tool("looking")]);
            let agent = test_loop(ModelDriver::new(model)).with_interceptor(interceptor);
            let state = execute(&agent, asked());
            assert!(timeline.notes().contains(&point.to_owned()), "{reason} at {point}");
            assert_eq!(state.stop_signal().map(|it| it.reason), Some(reason), "{point}");
        }
    }
}

#[test]
fn a_later_hook_may_change_the_outcome_of_a_tool_after_which_another_one_stops() {
    let stop = CallableHook::new("stops")
        .after_tool(|_, _, _, _| Ok(Flow::Stop(StopSignal::requested("stops", "enough"))));
    let redact = CallableHook::new("redacts").after_tool(|_, outcome, _, _| {
        *outcome = ToolOutcome::Returned(loopwright_core::ToolOutput::text("[redacted]"));
        Ok(Flow::Continue)
    });
    let interceptor = hooks([Arc::new(stop) as Arc<dyn Hook>, Arc::new(redact)]);
    let state =
        execute(&agent([ScenarioStep::tool("looking")]).with_interceptor(interceptor), asked());
    assert_eq!(told(&state), ["[redacted]"]);
    assert_eq!(state.stop_signal().and_then(|it| it.source.as_deref()), Some("stops"));
}

#[test]
fn a_soft_stop_before_a_step_leaves_the_round_going_and_a_hard_one_ends_it() {
    for (reason, is_called) in
        [(StopReason::StopRequested, true), (StopReason::StepsLimitReached, false)]
    {
        let timeline = Timeline::new();
        let stop = CallableHook::new("stops")
            .before_step(move |_, _| Ok(Flow::Stop(StopSignal::new(reason, "stops", "enough"))));
        let late = CallableHook::new("late").before_step({
            let timeline = timeline.clone();
            move |_, _| {
                timeline.note("late");
                Ok(Flow::Continue)
            }
        });
        let interceptor = hooks([Arc::new(stop) as Arc<dyn Hook>, Arc::new(late)]);
        let state = execute(&agent([]).with_interceptor(interceptor), asked());
        assert_eq!(timeline.notes().contains(&"late".to_owned()), is_called, "{reason}");
        assert_eq!((state.step_count(), state.status().as_str()), (0, "stopped"), "{reason}");
    }
}

#[test]
fn the_stronger_of_two_stops_after_a_step_decides_and_both_are_reported() {
    let stops = |name: &'static str, reason| {
        Arc::new(
            CallableHook::new(name)
                .after_step(move |_, _| Ok(Flow::Stop(StopSignal::new(reason, name, "")))),
        ) as Arc<dyn Hook>
    };
    let interceptor = hooks([
        stops("finish", StopReason::FinishReasonReceived),
        stops("policy", StopReason::ErrorForbade),
    ]);
    let events = EventRecorder::new();
    let agent = agent([]).with_interceptor(interceptor).with_event_sink(events.sink());
    let state = execute(&agent, asked());
    let told: Vec<_> =
        events.events_of::<StopSignalReceived>().iter().map(|it| it.signal.reason).collect();
    assert_eq!(told, [StopReason::FinishReasonReceived, StopReason::ErrorForbade]);
    let ExecutionStatus::Stopped(signal) = state.status() else { panic!("{state:?}") };
    assert_eq!(signal.source.as_deref(), Some("policy"));
}

#[test]
fn a_later_hook_may_withdraw_the_stop_of_an_earlier_one() {
    let stop = CallableHook::new("stops").after_step(|state, _| {
        Ok(match state.step_count() {
            1 => Flow::Stop(StopSignal::requested("stops", "enough")),
            _ => Flow::Continue,
        })
    });
    let withdraw = CallableHook::new("withdraws").after_step(|state, _| {
        state.withdraw(StopReason::StopRequested);
        Ok(Flow::Continue)
    });
    let interceptor = hooks([Arc::new(stop) as Arc<dyn Hook>, Arc::new(withdraw)]);
    let agent = agent([ScenarioStep::tool("looking"), "done".into()]).with_interceptor(interceptor);
    assert_eq!(execute(&agent, asked()).text(), "done");
}

/// Asks for another step after the first one as a criterion does, which is not asked again.
fn requesting_once() -> CallableHook {
    CallableHook::new("once").after_step(|state, _| {
        if state.step_count() == 1 {
            let said = Evaluation {
                criterion: "once".into(),
                decision: ContinuationDecision::RequestContinuation,
                reason: String::new(),
                stop_reason: None,
            };
            state.set(&CRITERIA_RESULTS, &vec![said])?;
        }
        Ok(Flow::Continue)
    })
}

#[test]
fn a_criterions_request_for_a_step_holds_for_one_step() {
    let budget = Budget { steps: Some(5), ..Budget::default() };
    let agent = hooked(&agent(["one".into(), "two".into()]), requesting_once());
    let state = execute(&agent, asked().with_budget(budget));
    assert_eq!((state.step_count(), state.status()), (2, &ExecutionStatus::Completed));
}

/// Answers once, and then asks to stop.
struct Once(FakeDriver);

#[async_trait]
impl Driver for Once {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        match state.step_count() {
            1 => Err(StepError::Stopped(StopSignal::requested("driver", "no more"))),
            _ => self.0.think(state, cx).await,
        }
    }
}

#[test]
fn an_earlier_evaluation_does_not_overrule_the_stop_of_a_step_without_an_answer() {
    let driver = Once(FakeDriver::steps(["one".into()]));
    let state = execute(&hooked(&test_loop(driver), requesting_once()), asked());
    assert_eq!((state.step_count(), state.status().as_str()), (1, "stopped"));
    assert_eq!(state.stop_signal().and_then(|it| it.source.as_deref()), Some("driver"));
}

/// The number of steps of each state that a run hands out.
fn handed_out(agent: &loopwright_core::AgentLoop) -> Vec<u32> {
    let mut run = agent.start(asked(), options());
    let mut steps = Vec::new();
    while let Some(state) = block_on(run.next()) {
        steps.push(state.step_count());
    }
    steps
}

#[test]
fn a_veto_before_a_step_hands_no_state_out_twice() {
    let hook = CallableHook::new("wavering")
        .before_step(|state, _| {
            let stops = state.step_count() == 1 && state.metadata().get("vetoed").is_none();
            let stop = || Flow::Stop(StopSignal::requested("wavering", "stop"));
            Ok(if stops { stop() } else { Flow::Continue })
        })
        .on_stop(|_, state, _| {
            state.set_metadata("vetoed", json!(true));
            Ok(if state.step_count() == 1 { StopDecision::Continue } else { StopDecision::Stop })
        });
    let steps = [ScenarioStep::tool("looking"), "done".into()];
    assert_eq!(handed_out(&hooked(&agent(steps), hook)), [1, 2]);
    let hook = CallableHook::new("again").on_stop(|_, state, _| {
        Ok(if state.step_count() < 3 { StopDecision::Continue } else { StopDecision::Stop })
    });
    assert_eq!(handed_out(&hooked(&agent([]), hook)), [1, 2, 3]);
}

#[test]
fn a_veto_before_a_step_that_a_limit_forbids_hands_no_state_out_twice() {
    let hook = CallableHook::new("stops")
        .before_step(|state, _| {
            state.signal(StopSignal::requested("soft", "stop"));
            Ok(Flow::Stop(StopSignal::new(StopReason::StepsLimitReached, "hard", "stop")))
        })
        .on_stop(|_, state, _| {
            let asked = state.metadata().get("asked").and_then(serde_json::Value::as_u64);
            state.set_metadata("asked", json!(asked.unwrap_or(0) + 1));
            Ok(StopDecision::Continue)
        });
    let agent = hooked(&agent([]), hook);
    assert_eq!(handed_out(&agent), [0]);
    assert_eq!(execute(&agent, asked()).metadata().get("asked"), Some(&json!(1)));
}

#[test]
fn a_limit_that_a_step_reaches_ends_the_run_together_with_the_step() {
    let state = asked().with_budget(Budget { steps: Some(1), ..Budget::unlimited() });
    let mut run = agent([ScenarioStep::tool("looking")]).start(state, options());
    let status = block_on(run.next()).unwrap().status().as_str().to_owned();
    assert_eq!((status.as_str(), run.has_next()), ("stopped", false));
}

#[test]
fn only_an_answer_is_said_to_complete_the_run() {
    let events = EventRecorder::new();
    let agent = agent([ScenarioStep::tool("looking"), "done".into()]);
    execute(&agent.with_event_sink(events.sink()), asked());
    let rules = events.events_of::<ContinuationEvaluated>().into_iter().map(|it| {
        let [rule] = &it.outcome.evaluations[..] else { panic!("{it:?}") };
        (rule.decision, rule.stop_reason)
    });
    let expect = [
        (ContinuationDecision::RequestContinuation, None),
        (ContinuationDecision::AllowStop, Some(StopReason::Completed)),
    ];
    assert_eq!(rules.collect::<Vec<_>>(), expect);
}

#[test]
fn an_execution_that_was_stopped_after_its_answer_is_over() {
    let hook = CallableHook::new("enough").after_step(|_, _| {
        Ok(Flow::Stop(StopSignal::new(StopReason::TokenLimitReached, "enough", "")))
    });
    let agent = hooked(&agent(["one".into(), "two".into()]), hook);
    let state = execute(&agent, asked());
    assert_eq!((state.status().as_str(), state.is_resumable()), ("stopped", false));
    let state = execute(&agent, state.with_user_message("again"));
    assert_eq!((state.execution_count(), state.step_count()), (2, 1));
}

#[test]
fn an_execution_that_is_over_asks_for_no_further_step() {
    let hook = CallableHook::new("torn").after_step(|state, _| {
        state.request_continuation();
        Ok(Flow::Stop(StopSignal::user_requested("enough")))
    });
    let state = execute(&hooked(&agent([]), hook), asked());
    let execution = state.execution().unwrap();
    assert_eq!(
        (execution.status().as_str(), execution.continuation_requested_by()),
        ("stopped", None)
    );
}

#[test]
fn every_step_may_be_followed_by_a_veto() {
    let hook = CallableHook::new("again").on_stop(|_, state, _| {
        Ok(if state.step_count() < 20 { StopDecision::Continue } else { StopDecision::Stop })
    });
    assert_eq!(execute(&hooked(&agent([]), hook), asked()).step_count(), 20);
}

#[test]
fn the_strongest_stop_of_a_hook_point_counts_in_any_order() {
    let stop = |reason| -> Arc<dyn Hook> {
        let stop = move || Ok(Flow::Stop(StopSignal::new(reason, reason.as_str(), "")));
        Arc::new(CallableHook::new("stop").after_inference(move |_, _, _| stop()))
    };
    let soft = || stop(StopReason::StopRequested);
    let weaker = || stop(StopReason::FinishReasonReceived);
    let hard = || stop(StopReason::CostLimitReached);
    for (stops, expect) in [
        ([soft(), weaker(), soft()], StopReason::StopRequested),
        ([weaker(), soft(), weaker()], StopReason::StopRequested),
        ([soft(), hard(), weaker()], StopReason::CostLimitReached),
    ] {
        let agent = test_loop(ModelDriver::new(FakeModel::echo())).with_interceptor(hooks(stops));
        let state = execute(&agent, asked());
        let reasons = state.execution().unwrap().signals().iter().map(|it| it.reason);
        assert_eq!(reasons.collect::<Vec<_>>(), [expect]);
    }
}

#[test]
fn the_first_of_equally_strong_stops_counts() {
    let stop = |by: &'static str| -> Arc<dyn Hook> {
        let stop = move || Ok(Flow::Stop(StopSignal::requested(by, "")));
        Arc::new(CallableHook::new(by).after_inference(move |_, _, _| stop()))
    };
    let interceptor = hooks([stop("first"), stop("second")]);
    let agent = test_loop(ModelDriver::new(FakeModel::echo())).with_interceptor(interceptor);
    let by = execute(&agent, asked()).stop_signal().and_then(|it| it.source.clone());
    assert_eq!(by.as_deref(), Some("first"));
}

#[test]
fn reasons_rank_as_they_are_declared() {
    let ranks: Vec<_> = StopReason::ALL.map(StopReason::priority).into();
    assert_eq!(ranks, (0..StopReason::ALL.len()).collect::<Vec<_>>());
}
