#[cfg(all(feature = "skills", target_os = "linux"))]
mod agents;
mod definitions;
#[cfg(all(feature = "tools", target_os = "linux"))]
mod files;
mod own_tools;

use loopwright_agent::{AgentBuilder, UseTools};
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, Arguments, ExecutionStatus, ExternalTool, RunOptions,
    SideEffects, ToolApproval, ToolOptions, ToolOutput,
};
use loopwright_permissions::{Decision, Mode, Policy, Source, SourceKind};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, block_on, test_env};
use serde_json::{Value, json};

use super::{OnAsk, Permissions, UsePermissions};
use crate::child::{ChildAgent, ChildError};
use crate::llm::UseLlm;

fn source(rules: &[(Decision, &str)]) -> Source {
    let source = Source::new(SourceKind::User, "config.toml", "/home/ann");
    let lines = rules.iter().zip(1..);
    lines.fold(source, |source, ((decision, rule), line)| source.with_rule(*decision, *rule, line))
}

fn policy(mode: Mode, rules: &[(Decision, &str)]) -> Policy {
    Policy::builder("/project").home("/home/ann").mode(mode).source(source(rules)).build()
}

/// An agent whose model makes one call and then says `done`, and the tool that is called.
fn calling(tool: &str, arguments: Value, permissions: UsePermissions) -> (AgentLoop, MockTool) {
    let mock = MockTool::returning(tool, "", "returned");
    let model = FakeModel::script([ScenarioStep::tool_call(tool, arguments), "done".into()]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(mock.clone()))
        .with(permissions)
        .build()
        .unwrap();
    (agent, mock)
}

fn run(agent: &AgentLoop) -> AgentState {
    execute(agent, AgentState::new().with_user_message("go"))
}

fn execute(agent: &AgentLoop, state: AgentState) -> AgentState {
    let options = RunOptions { env: test_env(1), ..RunOptions::default() };
    block_on(agent.start(state, options).finish())
}

/// What the model is told of a `bash` call.
fn told(permissions: UsePermissions, command: &str) -> (String, usize) {
    let (agent, bash) = calling("bash", json!({ "command": command }), permissions);
    let state = run(&agent);
    let text = state.tool_calls().next().map(|(_, result)| result.to_text()).unwrap_or_default();
    (text, bash.calls().len())
}

fn using(mode: Mode, rules: &[(Decision, &str)]) -> UsePermissions {
    UsePermissions::new(Permissions::new(policy(mode, rules)))
}

#[test]
fn a_call_that_a_rule_denies_does_not_run_and_the_model_is_told_the_rule() {
    let rules = [(Decision::Deny, "Bash(git push *)")];
    assert_eq!(
        told(using(Mode::Unconfined, &rules), "git push origin main"),
        (
            "Blocked: not permitted (rule `Bash(git push *)` of config.toml:1); continue without it"
                .to_owned(),
            0
        )
    );
    assert_eq!(told(using(Mode::Unconfined, &rules), "git status"), ("returned".to_owned(), 1));
}

#[test]
fn a_call_that_is_asked_about_pauses_is_denied_or_stops_the_run() {
    let asks = |on_ask| using(Mode::Ask, &[]).with_on_ask(on_ask);
    let (agent, bash) = calling("bash", json!({ "command": "make" }), asks(OnAsk::Pause));
    let paused = run(&agent);
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    assert_eq!(paused.pending()[0].question.text, "no rule matches, mode `ask`");
    assert_eq!(bash.calls().len(), 0);
    let done = execute(&agent, paused.decide(0, ApprovalDecision::Approve));
    assert_eq!((done.text().as_str(), bash.calls().len()), ("done", 1));

    assert_eq!(
        told(asks(OnAsk::Deny), "make"),
        (
            "Blocked: not permitted without approval (no rule matches, mode `ask`); continue without it"
                .to_owned(),
            0
        )
    );
    let (agent, bash) = calling("bash", json!({ "command": "make" }), asks(OnAsk::Fail));
    let stopped = run(&agent);
    let reason = stopped.stop_signal().map(|signal| signal.message.clone());
    assert_eq!(reason.as_deref(), Some("`bash` needs approval (no rule matches, mode `ask`)"));
    assert_eq!(bash.calls().len(), 0);
}

