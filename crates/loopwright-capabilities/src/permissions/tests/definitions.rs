//! Rules of definitions, which bind the agents that they define and the sub-agents of these.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use loopwright_agent::{
    AgentBuilder, AgentDefinition, CallRules, CapabilityRegistry, DefinitionLoopFactory,
    DefinitionRegistry, LoopFactory as _, UseTools,
};
use loopwright_core::{AgentLoop, EventEnvelope, events::ToolCallCompleted};
use loopwright_permissions::{Decision, Mode};
use loopwright_testing::{EventRecorder, FakeModel, MockTool, ScenarioStep};
use serde_json::json;

use super::{policy, run, using};
use crate::llm::UseLlm;
use crate::permissions::{OnAsk, Permissions, UsePermissions};
use crate::subagents::UseSubagents;

fn defined(only: Option<&[&str]>, deny: &[&str], mode: Option<&str>) -> AgentDefinition {
    let call_rules = CallRules {
        only: only.map(|rules| rules.iter().copied().collect()),
        deny: deny.iter().copied().collect(),
        mode: mode.map(str::to_owned),
        ..CallRules::default()
    };
    AgentDefinition { call_rules, ..AgentDefinition::new("helper", "Helps.", "You help.") }
}

/// An agent that is defined or starts one that is defined, whose model runs a command, and the tool that runs it.
fn agent(
    definition: AgentDefinition,
    rules: UsePermissions,
    command: &str,
    is_child: bool,
) -> (AgentLoop, MockTool) {
    let bash = MockTool::returning("bash", "", "ran");
    let spawn = json!({ "subagent": "helper", "prompt": "Do it." });
    let steps = [
        Some(ScenarioStep::tool_call("spawn_subagent", spawn)).filter(|_| is_child),
        Some(ScenarioStep::tool_call("bash", json!({ "command": command }))),
        Some("helped".into()),
        Some("done".into()).filter(|_| is_child),
    ];
    let mut registry = CapabilityRegistry::new();
    rules.clone().register(&mut registry);
    let registry = Arc::new(registry);
    let builder = AgentBuilder::base()
        .with(UseLlm::from_model(FakeModel::script(steps.into_iter().flatten())))
        .with(UseTools::new().with_tool(bash.clone()))
        .with(rules);
    let agent = if is_child {
        let mut agents = DefinitionRegistry::new();
        agents.register(definition);
        builder.with(UseSubagents::new(agents).with_capabilities(registry)).build()
    } else {
        DefinitionLoopFactory::new(builder).with_capabilities(registry).instantiate(&definition)
    };
    (agent.unwrap(), bash)
}

/// How often a command runs.
fn runs(
    definition: &AgentDefinition,
    mode: Mode,
    rules: &[(Decision, &str)],
    command: &str,
) -> [usize; 2] {
    [false, true].map(|is_child| {
        let rules =
            using(mode, rules).with_on_ask(OnAsk::Deny).with_confined(|tool| tool == "bash");
        let (agent, bash) = agent(definition.clone(), rules, command, is_child);
        run(&agent);
        bash.calls().len()
    })
}

#[test]
fn tools_with_arguments_allow_these_calls_alone() {
    let git = defined(Some(&["Bash(git:*)", "Agent(helper)"]), &[], None);
    assert_eq!(runs(&git, Mode::Auto, &[], "git status"), [1, 1]);
    assert_eq!(runs(&git, Mode::Auto, &[], "git status && rm a"), [0, 0]);
    assert_eq!(runs(&git, Mode::Auto, &[], "make"), [0, 0]);
    // They allow nothing by themselves.
    assert_eq!(runs(&git, Mode::Ask, &[], "git status"), [0, 0]);
    assert_eq!(runs(&git, Mode::Ask, &[(Decision::Allow, "Bash")], "git status"), [1, 1]);
    assert_eq!(runs(&git, Mode::Auto, &[(Decision::Deny, "Bash(git *)")], "git status"), [0, 0]);
}

#[test]
fn denied_tools_with_arguments_deny_these_calls_alone() {
    let careful = defined(None, &["Bash(rm:*)"], None);
    assert_eq!(runs(&careful, Mode::Unconfined, &[], "cd x; rm -r y"), [0, 0]);
    assert_eq!(runs(&careful, Mode::Unconfined, &[], "make"), [1, 1]);
}

