//! The guards, each at its edge.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use loopwright_agent::{
    AgentBuilder, ErrorPolicy, UseDriver, UseErrorPolicy, UseGuards, UseHook, UseTools,
};
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, Budget, CallableHook, Clock as _,
    Driver, ExecutionStatus, Flow, RunOptions, StepError, StepResponse, StopDecision, StopReason,
    StopSignal, ThinkCx, Timestamp, ToolDecision,
    messages::{Cost, FinishReason, Usage},
};
use loopwright_testing::{FakeDriver, FrozenClock, MockTool, ScenarioStep, block_on};
use serde_json::{Value, json};

use crate::support::{asked, execute, hook_names, scripted, stopped, with};

/// Asks for a tool in every step, and each step costs the same.
fn endless() -> AgentBuilder {
    let step = ScenarioStep::tool("looking")
        .with_usage(Usage::new(8, 2))
        .with_cost(Cost::from_dollars(0.25));
    scripted([step])
}

/// A signal as a guard makes it.
fn signal(reason: StopReason, source: &str, text: &str, context: &Value) -> StopSignal {
    let facts = context.as_object().unwrap().clone();
    let context = facts.into_iter().map(|(key, value)| (key.into(), value));
    StopSignal {
        context: context.collect::<BTreeMap<_, _>>(),
        ..StopSignal::new(reason, source, text)
    }
}

/// Runs into a guard: the steps until then, and the signal.
#[track_caller]
fn check(agent: &AgentLoop, steps: u32, expect: StopSignal) {
    let state = execute(agent, asked());
    assert_eq!((state.step_count(), state.status()), (steps, &ExecutionStatus::Stopped(expect)));
}

#[test]
fn a_limit_of_n_steps_gives_exactly_n_steps() {
    for max in [0, 1, 3] {
        let text = format!("the step limit of {max} was reached");
        let context = json!({"current_steps": max, "max_steps": max});
        let source = "guard:steps_limit";
        let expect = signal(StopReason::StepsLimitReached, source, &text, &context);
        check(&with(endless(), UseGuards::new(Budget::unlimited().with_steps(max))), max, expect);
    }
}

#[test]
fn a_run_that_ends_at_the_limit_completes() {
    let steps = [ScenarioStep::tool("looking"), "done".into()];
    let state =
        execute(&with(scripted(steps), UseGuards::new(Budget::unlimited().with_steps(2))), asked());
    assert_eq!((state.status(), state.text().as_str()), (&ExecutionStatus::Completed, "done"));
}

#[test]
fn tokens_are_counted_before_each_step() {
    let tokens = |used: u64, max: u64| {
        let text = format!("{used} of {max} tokens used");
        let context = json!({"total_tokens": used, "max_tokens": max});
        signal(StopReason::TokenLimitReached, "guard:token_limit", &text, &context)
    };
    for (max, steps, used) in [(0, 0, 0), (1, 1, 10), (10, 1, 10), (11, 2, 20), (20, 2, 20)] {
        check(
            &with(endless(), UseGuards::new(Budget::unlimited().with_tokens(max))),
            steps,
            tokens(used, max),
        );
    }
}

#[test]
fn money_is_counted_before_each_step() {
    let dollars = Cost::from_dollars;
    let spent = |text: &str, cost: f64, max: f64| {
        let context = json!({"cost": cost, "max_cost": max});
        signal(StopReason::CostLimitReached, "guard:cost_limit", text, &context)
    };
    let guards = |max| with(endless(), UseGuards::new(Budget::unlimited().with_cost(dollars(max))));
    check(&guards(0.0), 0, spent("$0.0000 of $0.0000 used", 0.0, 0.0));
    check(&guards(0.5), 2, spent("$0.5000 of $0.5000 used", 0.5, 0.5));
    check(&guards(0.6), 3, spent("$0.7500 of $0.6000 used", 0.75, 0.6));
}

/// A driver that takes two seconds by the clock of the run for each step.
struct Slow(FakeDriver);

#[async_trait]
impl Driver for Slow {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        cx.env().clock.sleep(Duration::from_secs(2)).await;
        self.0.think(state, cx).await
    }
}

