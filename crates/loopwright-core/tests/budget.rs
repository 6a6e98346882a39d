//! What an execution may use, over a whole tree of agents.

use std::time::Duration;

use loopwright_core::{
    AgentState, BoxError, Budget, BudgetAccount, BudgetUsage, CallableHook, Clock as _,
    ErrorDecision, ExecutionStatus, Flow, RunOptions, Spend, StopReason, ToolOutcome, ToolOutput,
    messages::{Cost, Usage},
};
use loopwright_testing::{
    FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, block_on, test_loop,
};
use serde_json::{Value, json};

use crate::support::{agent, asked, execute, hooked, lock, options, outcomes, told};

fn spend(tokens: u64, picodollars: u64) -> Spend {
    Spend { usage: Usage::new(tokens, 0), cost: Cost::from_picodollars(picodollars) }
}

/// Runs an agent that would never stop by itself; each step takes a minute, ten tokens and a cent.
#[track_caller]
fn check(budget: Budget, reason: StopReason, steps: u32, context: &[(&str, Value)]) {
    let clock = FrozenClock::new();
    let slow = clock.clone();
    let wait = MockTool::new("wait", "", move |_| {
        slow.advance(Duration::from_mins(1));
        Ok::<_, BoxError>("waited")
    });
    let step = ScenarioStep::tool_call("wait", json!({}))
        .with_usage(Usage::new(7, 3))
        .with_cost(Cost::from_dollars(0.01));
    let agent = agent([step]).with_tool(wait);
    let options = RunOptions { env: clock.env(1), ..options() };
    let state = block_on(agent.start(asked().with_budget(budget), options).finish());
    let ExecutionStatus::Stopped(signal) = state.status() else { panic!("{state:?}") };
    assert_eq!((signal.reason, state.step_count()), (reason, steps));
    assert_eq!(signal.source.as_deref(), Some("budget"));
    for (key, value) in context {
        assert_eq!(signal.context.get(*key), Some(value), "{signal:?}");
    }
}

#[test]
fn each_limit_stops_the_run_with_its_counts() {
    let none = Budget::unlimited();
    check(
        Budget { steps: Some(3), ..none },
        StopReason::StepsLimitReached,
        3,
        &[("current_steps", json!(3)), ("max_steps", json!(3))],
    );
    check(
        Budget { tokens: Some(25), ..none },
        StopReason::TokenLimitReached,
        3,
        &[("total_tokens", json!(30)), ("max_tokens", json!(25))],
    );
    check(
        Budget { time: Some(Duration::from_secs(90)), ..none },
        StopReason::TimeLimitReached,
        2,
        &[
            ("limit", json!("seconds")),
            ("elapsed_seconds", json!(120.0)),
            ("max_seconds", json!(90.0)),
        ],
    );
    check(
        Budget { cost: Some(Cost::from_dollars(0.02)), ..none },
        StopReason::CostLimitReached,
        2,
        &[("cost", json!(0.02)), ("max_cost", json!(0.02))],
    );
    let deadline = FrozenClock::new().now().plus(Duration::from_secs(150));
    check(
        Budget { deadline: Some(deadline), ..none },
        StopReason::TimeLimitReached,
        3,
        &[("limit", json!("deadline")), ("deadline", json!(deadline.to_string()))],
    );
}

#[test]
fn a_limit_of_nothing_stops_before_the_first_step() {
    let none = Budget::unlimited();
    check(Budget { steps: Some(0), ..none }, StopReason::StepsLimitReached, 0, &[]);
    check(Budget { tokens: Some(0), ..none }, StopReason::TokenLimitReached, 0, &[]);
    check(Budget { cost: Some(Cost::ZERO), ..none }, StopReason::CostLimitReached, 0, &[]);
    check(Budget { time: Some(Duration::ZERO), ..none }, StopReason::TimeLimitReached, 0, &[]);
}

#[test]
fn below_its_limits_a_run_is_not_stopped() {
    let budget = Budget {
        steps: Some(3),
        tokens: Some(100),
        time: Some(Duration::from_secs(5)),
        cost: Some(Cost::from_dollars(1.0)),
        deadline: None,
    };
    let steps = [ScenarioStep::tool("looking").with_usage(Usage::new(1, 1)), "done".into()];
    let state = execute(&agent(steps), asked().with_budget(budget));
    assert_eq!((state.status(), state.stop_signal()), (&ExecutionStatus::Completed, None));
}