#[test]
fn an_approval_with_other_arguments_does_not_get_around_a_rule_that_denies() {
    let rules = [(Decision::Deny, "Bash(rm *)")];
    let (agent, bash) = calling("bash", json!({ "command": "make" }), using(Mode::Ask, &rules));
    let edited = Arguments::new(r#"{"command":"rm -rf build"}"#);
    let decision = ApprovalDecision::ApproveWith { arguments: edited };
    let state = execute(&agent, run(&agent).decide(0, decision));
    assert_eq!(bash.calls().len(), 0);
    let errors: Vec<String> = state.errors().collect();
    assert_eq!(errors, ["not permitted (rule `Bash(rm *)` of config.toml:1); continue without it"]);
}

#[test]
fn a_policy_that_is_replaced_decides_about_the_next_call() {
    let permissions = Permissions::new(policy(Mode::Unconfined, &[]));
    let using = || UsePermissions::new(permissions.clone());
    assert_eq!(told(using(), "make").1, 1);
    permissions.set(policy(Mode::Unconfined, &[(Decision::Deny, "Bash")]));
    assert_eq!(told(using(), "make").1, 0);
}

#[test]
fn commands_run_without_a_question_where_the_sandbox_confines_them() {
    let run = |mode, is_confined: bool| {
        told(using(mode, &[]).with_on_ask(OnAsk::Deny).with_confined(move |_| is_confined), "make")
            .1
    };
    assert_eq!((run(Mode::Auto, true), run(Mode::Auto, false)), (1, 0));
    assert_eq!((run(Mode::Plan, true), run(Mode::Plan, false)), (1, 0));
    assert_eq!((run(Mode::Ask, true), run(Mode::Deny, true)), (0, 0));
}

#[test]
fn a_tool_that_only_looks_runs_in_every_mode_but_deny() {
    let run = |mode, side_effects| {
        let mock = MockTool::returning("stock", "", "3")
            .with_options(ToolOptions { side_effects, ..ToolOptions::default() });
        let model = FakeModel::script([ScenarioStep::tool_call("stock", json!({})), "done".into()]);
        let agent = AgentBuilder::base()
            .with(UseLlm::from_model(model))
            .with(UseTools::new().with_tool(mock.clone()))
            .with(using(mode, &[]).with_on_ask(OnAsk::Deny))
            .build()
            .unwrap();
        execute(&agent, AgentState::new().with_user_message("go"));
        mock.calls().len()
    };
    let calls = |side_effects| Mode::ALL.map(|mode| run(mode, side_effects));
    assert_eq!(calls(SideEffects::ReadOnly), [1, 1, 1, 1, 0, 1]);
    assert_eq!(calls(SideEffects::AtMostOnce), [0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_sub_agents_call_that_needs_approval_pauses_its_parent() {
    let spawn = MockTool::with_cx("spawn", "", |_, cx| {
        Box::pin(async move {
            let agent = ChildAgent::of(cx, "helper");
            let ended = agent.run("work", |state| state.with_user_message("work")).await;
            let ended = ended.map_err(ChildError::into_tool_error)?;
            let answer = ended.answer().map_err(ChildError::into_tool_error)?;
            Ok(ToolOutput::text(answer.to_text()))
        })
    });
    let side_effects = SideEffects::Resumable;
    let spawn = spawn.with_options(ToolOptions { side_effects, ..ToolOptions::default() });
    let bash = MockTool::returning("bash", "", "pushed");
    let model = FakeModel::script([
        ScenarioStep::tool_call("spawn", json!({})),
        ScenarioStep::tool_call("bash", json!({ "command": "git push" })),
        "the helper pushed".into(),
        "all is pushed".into(),
    ]);
    let rules = [(Decision::Ask, "Bash(git push *)")];
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(spawn).with_tool(bash.clone()))
        .with(using(Mode::Unconfined, &rules))
        .build()
        .unwrap();
    let paused = run(&agent);
    let address = paused.pending()[0].address();
    assert_eq!((address.as_slice(), bash.calls().len()), ([0, 0].as_slice(), 0));
    let done = execute(&agent, paused.decide_at(&address, ApprovalDecision::Approve));
    assert_eq!((done.text().as_str(), bash.calls().len()), ("all is pushed", 1));
}

/// What a run makes of a tool that declares that it needs approval: its status, and how often the tool ran.
fn declared(permissions: UsePermissions) -> (&'static str, usize) {
    let mock = MockTool::returning("pay", "", "paid").with_options(ToolOptions {
        approval: ToolApproval::Always("Pay?".into()),
        side_effects: SideEffects::ReadOnly,
        ..ToolOptions::default()
    });
    let model = FakeModel::script([ScenarioStep::tool_call("pay", json!({})), "done".into()]);
    let agent = AgentBuilder::base()
        .with(UseLlm::from_model(model))
        .with(UseTools::new().with_tool(mock.clone()))
        .with(permissions)
        .build()
        .unwrap();
    let state = run(&agent);
    let asked = state.pending().first().map(|it| it.question.text.clone());
    let status = state.status().as_str();
    assert_eq!(asked, (status == "paused").then(|| "Pay?".to_owned()));
    (status, mock.calls().len())
}

#[test]
fn a_declared_approval_asks_where_the_mode_allows_the_call_and_a_rule_stands_for_it() {
    let auto = |rules: &[_]| using(Mode::Auto, rules);
    assert_eq!(declared(auto(&[])), ("paused", 0));
    assert_eq!(declared(auto(&[(Decision::Allow, "pay")])), ("completed", 1));
    assert_eq!(declared(using(Mode::Unconfined, &[])), ("completed", 1));
    assert_eq!(declared(auto(&[]).with_on_ask(OnAsk::Deny)), ("completed", 0));
    assert_eq!(declared(auto(&[]).with_on_ask(OnAsk::Fail)), ("stopped", 0));
    assert_eq!(declared(auto(&[(Decision::Deny, "pay")])), ("completed", 0));
}

#[test]
fn a_call_that_runs_elsewhere_waits_for_its_result_without_a_question_and_can_be_denied() {
    let run = |permissions: UsePermissions| {
        let steps = [ScenarioStep::tool_call("locate", json!({})), "done".into()];
        let agent = AgentBuilder::base()
            .with(UseLlm::from_model(FakeModel::script(steps)))
            .with(UseTools::new().with_tool(ExternalTool::new("locate", "Finds.")))
            .with(permissions)
            .build()
            .unwrap();
        let state = run(&agent);
        state.pending().first().map(|it| it.kind.as_str())
    };
    for on_ask in [OnAsk::Pause, OnAsk::Deny, OnAsk::Fail] {
        assert_eq!(run(using(Mode::Ask, &[]).with_on_ask(on_ask)), Some("result"), "{on_ask:?}");
    }
    assert_eq!(run(using(Mode::Ask, &[(Decision::Deny, "locate")])), None);
}

#[test]
fn a_tool_that_a_rule_denies_as_a_whole_is_not_shown_to_the_model() {
    let shown = |rules: &[(Decision, &str)]| {
        let model = FakeModel::script(["done"]);
        let tool = |name: &str| MockTool::returning(name, "", "");
        let agent = AgentBuilder::base()
            .with(UseLlm::from_model(model.clone()))
            .with(UseTools::new().with_tool(tool("bash")).with_tool(tool("read_file")))
            .with(using(Mode::Auto, rules))
            .build()
            .unwrap();
        run(&agent);
        let requests = model.requests();
        requests[0].tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&[(Decision::Deny, "Bash")]), ["read_file"]);
    assert_eq!(shown(&[(Decision::Deny, "Bash(rm *)")]), ["bash", "read_file"]);
    assert_eq!(shown(&[(Decision::Ask, "Bash"), (Decision::Deny, "*")]), [""; 0]);
}