#[test]
fn the_mode_of_a_definition_only_tightens() {
    let mode = |mode| defined(None, &[], Some(mode));
    assert_eq!(runs(&mode("ask"), Mode::Auto, &[], "make"), [0, 0]);
    assert_eq!(runs(&mode("ask"), Mode::Auto, &[(Decision::Allow, "Bash(make)")], "make"), [1, 1]);
    assert_eq!(runs(&mode("dontAsk"), Mode::Auto, &[], "make"), [0, 0]);
    assert_eq!(runs(&mode("bypassPermissions"), Mode::Ask, &[], "make"), [0, 0]);
    // The commands of a sub-agent run where those of its parent do, which may write.
    assert_eq!(runs(&mode("plan"), Mode::Auto, &[], "make"), [0, 0]);
}

#[test]
fn a_definition_with_rules_is_not_run_where_no_rules_apply() {
    let definition = defined(None, &["Bash(rm:*)"], None);
    let base = AgentBuilder::base().with(UseLlm::from_model(FakeModel::script(["done"])));
    let error = DefinitionLoopFactory::new(base.clone()).instantiate(&definition).unwrap_err();
    assert_eq!(error.to_string(), "unknown capability `use_permissions`; available: ");
    assert!(base.build().unwrap().instantiate(&definition).is_err());
}

#[test]
fn a_call_of_a_sub_agent_that_needs_approval_ends_the_run_where_asking_fails() {
    let rules = using(Mode::Ask, &[(Decision::Allow, "Agent")]).with_on_ask(OnAsk::Fail);
    let (agent, bash) = agent(defined(None, &[], None), rules, "make", true);
    let state = run(&agent);
    let stop =
        state.stop_signal().map(|signal| (signal.source.as_deref(), signal.message.as_str()));
    let reason = "`bash` needs approval (no rule matches, mode `ask`)";
    assert_eq!(stop, Some((Some("permissions"), reason)));
    assert_eq!((bash.calls().len(), state.step_count()), (0, 1));
}

#[test]
fn a_rule_that_never_matches_is_an_error() {
    for definition in [defined(None, &["Write(x)"], None), defined(None, &[], Some("careful"))] {
        let mut registry = CapabilityRegistry::new();
        using(Mode::Auto, &[]).register(&mut registry);
        assert!(definition.restrictions(&registry).is_err());
    }
}

/// Returns the permission modes that the events of an agent and those of its sub-agents name.
fn named_modes(agent: &AgentLoop) -> [HashSet<Option<String>>; 2] {
    let events = EventRecorder::new();
    run(&agent.with_event_sink(events.sink()));
    [false, true].map(|is_child| {
        let envelopes = events.envelopes().into_iter();
        let of_agent = envelopes.filter(|it| it.parent.is_some() == is_child);
        of_agent.map(|it| it.permission_mode.map(Cow::into_owned)).collect()
    })
}

#[test]
fn every_event_of_an_unconfined_agent_and_its_sub_agents_names_the_mode() {
    let unconfined = || HashSet::from([Some("unconfined".to_owned())]);
    let none = || HashSet::from([None]);
    let modes = |mode: Mode, of_child: Option<&str>| {
        let rules = using(mode, &[]).with_on_ask(OnAsk::Deny);
        named_modes(&agent(defined(None, &[], of_child), rules, "make", true).0)
    };
    assert_eq!(modes(Mode::Unconfined, None), [unconfined(), unconfined()]);
    // The mode of a definition is stricter.
    assert_eq!(modes(Mode::Unconfined, Some("ask")), [unconfined(), none()]);
    assert_eq!(modes(Mode::Ask, Some("unconfined")), [none(), none()]);
    assert_eq!(modes(Mode::Auto, None), [none(), none()]);
}

#[test]
fn events_name_the_mode_that_is_in_force_when_they_are_emitted() {
    let permissions = Permissions::new(policy(Mode::Unconfined, &[]));
    let rules = UsePermissions::new(permissions.clone());
    let (agent, _) = agent(defined(None, &[], None), rules, "make", false);
    let events = EventRecorder::new();
    let confine = move |_: &ToolCallCompleted, _: &EventEnvelope| {
        permissions.set(policy(Mode::Auto, &[]));
    };
    run(&agent.on_event(confine).with_event_sink(events.sink()));
    let envelopes = events.envelopes();
    let named: Vec<bool> = envelopes.iter().map(|it| it.permission_mode.is_some()).collect();
    let completed = envelopes.iter().position(|it| it.event.name() == "ToolCallCompleted");
    let expect: Vec<bool> = (0..named.len()).map(|it| Some(it) <= completed).collect();
    assert_eq!(named, expect);
}