#[test]
fn a_run_that_answers_at_its_limit_completes() {
    for budget in [
        Budget { steps: Some(2), ..Budget::unlimited() },
        Budget { tokens: Some(4), ..Budget::unlimited() },
    ] {
        let steps = [
            ScenarioStep::tool("looking").with_usage(Usage::new(1, 1)),
            ScenarioStep::final_answer("done").with_usage(Usage::new(1, 1)),
        ];
        let state = execute(&agent(steps), asked().with_budget(budget));
        assert_eq!((state.status(), state.text().as_str()), (&ExecutionStatus::Completed, "done"));
    }
}

#[test]
fn time_that_is_used_up_while_a_model_answers_ends_the_call_with_the_right_limit() {
    let budget = Budget { time: Some(Duration::from_secs(5)), ..Budget::unlimited() };
    let state = execute(
        &test_loop(ModelDriver::new(FakeModel::ignoring_cancel())),
        asked().with_budget(budget),
    );
    let signal = state.stop_signal().unwrap();
    assert_eq!((signal.reason, state.step_count()), (StopReason::TimeLimitReached, 0));
    assert_eq!(signal.context["limit"], "seconds");
    assert_eq!(signal.context["max_seconds"], 5.0);
}

#[test]
fn time_that_is_used_up_while_tools_run_ends_them_with_the_right_limit() {
    for (budget, limit) in [
        (Budget { time: Some(Duration::from_secs(5)), ..Budget::unlimited() }, "seconds"),
        (
            Budget {
                deadline: Some(FrozenClock::new().now().plus(Duration::from_secs(5))),
                ..Budget::unlimited()
            },
            "deadline",
        ),
    ] {
        let agent = agent([ScenarioStep::tool_call("hang", json!({}))])
            .with_tool(MockTool::hanging("hang"));
        let state = execute(&agent, asked().with_budget(budget));
        let signal = state.stop_signal().unwrap();
        assert_eq!((signal.reason, state.step_count()), (StopReason::TimeLimitReached, 1));
        assert_eq!(signal.context["limit"], limit);
        let cancelled = loopwright_core::ToolOutcome::Cancelled { started: true };
        assert_eq!(outcomes(&state, 0), [cancelled]);
    }
}

#[test]
fn tools_that_run_when_time_is_up_are_cancelled_and_may_still_return_in_their_grace() {
    let tool = MockTool::with_cx("build", "", |_, cx| {
        let cancel = cx.cancel.clone();
        Box::pin(async move {
            cancel.cancelled().await;
            Ok(ToolOutput::text("half of it"))
        })
    });
    let budget = Budget { time: Some(Duration::from_secs(5)), ..Budget::unlimited() };
    let agent = agent([ScenarioStep::tool_call("build", json!({}))]).with_tool(tool);
    let state = execute(&agent, asked().with_budget(budget));
    assert_eq!(state.stop_signal().map(|signal| signal.reason), Some(StopReason::TimeLimitReached));
    assert_eq!(told(&state), ["half of it"]);
}

#[test]
fn a_model_that_never_stops_is_stopped_by_any_budget() {
    let model = FakeModel::script([ScenarioStep::tool("more").with_usage(Usage::new(4, 1))]);
    let budget = Budget { tokens: Some(12), ..Budget::unlimited() };
    let agent = test_loop(ModelDriver::new(model.clone()));
    let state = execute(&agent, asked().with_budget(budget));
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::TokenLimitReached);
    assert_eq!(model.asked(), 2, "what is left of it does not cover a third call");
}

#[test]
fn a_failed_inference_is_charged_what_it_cost() {
    let hook = CallableHook::new("retry").on_error(|_, _, _| Ok(ErrorDecision::Retry));
    let model = FakeModel::script([ScenarioStep::error("broke off").with_usage(Usage::new(6, 0))]);
    let agent = hooked(&test_loop(ModelDriver::new(model)), hook);
    let budget = Budget { tokens: Some(10), steps: Some(9), ..Budget::unlimited() };
    let state = execute(&agent, asked().with_budget(budget));
    assert_eq!(state.usage().total(), 12);
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::TokenLimitReached);
    assert_eq!(state.step_count(), 2);
}

#[test]
fn a_hook_may_raise_the_budget_of_a_run() {
    let hook = CallableHook::new("generous").after_step(|state, _| {
        if state.step_count() == 1 {
            state.set_budget(Budget { steps: Some(2), ..Budget::unlimited() });
        }
        Ok(Flow::Continue)
    });
    let agent = hooked(&agent([ScenarioStep::tool("more")]), hook);
    let budget = Budget { steps: Some(1), ..Budget::unlimited() };
    assert_eq!(execute(&agent, asked().with_budget(budget)).step_count(), 2);
}

