use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, UseContextCompiler, UseDriver, UseGuards, UseHook, UseTools};
use loopwright_capabilities::structured::TypedOptions;
use loopwright_core::{
    AgentLoop, ApprovalRequest, Budget, CallableHook, CompileError, ContextCompiler, Driver,
    ErrorDecision, Flow, ModelError, ModelErrorKind, RunOptions, StepError, StepResponse, ThinkCx,
    ToolDecision,
    messages::{Content, Cost, InferenceResponse, Message, Part, Prompt, Role, Usage},
};
use loopwright_testing::{
    FakeDriver, FakeModel, Fault, MemoryJournal, MockTool, ModelDriver, ScenarioStep,
};
use serde_json::json;

use super::*;

/// Endings that only a later version of the loop could bring about: no failure of these kinds ends a
/// run today, since what goes wrong in a tool is told to the model.
const NEVER: [RunEnding; 4] = [
    RunEnding::Failed(FailureKind::Tool),
    RunEnding::Failed(FailureKind::UnknownTool),
    RunEnding::Failed(FailureKind::InvalidArguments),
    RunEnding::Failed(FailureKind::Other),
];

/// Endings that were seen, each with its exit status.
#[derive(Default)]
struct Seen(RefCell<Vec<RunEnding>>);

impl Seen {
    #[track_caller]
    fn check(&self, state: &AgentState, expect: RunEnding, exit_code: u8) {
        self.check_interrupted(state, None, expect, exit_code);
    }

    #[track_caller]
    fn check_interrupted(
        &self,
        state: &AgentState,
        interruption: Option<Interruption>,
        expect: RunEnding,
        exit_code: u8,
    ) {
        let ending = RunEnding::of(state, interruption);
        assert_eq!(ending, expect, "{}", state.explain_stop());
        assert_eq!(ending.exit_code().code(), exit_code, "{ending:?}");
        assert_eq!(ending.status(), state.status().as_str().replace("pending", "in_progress"));
        self.0.borrow_mut().push(ending);
    }
}

fn run_with(agent: &AgentLoop, state: AgentState, options: RunOptions) -> AgentState {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let state = state.with_user_message("hi");
    runtime.block_on(agent.start(state, options).finish())
}

fn run(agent: &AgentLoop) -> AgentState {
    run_with(agent, AgentState::new(), RunOptions::default())
}