fn slow(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentBuilder {
    AgentBuilder::base()
        .with_capability(UseDriver::new(Slow(FakeDriver::steps(steps))))
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
}

fn looking() -> ScenarioStep {
    ScenarioStep::tool("looking")
}

fn seconds(source: &str, limit: &str, elapsed: f64, max: f64) -> StopSignal {
    let context = json!({"limit": limit, "elapsed_seconds": elapsed, "max_seconds": max});
    let text = format!("the time limit of {max} seconds was reached");
    signal(StopReason::TimeLimitReached, source, &text, &context)
}

#[test]
fn time_that_is_worked_counts() {
    let expect = |elapsed, max| seconds("guard:time_limit", "seconds", elapsed, max);
    let guards = |max: f64| {
        with(
            slow([looking()]),
            UseGuards::new(Budget::unlimited().with_time(Duration::from_secs_f64(max))),
        )
    };
    check(&guards(0.0), 0, expect(0.0, 0.0));
    check(&guards(3.9), 2, expect(4.0, 3.9));
    check(&guards(4.0), 2, expect(4.0, 4.0));
    check(&guards(4.1), 3, expect(6.0, 4.1));
}

#[test]
fn a_deadline_is_a_moment_and_says_so() {
    let start = FrozenClock::new().now();
    let moment = |after: u64| start.plus(Duration::from_secs(after));
    let passed = |deadline: Timestamp| {
        let context = json!({"limit": "deadline", "deadline": deadline});
        let text = format!("the deadline {deadline} has passed");
        signal(StopReason::TimeLimitReached, "guard:deadline", &text, &context)
    };
    for (after, steps) in [(0, 0), (1, 1), (2, 1), (3, 2)] {
        let deadline = moment(after);
        let agent =
            with(slow([looking()]), UseGuards::new(Budget::unlimited().with_deadline(deadline)));
        check(&agent, steps, passed(deadline));
    }
}

#[test]
fn worked_time_adds_up_over_executions_and_pauses_do_not_count() {
    let script = [looking(), "one".into(), looking(), looking(), "two".into()];
    let agent = with(slow(script), UseGuards::none().with_cumulative_time(Duration::from_secs(7)));
    let clock = FrozenClock::new();
    let run = |state: AgentState| {
        let options = RunOptions { env: clock.env(1), ..RunOptions::default() };
        block_on(agent.start(state, options).finish())
    };
    let first = run(asked());
    assert_eq!((first.text().as_str(), first.cumulative_time().as_secs()), ("one", 4));
    clock.advance(Duration::from_secs(1_000_000));
    let stored = serde_json::to_string(&first).unwrap();
    let restored: AgentState = serde_json::from_str(&stored).unwrap();
    let second = run(restored.with_user_message("and now?"));
    let source = "guard:cumulative_time_limit";
    let expect = seconds(source, "cumulative_seconds", 8.0, 7.0);
    assert_eq!((second.step_count(), second.status()), (2, &ExecutionStatus::Stopped(expect)));
}

#[test]
fn time_that_a_person_is_waited_for_does_not_count_against_a_guard() {
    let ask = CallableHook::new("policy").before_tool(|_, state, _| {
        let question = ApprovalRequest::new("?", "policy");
        Ok(if state.step_count() == 0 { ToolDecision::Ask(question) } else { ToolDecision::Run })
    });
    let script = [looking(), looking(), "done".into()];
    let limits = UseGuards::new(Budget::unlimited().with_time(Duration::from_secs(5)))
        .with_cumulative_time(Duration::from_secs(5));
    let agent = with(slow(script).with_capability(limits), UseHook::new(ask));
    let clock = FrozenClock::new();
    let run = |state: AgentState| {
        let options = RunOptions { env: clock.env(1), ..RunOptions::default() };
        block_on(agent.start(state, options).finish())
    };
    let paused = run(asked());
    clock.advance(Duration::from_hours(24));
    let state = run(paused.decide(0, ApprovalDecision::Approve));
    assert_eq!((state.step_count(), state.status()), (3, &ExecutionStatus::Completed));
    assert_eq!(state.cumulative_time().as_secs(), 6);
}

#[test]
fn a_clock_that_is_set_moves_no_limit_of_time() {
    for day in [0, 4_000_000_000_000] {
        let clock = FrozenClock::new();
        let set = clock.clone();
        let jump = CallableHook::new("jump").after_step(move |_, _| {
            set.set_time_of_day(Timestamp::from_millis(day));
            Ok(Flow::Continue)
        });
        let guarded = slow([looking()])
            .with_capability(UseGuards::new(Budget::unlimited().with_time(Duration::from_secs(4))));
        let options = RunOptions { env: clock.env(1), ..RunOptions::default() };
        let state = block_on(with(guarded, UseHook::new(jump)).start(asked(), options).finish());
        let expect = seconds("guard:time_limit", "seconds", 4.0, 4.0);
        assert_eq!((state.step_count(), state.status()), (2, &ExecutionStatus::Stopped(expect)));
    }
}

#[test]
fn time_of_one_execution_does_not_count_in_the_next() {
    let agent = with(
        slow([looking(), "one".into()]),
        UseGuards::new(Budget::unlimited().with_time(Duration::from_secs(5))),
    );
    let clock = FrozenClock::new();
    let run = |state: AgentState| {
        let options = RunOptions { env: clock.env(1), ..RunOptions::default() };
        block_on(agent.start(state, options).finish())
    };
    let first = run(asked());
    let second = run(first.with_user_message("and now?"));
    assert_eq!(second.status(), &ExecutionStatus::Completed);
}

#[test]
fn tokens_and_money_of_one_execution_do_not_count_in_the_next() {
    let step = ScenarioStep::final_answer("done")
        .with_usage(Usage::new(8, 2))
        .with_cost(Cost::from_dollars(1.0));
    let guards =
        UseGuards::new(Budget::unlimited().with_tokens(11).with_cost(Cost::from_dollars(1.5)));
    let agent = with(scripted([step]), guards);
    let second = execute(&agent, execute(&agent, asked()).with_user_message("and now?"));
    assert_eq!((second.status(), second.execution_count()), (&ExecutionStatus::Completed, 2));
}

fn finishing(finish: FinishReason) -> ScenarioStep {
    looking().with_finish(finish)
}

#[test]
fn a_finish_reason_that_is_declared_final_ends_the_run_softly() {
    let reasons = [FinishReason::Refusal, FinishReason::Other("tired".into())];
    let guards = || UseGuards::none().with_finish_reasons(reasons.clone());
    let steps = || [looking(), finishing(FinishReason::Refusal), "done".into()];

    let state = execute(&with(scripted(steps()), guards()), asked());
    let context = json!({"finish_reason": "refusal", "stop_reasons": ["refusal", "tired"]});
    let source = "guard:finish_reason";
    let text = "the model stopped with `refusal`";
    let expect = signal(StopReason::FinishReasonReceived, source, text, &context);
    assert_eq!((state.step_count(), state.status()), (2, &ExecutionStatus::Completed));
    assert_eq!(state.stop_signal(), Some(&expect));

    let veto = CallableHook::new("veto")
        .on_stop(|signal, _, _| Ok(signal.map_or(StopDecision::Stop, |_| StopDecision::Continue)));
    let state =
        execute(&with(scripted(steps()).with_capability(guards()), UseHook::new(veto)), asked());
    assert_eq!((state.step_count(), state.text().as_str()), (3, "done"));
    assert_eq!(stopped(&state), None);
}

#[test]
fn other_finish_reasons_pass() {
    let reasons = UseGuards::none().with_finish_reasons([FinishReason::Stop]);
    let steps = [finishing(FinishReason::Other("tired".into())), "done".into()];
    let state = execute(&with(scripted(steps), reasons), asked());
    // The answer itself stops for the reason that was declared final.
    assert_eq!((state.step_count(), state.text().as_str()), (2, "done"));
    assert_eq!(
        stopped(&state),
        Some((StopReason::FinishReasonReceived, "guard:finish_reason".into()))
    );
    let none = UseGuards::none().with_finish_reasons([]);
    assert_eq!(hook_names(&with(scripted(["done"]), none)), [""; 0]);
}

#[test]
fn a_veto_does_not_overrule_a_limit() {
    let veto = CallableHook::new("veto")
        .after_step(|state, _| {
            state.request_continuation();
            Ok(Flow::Continue)
        })
        .on_stop(|_, _, _| Ok(StopDecision::Continue));
    let guards = endless().with_capability(UseGuards::new(Budget::unlimited().with_steps(2)));
    let state = execute(&with(guards, UseHook::new(veto)), asked());
    assert_eq!(state.step_count(), 2);
    assert_eq!(stopped(&state), Some((StopReason::StepsLimitReached, "guard:steps_limit".into())));
}

#[test]
fn failed_steps_count() {
    let again =
        CallableHook::new("again").on_error(|_, _, _| Ok(loopwright_core::ErrorDecision::Retry));
    let guards = scripted([ScenarioStep::error("down")])
        .with_capability(UseGuards::new(Budget::unlimited().with_steps(3)));
    let state = execute(&with(guards, UseHook::new(again)), asked());
    assert_eq!(state.step_count(), 3);
    assert_eq!(stopped(&state), Some((StopReason::StepsLimitReached, "guard:steps_limit".into())));
}

#[test]
fn the_stricter_of_two_guards_ends_the_run() {
    for limits in [[2, 4], [4, 2]] {
        let [one, other] = limits.map(|max| UseGuards::new(Budget::unlimited().with_steps(max)));
        let state = execute(&with(endless().with_capability(one), other), asked());
        assert_eq!(state.step_count(), 2);
    }
}

#[test]
fn the_default_limits_are_twenty_steps_32768_tokens_and_300_seconds() {
    let same = UseGuards::new(
        Budget::unlimited().with_steps(20).with_tokens(32_768).with_time(Duration::from_mins(5)),
    );
    assert_eq!(UseGuards::default(), same);
    let names = ["guard:steps_limit", "guard:token_limit", "guard:time_limit"];
    assert_eq!(hook_names(&with(scripted(["done"]), UseGuards::default())), names);
}

#[test]
fn the_standard_agent_has_the_limits_of_the_standard_budget() {
    let budget = Budget::standard();
    let limits = (budget.steps, budget.tokens, budget.time, budget.cost, budget.deadline);
    let minutes = Duration::from_mins(15);
    assert_eq!(limits, (Some(50), Some(1_000_000), Some(minutes), None, None));
    let agent = AgentBuilder::standard().with(UseDriver::new(FakeDriver::steps([looking()])));
    let state = execute(&with(agent, UseTools::new().with_tool(MockTool::scripted())), asked());
    assert_eq!(state.step_count(), 50);
}

#[test]
fn guards_have_the_limits_of_their_budget_and_no_others() {
    let start = FrozenClock::new().now();
    let budget = Budget::unlimited().with_cost(Cost::from_dollars(1.0)).with_deadline(start);
    let names = hook_names(&with(scripted(["done"]), UseGuards::new(budget)));
    assert_eq!(names, ["guard:cost_limit", "guard:deadline"]);
    assert!(hook_names(&with(scripted(["done"]), UseGuards::none())).is_empty());
}

#[test]
fn the_budget_of_a_state_is_enforced_without_guards() {
    let budget = Budget { steps: Some(2), ..Budget::default() };
    let state = execute(&endless().build().unwrap(), asked().with_budget(budget));
    assert_eq!(state.step_count(), 2);
    assert_eq!(stopped(&state), Some((StopReason::StepsLimitReached, "budget".into())));
}

#[test]
fn guards_and_policies_are_hooks_with_their_names() {
    let guards = UseGuards::none().with_finish_reasons([FinishReason::Refusal]);
    let policy = UseErrorPolicy(ErrorPolicy::stop_on_any_error());
    let names = hook_names(&with(scripted(["done"]).with_capability(policy), guards));
    assert_eq!(names, ["error_policy", "guard:finish_reason"]);
}
