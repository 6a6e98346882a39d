//! What is judged, how often, and what becomes of it.

use std::sync::{Arc, OnceLock};

use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentLoop, AgentState, Budget, RunHandle, RunOptions, Step, StopReason,
    messages::{Message, Usage},
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, block_on, turn_texts};
use serde_json::json;

use crate::retrospective::UseExecutionRetrospective;

use super::{
    CRITIC_VERDICT, CriticVerdict, CritiquePolicy, ITERATIONS, OnCriticFailure, SelfCritic,
    UseSelfCritique,
};

const YES: &str = r#"Here: { "approved": true, "summary": "It is right." } That is all."#;
const NO: &str = r#"{ "approved": false, "summary": "It is a guess.", "weaknesses": ["no source"],
    "suggestions": ["run `look`"] }"#;

fn agent(model: &FakeModel, critique: UseSelfCritique) -> AgentLoop {
    let look = MockTool::returning("look", "", "it is blue");
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseTools::new().with_tool(look))
        .with_capability(critique)
        .build()
        .unwrap()
}

fn run(agent: &AgentLoop, state: AgentState, text: &str) -> AgentState {
    block_on(agent.execute(state.with_user_message(text)))
}

fn question(critic: &FakeModel, number: usize) -> String {
    critic.requests()[number].prompt.turns.last().unwrap().message().text()
}

fn reason(state: &AgentState) -> Option<StopReason> {
    state.stop_signal().map(|it| it.reason)
}

const FEEDBACK: &str = "[Self-critique 1 of 2] Your answer was reviewed and has not been accepted yet.\n\n\
    Problem: It is a guess.\n\nWeaknesses:\n- no source\n\nSuggestions:\n- run `look`\n\n\
    Follow the suggestions, using your tools; then give the complete answer again.";

#[test]
fn an_answer_that_is_accepted_is_the_end() {
    let (model, critic) = (FakeModel::script(["blue"]), FakeModel::script([YES]));
    let state =
        run(&agent(&model, UseSelfCritique::with_model(critic)), AgentState::new(), "what?");
    assert_eq!((state.text().as_str(), reason(&state)), ("blue", None));
    let verdict = CriticVerdict {
        approved: true,
        summary: "It is right.".into(),
        ..CriticVerdict::default()
    };
    assert_eq!((state.get(&CRITIC_VERDICT), state.get(&ITERATIONS)), (Some(verdict), Some(1)));
}

#[test]
fn an_answer_that_is_not_accepted_goes_back_once_and_is_not_repeated() {
    let look = ScenarioStep::tool_call("look", json!({ "at": "it" }));
    let model = FakeModel::script(["green".into(), look, "blue".into()]);
    let critic = FakeModel::script([NO, YES]);
    let critique = UseSelfCritique::with_model(critic.clone());
    let state = run(&agent(&model, critique), AgentState::new(), "what colour?");
    assert_eq!(turn_texts(&state), ["what colour?", "green", FEEDBACK, "", "blue"]);
    assert_eq!(state.text(), "blue");
    let first = "<task>\nwhat colour?\n</task>\n\n<evidence>\n(no tools were called)\n</evidence>\n\n\
                 <answer>\ngreen\n</answer>";
    assert_eq!(question(&critic, 0), first);
    let second = "<task>\nwhat colour?\n</task>\n\n<evidence>\nStep 2: look({\"at\":\"it\"})\nit is \
                  blue\n</evidence>\n\n<answer>\nblue\n</answer>";
    assert_eq!(question(&critic, 1), second);
    assert!(critic.requests()[0].tools.is_empty());
}