#[test]
fn the_remaining_budget_is_capped_and_never_negative() {
    let budget = Budget {
        steps: Some(5),
        tokens: Some(10),
        time: Some(Duration::from_secs(1)),
        cost: None,
        deadline: None,
    };
    let used =
        BudgetUsage { steps: 2, tokens: 50, time: Duration::ZERO, cost: Cost::from_dollars(1.0) };
    let left = budget.remaining(used);
    assert_eq!((left.steps, left.tokens, left.cost), (Some(3), Some(0), None));
    let own = Budget { steps: Some(1), cost: Some(Cost::ZERO), ..Budget::unlimited() };
    let capped = left.capped_by(&own);
    assert_eq!((capped.steps, capped.tokens, capped.cost), (Some(1), Some(0), Some(Cost::ZERO)));
}

// ------------------------------------------------------------------------------------------------
// One account

#[test]
fn children_share_one_account_and_nothing_beyond_it_is_reserved() {
    let parent = BudgetAccount::new(&Budget { tokens: Some(10), ..Budget::unlimited() });
    let own = Budget { tokens: Some(8), ..Budget::unlimited() };
    let children: Vec<BudgetAccount> = (0..4).map(|_| parent.child(&own)).collect();
    let held: Vec<_> = children
        .iter()
        .flat_map(|child| (0..10).map(|_| child.reserve(1, Cost::ZERO)))
        .flatten()
        .collect();
    assert_eq!(held.len(), 10);
    let refused = parent.reserve(1, Cost::ZERO).unwrap_err();
    assert_eq!(refused.reason, StopReason::TokenLimitReached);
    drop(held);
    assert!(parent.reserve(10, Cost::ZERO).is_ok());
}

#[test]
fn a_child_is_capped_by_its_own_budget() {
    let parent = BudgetAccount::new(&Budget { tokens: Some(10), ..Budget::unlimited() });
    let child = parent.child(&Budget { tokens: Some(3), ..Budget::unlimited() });
    assert!(child.reserve(4, Cost::ZERO).is_err());
    let held = child.reserve(3, Cost::ZERO).unwrap();
    assert!(parent.reserve(8, Cost::ZERO).is_err());
    drop(held);
}

#[test]
fn settling_replaces_the_estimate_here_and_above() {
    let parent = BudgetAccount::new(&Budget { tokens: Some(10), ..Budget::unlimited() });
    let child = parent.child(&Budget { tokens: Some(10), ..Budget::unlimited() });
    child.reserve(8, Cost::ZERO).unwrap().settle(spend(2, 0));
    assert!(parent.reserve(9, Cost::ZERO).is_err());
    assert!(parent.reserve(8, Cost::ZERO).is_ok());
    child.charge(spend(100, 0));
    assert!(parent.reserve(0, Cost::ZERO).is_err(), "an empty account refuses even nothing");
}

#[test]
fn a_reservation_refused_for_its_cost_reserves_no_tokens() {
    let budget =
        Budget { tokens: Some(10), cost: Some(Cost::from_picodollars(5)), ..Budget::unlimited() };
    let meter = BudgetAccount::new(&budget);
    let refused = meter.reserve(10, Cost::from_picodollars(6)).unwrap_err();
    assert_eq!(refused.reason, StopReason::CostLimitReached);
    assert!(meter.reserve(10, Cost::from_picodollars(5)).is_ok());
}

#[test]
fn an_account_without_limits_refuses_nothing() {
    let meter = BudgetAccount::unlimited();
    let held = meter.reserve(u64::MAX, Cost::from_picodollars(u64::MAX)).unwrap();
    held.settle(spend(u64::MAX, u64::MAX));
    assert!(meter.reserve(u64::MAX, Cost::ZERO).is_ok());
    let only_money =
        meter.child(&Budget { cost: Some(Cost::from_dollars(1.0)), ..Budget::unlimited() });
    only_money.charge(spend(u64::MAX, 0));
    assert!(only_money.reserve(u64::MAX, Cost::ZERO).is_ok(), "tokens are without limit");
}

