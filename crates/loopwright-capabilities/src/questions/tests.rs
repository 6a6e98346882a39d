use std::sync::Arc;

use loopwright_agent::{AgentBuilder, AgentDefinition, DefinitionRegistry, UseLlmConfig};
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, DecisionError, ExecutionStatus, RequestKind,
    RunOptions, StopReason,
};
use loopwright_testing::{
    FakeModel, MemoryJournal, ScenarioStep, block_on, test_env, tool_results,
};
use serde_json::{Value, json};

use super::*;
use crate::subagents::UseSubagents;

fn builder(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentBuilder {
    AgentBuilder::base().with_capability(UseLlmConfig::model(FakeModel::script(steps)))
}

fn asking(on_question: OnQuestion, question: &Value) -> AgentLoop {
    let steps = [ScenarioStep::tool_call("ask_user", question.clone()), "done".into()];
    builder(steps).with_capability(UseQuestions::new(on_question)).build().unwrap()
}

fn run(agent: &AgentLoop) -> AgentState {
    let options = RunOptions { env: test_env(1), ..RunOptions::default() };
    block_on(agent.start(AgentState::new().with_user_message("go"), options).finish())
}

fn colors(allow_other: bool) -> Value {
    json!({ "question": " Which color? ", "options": ["red", " blue", "red"], "allow_other": allow_other })
}

fn reply(value: impl Into<Value>) -> ApprovalDecision {
    ApprovalDecision::Reply(value.into())
}

/// The schema of what waits.
fn schema(state: &AgentState) -> Option<Value> {
    match state.pending().first()?.kind {
        RequestKind::Question { schema } => schema.as_deref().cloned(),
        _ => None,
    }
}

#[test]
fn a_question_waits_with_the_schema_of_its_answer_and_the_answer_is_the_result() {
    let text = json!({ "type": "string" });
    let choice = json!({ "type": "string", "enum": ["red", "blue"] });
    let either = json!({ "anyOf": [choice, text] });
    for (question, expect, answer) in [
        (json!({ "question": "Which color?" }), text.clone(), "green"),
        (colors(false), choice.clone(), "blue"),
        (colors(true), either, "green"),
    ] {
        let agent = asking(OnQuestion::Wait, &question);
        let paused = run(&agent);
        assert_eq!(paused.status(), &ExecutionStatus::Paused);
        let asked = paused.pending()[0];
        assert_eq!(
            (asked.address(), &*asked.question.text, &*asked.question.source),
            (vec![0], "Which color?", "ask_user")
        );
        assert_eq!(schema(&paused), Some(expect));
        let state = agent.decide(&paused, &[0], reply(answer)).unwrap();
        let done = block_on(agent.execute(state));
        assert_eq!((tool_results(&done), done.text()), (vec![answer.to_owned()], "done".into()));
    }
}

#[test]
fn an_answer_that_does_not_fit_is_refused_and_the_question_still_waits() {
    for (question, wrong) in [
        (json!({ "question": "Which color?" }), json!(7)),
        (colors(false), json!("green")),
        (colors(true), json!({ "color": "red" })),
    ] {
        let agent = asking(OnQuestion::Wait, &question);
        let paused = run(&agent);
        let error = agent.decide(&paused, &[0], reply(wrong)).unwrap_err();
        assert!(matches!(error, DecisionError::InvalidReply { .. }), "{error}");
        assert_eq!(block_on(agent.execute(paused.clone())).pending(), paused.pending());
    }
}

#[test]
fn the_model_reads_that_the_user_declined() {
    let agent = asking(OnQuestion::Wait, &colors(false));
    let reason = "the user declined to answer".to_owned();
    let state = agent.decide(&run(&agent), &[0], ApprovalDecision::Deny { reason }).unwrap();
    let done = block_on(agent.execute(state));
    assert_eq!(tool_results(&done), ["Blocked: the user declined to answer"]);
    assert_eq!(done.text(), "done");
}

#[test]
fn a_question_without_a_user_is_declined_or_stops_the_run() {
    let done = run(&asking(OnQuestion::Decline, &colors(false)));
    let expect =
        "The question was declined: no user is present. Continue without an answer.".to_owned();
    assert_eq!((tool_results(&done), done.text()), (vec![expect], "done".into()));

    let stopped = run(&asking(OnQuestion::Stop, &colors(false)));
    let signal = stopped.stop_signal().unwrap();
    assert_eq!(signal.reason, StopReason::StopRequested);
    assert_eq!(signal.message, "`ask_user` needs an answer (Which color?)");
}

#[test]
fn a_question_without_words_asks_the_user_nothing() {
    for question in [json!({ "question": " " }), json!({ "question": "Which?", "options": [""] })] {
        for on_question in [OnQuestion::Wait, OnQuestion::Decline] {
            let done = run(&asking(on_question, &question));
            assert_eq!((done.pending().len(), done.text()), (0, "done".into()));
            assert!(tool_results(&done)[0].contains("is empty; pass"), "{:?}", tool_results(&done));
        }
    }
}

#[test]
fn a_question_and_its_answer_survive_new_processes() {
    let journal = MemoryJournal::new();
    let options = || RunOptions {
        env: test_env(1),
        journal: Some(Arc::new(journal.clone())),
        ..RunOptions::default()
    };
    let replayed = || AgentState::new().replay(journal.changes()).unwrap();
    let agent = asking(OnQuestion::Wait, &colors(false));
    let state = AgentState::new().with_user_message("go");
    block_on(agent.start(state, options()).finish());

    // The process that records the answer does not run the agent.
    let mut answered = replayed().try_decide(&[0], reply("blue")).unwrap();
    block_on(answered.save(&journal, &*test_env(1).clock)).unwrap();
    let state = replayed();
    assert_eq!(state.pending(), []);
    let resumed = builder(["done".into()]).with_capability(UseQuestions::default());
    let resumed = resumed.build().unwrap();
    let done = block_on(resumed.start(state, options()).finish());
    assert_eq!((tool_results(&done), done.text()), (vec!["blue".to_owned()], "done".into()));
    assert_eq!(replayed(), done);
}

#[test]
fn a_sub_agents_question_waits_at_the_root_with_its_path() {
    let mut helpers = DefinitionRegistry::new();
    helpers.register(AgentDefinition::new("painter", "Paints.", "You paint."));
    let spawn = json!({ "subagent": "painter", "prompt": "Paint the door." });
    let steps = [
        ScenarioStep::tool_call("spawn_subagent", spawn),
        ScenarioStep::tool_call("ask_user", colors(false)),
        "The door is blue.".into(),
        "All is painted.".into(),
    ];
    let agent = builder(steps)
        .with_capability(UseQuestions::default())
        .with_capability(UseSubagents::new(helpers))
        .build()
        .unwrap();
    let paused = run(&agent);
    let asked = paused.pending()[0];
    let agents: Vec<_> = asked.path.iter().map(|it| &*it.agent).collect();
    assert_eq!(
        (asked.address(), agents, &*asked.call.name, &*asked.question.text),
        (vec![0, 0], vec!["painter"], "ask_user", "Which color?")
    );
    assert!(agent.decide(&paused, &[0, 0], reply("green")).is_err());
    let state = agent.decide(&paused, &[0, 0], reply("blue")).unwrap();
    let stored = serde_json::to_string(&state).unwrap();
    let done = block_on(agent.execute(serde_json::from_str(&stored).unwrap()));
    assert_eq!(done.text(), "All is painted.");
    assert!(tool_results(&done)[0].contains("The door is blue."), "{:?}", tool_results(&done));
}