#[test]
fn the_last_judgement_stops_the_run_and_nothing_is_said_after_it() {
    let (model, critic) = (FakeModel::script(["a", "b", "c"]), FakeModel::script([NO]));
    let critique = UseSelfCritique::with_model(critic.clone());
    let state = run(&agent(&model, critique), AgentState::new(), "q");
    assert_eq!(turn_texts(&state), ["q", "a", FEEDBACK, "b"]);
    assert_eq!((reason(&state), critic.asked()), (Some(StopReason::RetryLimitReached), 2));
    let signal = state.stop_signal().unwrap();
    assert_eq!(signal.source.as_deref(), Some("self_critique"));
    assert_eq!(
        (&signal.context["iteration"], &signal.context["max_iterations"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(state.text(), "b");
}

#[test]
fn without_any_iteration_the_run_is_stopped_and_the_critic_is_not_asked() {
    let (model, critic) = (FakeModel::script(["a"]), FakeModel::script([YES]));
    let critique = UseSelfCritique::with_model(critic.clone()).with_max_iterations(0);
    let state = run(&agent(&model, critique), AgentState::new(), "q");
    assert_eq!((reason(&state), critic.asked()), (Some(StopReason::RetryLimitReached), 0));
    assert_eq!(state.get(&CRITIC_VERDICT).map(|it| it.approved), Some(false));
}

#[test]
fn the_next_turn_begins_anew_and_is_judged_by_its_own_task() {
    let model = FakeModel::script(["a", "b", "c", "d"]);
    let critic = FakeModel::script([NO, NO, NO, YES]);
    let agent = agent(&model, UseSelfCritique::with_model(critic.clone()));
    let first = run(&agent, AgentState::new().with_system_prompt("system"), "first");
    assert_eq!(reason(&first), Some(StopReason::RetryLimitReached));
    let second = run(&agent, first, "second");
    assert_eq!((second.text().as_str(), reason(&second)), ("d", None));
    assert_eq!(second.get(&ITERATIONS), Some(2));
    let tasks: Vec<String> = (0..4).map(|it| question(&critic, it)).collect();
    let expect = ["first", "first", "second", "second"];
    for (task, expect) in tasks.iter().zip(expect) {
        assert!(task.starts_with(&format!("<task>\n{expect}\n</task>")), "{task}");
    }
}

#[test]
fn the_next_question_is_critiqued_again() {
    let model = FakeModel::script(["a", "b"]);
    let handle: Arc<OnceLock<RunHandle>> = Arc::default();
    let slot = Arc::clone(&handle);
    let critic = FakeModel::from_fn(move |_| {
        // The user says something more while an answer is judged.
        slot.get().unwrap().steer(Message::user("and then?")).unwrap();
        ScenarioStep::from(YES).to_response()
    });
    let critique = UseSelfCritique::with_model(critic.clone()).with_max_iterations(1);
    let mut run = agent(&model, critique)
        .start(AgentState::new().with_user_message("q"), RunOptions::default());
    handle.set(run.handle()).unwrap();
    block_on(run.next());
    block_on(run.next());
    assert_eq!(critic.asked(), 2);
    assert!(question(&critic, 1).starts_with("<task>\nand then?\n</task>"));
    assert_eq!(run.state().stop_signal(), None);
}

#[test]
fn a_critic_that_cannot_judge_does_what_the_policy_says() {
    let down = || FakeModel::script([ScenarioStep::error("down")]);
    let unreadable = || FakeModel::script(["I like it."]);
    for critic in [down, unreadable as fn() -> FakeModel] {
        let outcome = |on_failure| {
            let policy = CritiquePolicy { on_failure, ..CritiquePolicy::default() };
            let critique = UseSelfCritique::with_model(critic()).with_policy(policy);
            let state = run(&agent(&FakeModel::script(["a"]), critique), AgentState::new(), "q");
            (
                state.status().as_str(),
                reason(&state),
                state.get(&CRITIC_VERDICT).map(|it| it.approved),
            )
        };
        let stopped = Some(StopReason::RetryLimitReached);
        assert_eq!(outcome(OnCriticFailure::Approve), ("completed", None, Some(true)));
        assert_eq!(outcome(OnCriticFailure::Stop), ("stopped", stopped, Some(false)));
        assert_eq!(outcome(OnCriticFailure::Fail), ("failed", None, None));
    }
}

#[test]
fn the_critics_usage_counts_and_is_bounded_by_the_budget() {
    let critic = FakeModel::script([ScenarioStep::from(YES).with_usage(Usage::new(5, 0))]);
    let model = FakeModel::script([ScenarioStep::final_answer("a").with_usage(Usage::new(10, 0))]);
    let agent = agent(&model, UseSelfCritique::with_model(critic.clone()));
    let state = run(&agent, AgentState::new(), "q");
    assert_eq!(state.usage(), Usage::new(15, 0));
    let budget = Budget { tokens: Some(10), ..Budget::unlimited() };
    let state = run(&agent, AgentState::new().with_budget(budget), "q");
    assert_eq!((reason(&state), critic.asked()), (Some(StopReason::TokenLimitReached), 1));
}

#[test]
fn the_critic_is_shown_the_newest_of_what_there_is_and_long_results_cut() {
    let long = format!("{}{}", "ä".repeat(60), "z".repeat(60));
    let calls = (0..3).map(|it| ScenarioStep::tool_call("echo", json!({ "n": it })));
    let model = FakeModel::script(calls.chain(["done".into()]));
    let critic = FakeModel::script([YES]);
    let policy = CritiquePolicy {
        max_result_chars: 20,
        max_evidence_chars: 160,
        ..CritiquePolicy::default()
    };
    let agent = agent(&model, UseSelfCritique::with_model(critic.clone()).with_policy(policy))
        .with_tool(MockTool::returning("echo", "", long));
    run(&agent, AgentState::new(), "q");
    let cut = "ääääääääää\n[100 characters omitted]\nzzzzzzzzzz";
    let expect = format!(
        "<evidence>\n[the steps up to step 1 are omitted]\n\nStep 2: \
         echo({{\"n\":1}})\n{cut}\n\nStep 3: echo({{\"n\":2}})\n{cut}\n</evidence>"
    );
    let question = question(&critic, 0);
    assert!(question.contains(&expect), "{question}");
}

#[test]
fn the_first_line_of_the_critique_tool_is_its_verdict() {
    let judged = |judgement: &str| {
        let args = json!({ "original_task": "t", "proposed_response": "r" });
        let model = FakeModel::script([ScenarioStep::tool_call("self_critic", args), "ok".into()]);
        let critic = FakeModel::script([judgement]);
        let agent = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(model))
            .with_capability(UseTools::new().with_tool(SelfCritic::with_model(critic)))
            .build()
            .unwrap();
        let state = run(&agent, AgentState::new(), "q");
        let told = state.steps().flat_map(Step::tool_executions).next();
        told.map(|(_, outcome)| outcome.to_result().to_text()).unwrap()
    };
    assert_eq!(judged("Fine.\nAPPROVED: YES"), "Status: APPROVED\n\nFine.\nAPPROVED: YES");
    let approved =
        ["**Approved:** yes.", "x\napproved: Yes\n\nmore", "APPROVED: NO\nAPPROVED: YES"];
    for text in approved {
        assert!(judged(text).starts_with("Status: APPROVED\n"), "{text}");
    }
    for text in ["APPROVED: NO", "it is approved, yes", "", "APPROVED: YES\nAPPROVED: NO"] {
        assert!(judged(text).starts_with("Status: NEEDS REVISION\n"), "{text}");
    }
}

#[test]
fn the_tool_is_there_where_it_is_wanted() {
    let names = |critique: UseSelfCritique| agent(&FakeModel::default(), critique).tools().len();
    let critique = UseSelfCritique::with_model(FakeModel::echo());
    assert_eq!((names(critique.clone()), names(critique.with_tool())), (1, 2));
}

#[test]
fn an_agent_that_went_back_is_judged_by_what_the_user_asked() {
    let back = json!({ "checkpoint_id": 0, "guidance": "Look first." });
    let model = FakeModel::script([
        ScenarioStep::tool_call("execution_retrospective", back),
        "blue".into(),
    ]);
    let critic = FakeModel::script([YES]);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model))
        .with_capability(UseSelfCritique::with_model(critic.clone()))
        .with_capability(UseExecutionRetrospective::default())
        .build()
        .unwrap();
    run(&agent, AgentState::new(), "what?");
    let question = question(&critic, 0);
    assert!(question.contains("what?") && !question.contains("[REWOUND"), "{question}");
}