#[test]
fn sub_agents_draw_from_the_account_of_their_parent() {
    let model = FakeModel::script([ScenarioStep::tool("more").with_usage(Usage::new(5, 0))]);
    let child = test_loop(ModelDriver::new(model.clone()));
    let spawn = MockTool::with_cx("spawn", "", move |_, cx| {
        let child = child.clone();
        Box::pin(async move {
            let options = RunOptions {
                env: cx.env.clone(),
                meter: Some(cx.meter.clone()),
                ..RunOptions::default()
            };
            let state = child.start(asked(), options).finish().await;
            Ok(ToolOutput::text(state.explain_stop()))
        })
    });
    let calls = [("spawn", json!({})), ("spawn", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]).with_tool(spawn);
    let budget = Budget { tokens: Some(20), ..Budget::unlimited() };
    let state = execute(&agent, asked().with_budget(budget));
    assert_eq!(model.asked(), 4, "both children together");
    let is_told = |it: &ToolOutcome| it.output().unwrap().to_text().contains("token_limit");
    assert_eq!(outcomes(&state, 0).iter().map(is_told).collect::<Vec<_>>(), [true; 2]);
}

#[test]
fn usage_beyond_an_account_is_kept() {
    let meter = BudgetAccount::new(&Budget { tokens: Some(10), ..Budget::unlimited() });
    let (one, other) =
        (meter.reserve(5, Cost::ZERO).unwrap(), meter.reserve(5, Cost::ZERO).unwrap());
    other.settle(spend(1_000, 0));
    drop(one);
    assert!(meter.reserve(5, Cost::ZERO).is_err());
}

#[test]
fn a_hook_may_tighten_the_budget_of_a_run_that_is_under_way() {
    let hook = CallableHook::new("hurry").before_execution(|state, _| {
        state.set_budget(Budget { time: Some(Duration::from_secs(5)), ..Budget::unlimited() });
        Ok(Flow::Continue)
    });
    let agent = hooked(&test_loop(ModelDriver::new(FakeModel::ignoring_cancel())), hook);
    let signal = execute(&agent, asked()).stop_signal().cloned();
    assert_eq!(signal.unwrap().reason, StopReason::TimeLimitReached);
}

/// Knows what a request costs at least.
struct Priced(FakeModel, Cost);

#[async_trait::async_trait]
impl loopwright_core::ChatModel for Priced {
    async fn infer(
        &self,
        request: &loopwright_core::messages::InferenceRequest,
        cx: loopwright_core::InferCx<'_>,
    ) -> Result<loopwright_core::messages::InferenceResponse, loopwright_core::ModelError> {
        self.0.infer(request, cx).await
    }

    fn least_cost(&self, _request: &loopwright_core::messages::InferenceRequest) -> Option<Cost> {
        Some(self.1)
    }
}

#[test]
fn a_first_request_that_costs_more_than_the_budget_is_not_sent() {
    let run = |least: f64| {
        let model = FakeModel::script(["hello"]);
        let priced = Priced(model.clone(), Cost::from_dollars(least));
        let budget = Budget { cost: Some(Cost::from_dollars(0.01)), ..Budget::unlimited() };
        let state =
            block_on(test_loop(ModelDriver::new(priced)).execute(asked().with_budget(budget)));
        let reason = state.stop_signal().map(|it| it.reason);
        (reason, model.requests().len())
    };
    assert_eq!(run(0.02), (Some(StopReason::CostLimitReached), 0));
    assert_eq!(run(0.005), (None, 1));
}

/// Passes every request on, and notes what it costs at least.
#[derive(Default)]
struct Passing(std::sync::Arc<std::sync::Mutex<Vec<Option<Cost>>>>);

#[async_trait::async_trait]
impl loopwright_core::ModelLayer for Passing {
    async fn infer(
        &self,
        model: &dyn loopwright_core::ChatModel,
        request: &loopwright_core::messages::InferenceRequest,
        cx: loopwright_core::InferCx<'_>,
    ) -> Result<loopwright_core::messages::InferenceResponse, loopwright_core::ModelError> {
        lock(&self.0).push(model.least_cost(request));
        model.infer(request, cx).await
    }
}

#[test]
fn every_layer_knows_what_a_request_costs_at_least() {
    let (one, two) = (Passing::default(), Passing::default());
    let (least, notes) = (Cost::from_dollars(0.02), [one.0.clone(), two.0.clone()]);
    let priced = Priced(FakeModel::script(["hello"]), least);
    let agent = test_loop(ModelDriver::new(priced)).with(|parts| {
        parts.layers.add(std::sync::Arc::new(one));
        parts.layers.add(std::sync::Arc::new(two));
    });
    execute(&agent, asked());
    for notes in notes {
        assert_eq!(*lock(&notes), [Some(least)]);
    }
    let free = loopwright_core::ChatModel::least_cost(
        &FakeModel::echo(),
        &loopwright_core::messages::InferenceRequest::default(),
    );
    assert_eq!(free, None);
}