fn builder(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentBuilder {
    AgentBuilder::base().with_capability(UseDriver::new(FakeDriver::steps(steps)))
}

fn script(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentState {
    run(&builder(steps).build().unwrap())
}

fn hooked(steps: impl IntoIterator<Item = ScenarioStep>, hook: CallableHook) -> AgentState {
    let tool = UseTools::new().with_tool(MockTool::returning("look", "Looks.", "seen"));
    let builder = builder(steps).with_capability(UseHook::new(hook)).with_capability(tool);
    run(&builder.build().unwrap())
}

fn answer(text: &str) -> ScenarioStep {
    ScenarioStep::final_answer(text)
}

fn look() -> ScenarioStep {
    ScenarioStep::tool_call("look", json!({}))
}

fn finish(reason: FinishReason) -> AgentState {
    script([answer("as far as").with_finish(reason)])
}

#[test]
fn every_ending_has_its_exit_code() {
    let seen = Seen::default();
    natural(&seen);
    stopped(&seen);
    failed(&seen);
    unfinished(&seen);
    let seen = seen.0.into_inner();
    for ending in RunEnding::all() {
        assert_ne!(seen.contains(&ending), NEVER.contains(&ending), "{ending:?}");
    }
    for ending in NEVER {
        assert_eq!(ending.exit_code(), ExitCode::Internal);
    }
}

fn natural(seen: &Seen) {
    seen.check(&script([answer("")]), RunEnding::Empty, 10);
    seen.check(&script([look(), answer(" \n")]), RunEnding::Empty, 10);
    seen.check(&script([answer("done")]), RunEnding::Answered, 0);
    let missing = ScenarioStep::tool_call("missing", json!({}));
    let state = script([missing, answer("done")]);
    seen.check(&state, RunEnding::AnsweredWithToolErrors, 0);
    let block = CallableHook::new("block")
        .before_tool(|_, _, _| Ok(ToolDecision::Block { reason: "no".to_owned() }));
    let state = hooked([look(), answer("done")], block);
    seen.check(&state, RunEnding::AnsweredAfterDenial, 8);
    // What was done after a denial counts.
    let tried = std::sync::atomic::AtomicBool::new(false);
    let once = CallableHook::new("once").before_tool(move |_, _, _| {
        let is_again = tried.swap(true, std::sync::atomic::Ordering::Relaxed);
        let block = ToolDecision::Block { reason: "no".to_owned() };
        Ok(if is_again { ToolDecision::Run } else { block })
    });
    let state = hooked([look(), look(), answer("done")], once);
    seen.check(&state, RunEnding::AnsweredWithToolErrors, 0);
    seen.check(&finish(FinishReason::Length), RunEnding::CutOff, 6);
    seen.check(&finish(FinishReason::ContentFilter), RunEnding::Filtered, 8);
    seen.check(&finish(FinishReason::Refusal), RunEnding::Refused, 8);
    seen.check(&finish(FinishReason::Other("eos".into())), RunEnding::Answered, 0);
    let refusal = FakeModel::from_fn(|_| {
        let refusal = Part::new(Content::Refusal("I must not".into()));
        let message = Message::new(Role::Assistant, [refusal]);
        Ok(InferenceResponse::new(message, Usage::default()))
    });
    let builder = AgentBuilder::base().with_capability(UseDriver::new(ModelDriver::new(refusal)));
    seen.check(&run(&builder.build().unwrap()), RunEnding::Refused, 8);
    let guards = UseGuards::none().with_finish_reasons([FinishReason::Stop]);
    let agent = builder_of(answer("done")).with_capability(guards).build().unwrap();
    seen.check(&run(&agent), RunEnding::FinishReason, 0);
    // A run does not verify itself.
    assert_eq!(RunEnding::Unverified.exit_code().code(), 12);
    seen.0.borrow_mut().push(RunEnding::Unverified);
}

fn builder_of(step: ScenarioStep) -> AgentBuilder {
    builder([step])
}

fn stopped(seen: &Seen) {
    let raise = |reason| {
        let signal = StopSignal::new(reason, "hook", "because");
        let hook =
            CallableHook::new("hook").before_step(move |_, _| Ok(Flow::Stop(signal.clone())));
        hooked([answer("done")], hook)
    };
    let expect = [
        (StopReason::ErrorForbade, 1),
        (StopReason::StopRequested, 8),
        (StopReason::UserRequested, 130),
        (StopReason::StepsLimitReached, 6),
        (StopReason::TokenLimitReached, 6),
        (StopReason::TimeLimitReached, 6),
        (StopReason::CostLimitReached, 6),
        (StopReason::RetryLimitReached, 6),
        (StopReason::Unknown, 1),
    ];
    for (reason, exit_code) in expect {
        seen.check(&raise(reason), RunEnding::Stopped(reason), exit_code);
    }
    let user = raise(StopReason::UserRequested);
    seen.check_interrupted(&user, Some(Interruption::Terminate), RunEnding::Terminated, 143);
    seen.check_interrupted(&user, Some(Interruption::HangUp), RunEnding::OutputClosed, 0);
    let interrupted = Some(Interruption::Interrupt);
    seen.check_interrupted(&user, interrupted, RunEnding::Stopped(StopReason::UserRequested), 130);
    // A caller that stops in vain changes nothing.
    seen.check_interrupted(&script([answer("done")]), interrupted, RunEnding::Answered, 0);
    limits(seen);
    let schema = AnswerSchema::new(&json!({ "type": "object" })).unwrap();
    let agent = builder([answer("no object"), answer("nor this")]).build().unwrap();
    let options = TypedOptions { max_retries: 1, ..TypedOptions::default() };
    seen.check(&run(&schema.apply(&agent, &options)), RunEnding::SchemaUnmet, 11);
    let forbid =
        CallableHook::new("policy").on_error(|_, _, _| Ok(ErrorDecision::Retry)).after_step(
            |_, _| Ok(Flow::Stop(StopSignal::new(StopReason::ErrorForbade, "policy", "no more"))),
        );
    let model = FakeModel::script([ScenarioStep::error("down")]);
    let agent = AgentBuilder::base()
        .with_capability(UseDriver::new(ModelDriver::new(model)))
        .with_capability(UseHook::new(forbid))
        .build()
        .unwrap();
    seen.check(&run(&agent), RunEnding::ForbiddenAfterProvider, 5);
}

fn limits(seen: &Seen) {
    let spend = look().with_usage(Usage::new(60, 40)).with_cost(Cost::from_dollars(0.5));
    let agent = builder([spend]).build().unwrap();
    let check = |budget, reason| {
        let state = AgentState::new().with_budget(budget);
        let state = run_with(&agent, state, RunOptions::default());
        seen.check(&state, RunEnding::Stopped(reason), 6);
    };
    let none = Budget::unlimited();
    check(Budget { steps: Some(2), ..none }, StopReason::StepsLimitReached);
    check(Budget { tokens: Some(150), ..none }, StopReason::TokenLimitReached);
    check(Budget { time: Some(Duration::ZERO), ..none }, StopReason::TimeLimitReached);
    let cost = Some(Cost::from_dollars(0.6));
    check(Budget { cost, ..none }, StopReason::CostLimitReached);
}

/// Fails, or worse.
#[derive(Clone, Copy)]
enum Bad {
    Invalid,
    Panics,
}

#[async_trait]
impl Driver for Bad {
    async fn think(&self, _: &AgentState, _: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        match self {
            Self::Invalid => Err(StepError::Invalid("no decision".to_owned())),
            Self::Panics => panic!("the driver panics on purpose"),
        }
    }
}

struct BadCompiler;

#[async_trait]
impl ContextCompiler for BadCompiler {
    async fn compile(&self, _: &AgentState, _: Option<Prompt>) -> Result<Prompt, CompileError> {
        Err(CompileError("it does not compile on purpose".into()))
    }
}

fn failed(seen: &Seen) {
    let fails = |error: fn() -> ModelError| {
        let driver = ModelDriver::new(FakeModel::from_fn(move |_| Err(error())));
        run(&AgentBuilder::base().with_capability(UseDriver::new(driver)).build().unwrap())
    };
    macro_rules! check {
        ($($error:ident => $kind:ident, $exit_code:literal;)*) => {$(
            let state = fails(|| ModelError::new(ModelErrorKind::$error, "trouble"));
            seen.check(&state, RunEnding::Failed(FailureKind::$kind), $exit_code);
        )*};
    }
    check! {
        Network => Network, 5;
        Timeout => Timeout, 5;
        RateLimited => RateLimit, 5;
        Unavailable => Model, 5;
        Quota => Model, 5;
        NotFound => Model, 5;
        InvalidRequest => Model, 5;
        ContextLength => ContextLength, 5;
        Protocol => Model, 5;
        Auth => NoModel, 4;
        NoModel => NoModel, 4;
    }
    let driver = |driver| {
        run(&AgentBuilder::base().with_capability(UseDriver::new(driver)).build().unwrap())
    };
    seen.check(&driver(Bad::Invalid), RunEnding::Failed(FailureKind::Validation), 5);
    seen.check(&driver(Bad::Panics), RunEnding::Failed(FailureKind::Panic), 1);
    let broken = script([ScenarioStep::error("broken")]);
    seen.check(&broken, RunEnding::Failed(FailureKind::Driver), 1);
    let hook = CallableHook::new("hook").before_step(|_, _| Err("broken".into()));
    let state = hooked([answer("done")], hook);
    seen.check(&state, RunEnding::Failed(FailureKind::Hook), 1);
    let builder = AgentBuilder::base()
        .with_capability(UseDriver::new(ModelDriver::new(FakeModel::default())))
        .with_capability(UseContextCompiler::new(BadCompiler));
    let state = run(&builder.build().unwrap());
    seen.check(&state, RunEnding::Failed(FailureKind::ContextCompile), 1);
    let journal = MemoryJournal::new();
    journal.fail_next(Fault::Conflict);
    let options = RunOptions { journal: Some(Arc::new(journal)), ..RunOptions::default() };
    let agent = builder_of(answer("done")).build().unwrap();
    let state = run_with(&agent, AgentState::new(), options);
    seen.check(&state, RunEnding::Failed(FailureKind::Journal), 1);
    let options = RunOptions { max_attempts: 0, ..RunOptions::default() };
    let state = run_with(&agent, AgentState::new(), options);
    seen.check(&state, RunEnding::Failed(FailureKind::CrashLoop), 1);
}

fn unfinished(seen: &Seen) {
    let ask = CallableHook::new("ask")
        .before_tool(|_, _, _| Ok(ToolDecision::Ask(ApprovalRequest::new("may it?", "ask"))));
    seen.check(&hooked([look(), answer("done")], ask), RunEnding::Paused, 9);
    seen.check(&AgentState::new(), RunEnding::Unfinished, 1);
}

#[test]
fn the_documented_table_is_the_one_in_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exit-codes.md");
    let page = std::fs::read_to_string(path).unwrap();
    let table = RunEnding::table();
    assert!(page.contains(&table), "docs/exit-codes.md must contain this table:\n{table}");
}