#[test]
fn a_layer_does_not_hide_what_a_request_costs_at_least() {
    let model = FakeModel::script(["hello"]);
    let priced = Priced(model.clone(), Cost::from_dollars(0.02));
    let agent = test_loop(ModelDriver::new(priced));
    let agent = agent.with(|parts| parts.layers.add(std::sync::Arc::new(Passing::default())));
    let budget = Budget { cost: Some(Cost::from_dollars(0.01)), ..Budget::unlimited() };
    let state = execute(&agent, asked().with_budget(budget));
    let reason = state.stop_signal().map(|it| it.reason);
    assert_eq!((reason, model.asked()), (Some(StopReason::CostLimitReached), 0));
}

#[test]
fn an_estimate_that_an_account_above_refuses_is_set_aside_nowhere() {
    let tokens = |tokens| Budget { tokens: Some(tokens), ..Budget::unlimited() };
    let family = BudgetAccount::new(&tokens(10));
    let child = family.child(&tokens(8));
    let other = family.reserve(5, Cost::ZERO).unwrap();
    assert_eq!(child.reserve(8, Cost::ZERO).unwrap_err().reason, StopReason::TokenLimitReached);
    drop(other);
    assert!(child.reserve(8, Cost::ZERO).is_ok());
}

/// Is interrupted, and knows what the part of its answer has come to.
struct Interrupted;

#[async_trait::async_trait]
impl loopwright_core::ChatModel for Interrupted {
    async fn infer(
        &self,
        _: &loopwright_core::messages::InferenceRequest,
        _: loopwright_core::InferCx<'_>,
    ) -> Result<loopwright_core::messages::InferenceResponse, loopwright_core::ModelError> {
        let kind = loopwright_core::ModelErrorKind::Cancelled;
        let error = loopwright_core::ModelError::new(kind, "cancelled");
        let (usage, cost) = (Usage::new(5, 2), Some(Cost::from_picodollars(9)));
        Err(loopwright_core::ModelError { usage, cost, ..error })
    }
}

#[test]
fn an_interrupted_answer_costs_what_its_model_says() {
    let state = execute(&test_loop(ModelDriver::new(Interrupted)), asked());
    let spent = Spend { usage: Usage::new(5, 2), cost: Cost::from_picodollars(9) };
    assert_eq!((state.status().as_str(), state.total_spent()), ("stopped", spent));
}

/// Asks a model of its own about every answer.
struct Judge(FakeModel);

#[async_trait::async_trait]
impl loopwright_core::Hook for Judge {
    async fn after_inference(
        &self,
        _: &mut loopwright_core::messages::InferenceResponse,
        state: &loopwright_core::AgentState,
        cx: &loopwright_core::HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let prompt = loopwright_core::messages::Prompt::of(state.transcript().clone());
        let request = loopwright_core::messages::InferenceRequest { prompt, ..Default::default() };
        cx.infer(state, &self.0, request).await?;
        Ok(Flow::Continue)
    }
}

#[test]
fn a_hooks_own_model_call_is_charged_and_calls_no_hooks() {
    let judge = FakeModel::script([ScenarioStep::from("good").with_usage(Usage::new(30, 4))]);
    let model = FakeModel::script([ScenarioStep::from("done").with_usage(Usage::new(1, 2))]);
    let agent = hooked(&test_loop(ModelDriver::new(model)), Judge(judge.clone()));
    let state = execute(&agent, asked());
    assert_eq!((state.usage(), judge.asked()), (Usage::new(31, 6), 1));
}

#[test]
fn first_requests_at_the_same_time_do_not_count_on_the_same_tokens() {
    let budget = Budget { tokens: Some(100), ..Budget::unlimited() };
    let answer = ScenarioStep::final_answer("done").with_usage(Usage::new(80, 10));
    let model = FakeModel::script([answer]).with_yields(3);
    let agent = test_loop(ModelDriver::new(model.clone()));
    let account = BudgetAccount::new(&budget);
    let run = || {
        let options = RunOptions { meter: Some(account.clone()), ..options() };
        let state = AgentState::new().with_user_message("word ".repeat(80)).with_budget(budget);
        agent.start(state, options).finish()
    };
    let (one, other) = block_on(async { futures_util::join!(run(), run()) });
    assert_eq!((one.text().as_str(), model.asked()), ("done", 1));
    let reason = other.stop_signal().map(|it| it.reason);
    assert_eq!(reason, Some(StopReason::TokenLimitReached), "{}", other.explain_stop());
}
