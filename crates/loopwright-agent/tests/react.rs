//! The driver for models that do not call tools by themselves.

use std::sync::{Arc, Mutex};

use loopwright_agent::{
    AgentBuilder, ReActDriver, UseCachedContext, UseContextConfig, UseDriver, UseGuards, UseHook,
    UseReActConfig, UseTools,
};
use loopwright_core::{
    AgentLoop, AgentState, Budget, CallableHook, ErrorDecision, ExecutionStatus, FailureKind,
    LlmConfig, Step, StepKind,
    events::{DecisionExtractionFailed, ExecutionFailed, ValidationFailed},
    messages::{
        FinishReason, InferenceOptions, InferenceRequest, ResponseFormat, ToolCallFormat, TurnBody,
        Usage,
    },
};
use loopwright_testing::{EventRecorder, FakeModel, MockTool, ScenarioStep, validate};
use serde_json::{Value, json};

use crate::support::{asked, breaks, execute, recorded, said, texts, with};

const CALL: &str =
    r#"{"thought":"I need the sum.","type":"call_tool","tool":"add","args":{"a":1}}"#;
const ANSWER: &str = r#"{"thought":"Known.","type":"final_answer","answer":"It is 3."}"#;

fn add() -> MockTool {
    MockTool::returning("add", "Adds two to a number.", 3).with_schema(json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
    }))
}

fn builder(react: UseReActConfig) -> AgentBuilder {
    AgentBuilder::base()
        .with_capability(react)
        .with_capability(UseTools::new().with_tool(add()))
        .with_capability(UseGuards::new(Budget::unlimited().with_steps(5)))
}

fn agent(model: &FakeModel) -> AgentLoop {
    builder(UseReActConfig::model(model.clone())).build().unwrap()
}

/// The words of the tail of each request.
fn tails(model: &FakeModel) -> Vec<Vec<String>> {
    model.requests().iter().map(|it| texts(&it.prompt.tail)).collect()
}

fn retry_after(wrong: &str) -> String {
    format!(
        "Your last decision is invalid: {wrong}. Reply with one JSON object that matches the \
            schema."
    )
}

#[test]
fn a_call_and_an_answer_are_kept_as_those_of_any_other_driver() {
    let model = FakeModel::script([CALL, ANSWER]);
    let state = execute(&agent(&model), asked());
    assert_eq!((state.status(), state.text().as_str()), (&ExecutionStatus::Completed, "It is 3."));
    assert_eq!(said(&state), ["go", "I need the sum.", "It is 3."]);
    assert_eq!(validate(state.transcript()), Ok(()));
    let kinds: Vec<_> = state.execution().unwrap().steps().map(Step::kind).collect();
    assert_eq!(kinds, [StepKind::ToolExecution, StepKind::FinalResponse]);
    let TurnBody::ToolExchange(exchange) = state.transcript().get(1).unwrap().body() else {
        panic!("an exchange");
    };
    let pairs: Vec<_> = exchange
        .pairs()
        .map(|(call, result)| {
            let (id, arguments) = (call.id.as_deref().unwrap(), call.parse_arguments().unwrap());
            (id.to_owned(), call.name.to_string(), arguments, result.to_text())
        })
        .collect();
    assert_eq!(pairs, [("react_1".into(), "add".into(), json!({"a": 1}), "3".into())]);
    assert_eq!(state.step_at(0).unwrap().finish_reason(), Some(&FinishReason::ToolCalls));
}

#[test]
fn the_model_is_told_the_rules_and_the_tools_and_sees_text() {
    let model = FakeModel::script([CALL, ANSWER]);
    let agent = builder(UseReActConfig::model(model.clone()).with_llm(LlmConfig::named("small")))
        .with_capability(UseContextConfig::new("Speak plainly."))
        .build()
        .unwrap();
    let (_, events) = recorded(&agent, asked());
    let requests = model.requests();
    for request in &requests {
        assert_eq!(request.prompt.dialect, ToolCallFormat::Text);
        assert_eq!((request.tools.len(), request.model.as_deref()), (0, Some("small")));
        assert_eq!(request.response_format, Some(ResponseFormat::JsonObject));
        let system = request.system.as_deref().unwrap();
        assert!(system.ends_with("\n\nSpeak plainly."), "{system}");
        let listed = r#""description":"Adds two to a number.","name":"add""#;
        assert!(system.contains(listed) && system.contains("final_answer"), "{system}");
    }
    // What changes from step to step is the conversation.
    assert_eq!((requests[0].prefix_broken_by(&requests[1]), breaks(&events)), (None, vec![]));
}

#[test]
fn a_decision_may_stand_in_a_fence_or_in_prose() {
    let check = |text: String| {
        let model = FakeModel::script([text]);
        assert_eq!(execute(&agent(&model), asked()).text(), "It is 3.");
        assert_eq!(model.asked(), 1);
    };
    check(format!("```json\n{ANSWER}\n```"));
    check(format!("```\n{ANSWER}\n```"));
    check(format!("Here you are: {ANSWER} I hope it helps."));
    check(format!("\n  {ANSWER}\n"));
}

/// A first answer that cannot be used, and what the model is told of it before it answers well.
#[track_caller]
fn repaired(first: &str, wrong: &str) -> EventRecorder {
    let model = FakeModel::script([first, ANSWER]);
    let (state, events) = recorded(&agent(&model), asked());
    assert_eq!(state.text(), "It is 3.");
    // Only what came of it in the end is recorded.
    assert_eq!((said(&state).join(" "), state.step_count()), ("go It is 3.".to_owned(), 1));
    assert_eq!(tails(&model), [vec![], vec![first.to_owned(), retry_after(wrong)]]);
    events
}

#[test]
fn a_decision_that_cannot_be_read_goes_back_with_what_is_wrong() {
    let wrong = "not JSON: expected ident at line 1 column 2";
    let events = repaired("nothing useful", wrong);
    let told: Vec<_> = events
        .events_of::<DecisionExtractionFailed>()
        .into_iter()
        .map(|it| (it.step, it.error, it.attempt, it.max_attempts))
        .collect();
    assert_eq!(told, [(1, wrong.to_owned(), 1, 3)]);
    assert_eq!(events.events_of::<ValidationFailed>(), []);
    repaired("[1, 2]", "not a JSON object");
}

#[test]
fn a_decision_that_is_not_valid_goes_back_with_what_is_wrong() {
    let check = |decision: Value, wrong: &str| {
        let events = repaired(&decision.to_string(), wrong);
        let told: Vec<_> = events
            .events_of::<ValidationFailed>()
            .into_iter()
            .map(|it| (it.step, it.subject.into_owned(), it.errors))
            .collect();
        assert_eq!(told, [(1, "decision".to_owned(), vec![wrong.to_owned()])]);
        assert_eq!(events.events_of::<DecisionExtractionFailed>(), []);
    };
    check(json!({"type": "dance"}), "`type` must be `call_tool` or `final_answer`, not `dance`");
    check(json!({}), "`type` must be `call_tool` or `final_answer`, not ``");
    check(json!({"type": "call_tool"}), "a decision of type `call_tool` needs a `tool`");
    check(
        json!({"type": "call_tool", "tool": "fly", "args": {}}),
        "unknown tool `fly`; available: add",
    );
    check(
        json!({"type": "call_tool", "tool": "add", "args": [1]}),
        "`args` must be an object keyed by the tool's parameters",
    );
    check(
        json!({"type": "call_tool", "tool": "add"}),
        "`args` do not match the schema of `add`: at /: \"a\" is a required property",
    );
    check(
        json!({"type": "final_answer", "answer": " "}),
        "a decision of type `final_answer` needs a non-empty `answer`",
    );
    check(
        json!({"type": "final_answer"}),
        "a decision of type `final_answer` needs a non-empty `answer`",
    );
}

#[test]
fn attempts_that_are_used_up_fail_the_step_and_the_error_hook_is_asked() {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let asked_about = Arc::clone(&failures);
    let hook = CallableHook::new("listener").on_error(move |failure, _, _| {
        asked_about.lock().unwrap().push(failure.clone());
        Ok(ErrorDecision::Fail)
    });
    let bad = r#"{"type":"call_tool","tool":"add","args":{"a":"one"}}"#;
    let model = FakeModel::script([bad]);
    let react = UseReActConfig::model(model.clone()).with_attempts(2);
    let (state, events) = recorded(&with(builder(react), UseHook::new(hook)), asked());
    let ExecutionStatus::Failed(failure) = state.status().clone() else {
        panic!("{:?}", state.status())
    };
    assert_eq!(failure.kind, FailureKind::Validation);
    let expect = "the model response is invalid: no valid decision in 2 attempts: `args` do not match the schema of `add`: at /a: \"one\" is not of type \"integer\"";
    assert_eq!(failure.to_string(), expect);
    assert_eq!(*failures.lock().unwrap(), [failure]);
    // It is no completion: there is no answer, and nothing that was not usable is recorded.
    assert_eq!((state.text(), said(&state)), (String::new(), vec!["go".to_owned()]));
    assert_eq!(state.last_step().unwrap().kind(), StepKind::Error);
    let told =
        (events.events_of::<ValidationFailed>().len(), events.events_of::<ExecutionFailed>().len());
    assert_eq!((told, model.asked()), ((2, 1), 2));
}

#[test]
fn a_failed_decision_can_be_tried_again_as_another_step() {
    let hook = CallableHook::new("again").on_error(|_, _, _| Ok(ErrorDecision::Retry));
    let model = FakeModel::script(["what?", ANSWER]);
    let react = UseReActConfig::model(model).with_attempts(1);
    let state = execute(&with(builder(react), UseHook::new(hook)), asked());
    assert_eq!((state.text().as_str(), state.step_count()), ("It is 3.", 2));
}

#[test]
fn react_makes_at_least_one_attempt() {
    let model = FakeModel::script([ANSWER]);
    let react = UseReActConfig::model(model).with_attempts(0);
    assert_eq!(execute(&builder(react).build().unwrap(), asked()).text(), "It is 3.");
}

#[test]
fn tokens_of_all_attempts_are_counted() {
    let step = |text: &str| ScenarioStep::final_answer(text).with_usage(Usage::new(10, 1));
    let model = FakeModel::script([step("what?"), step("{}"), step(CALL), step(ANSWER)]);
    let state = execute(&agent(&model), asked());
    let usage: Vec<_> = state.execution().unwrap().steps().map(Step::usage).collect();
    assert_eq!(usage, [Usage::new(30, 3), Usage::new(10, 1)]);
    assert_eq!(state.usage(), Usage::new(40, 4));

    let model = FakeModel::script([step("what?")]);
    let state = execute(&agent(&model), asked());
    assert_eq!(state.last_step().unwrap().usage(), Usage::new(30, 3));
}

#[test]
fn a_second_call_may_word_the_answer() {
    let usage = |step: ScenarioStep| step.with_usage(Usage::new(10, 1));
    let model = FakeModel::script([usage(ANSWER.into()), usage("Three, I am sure.".into())]);
    let mut options = InferenceOptions::default();
    options.temperature = Some(0.9);
    let react = UseReActConfig::model(model.clone())
        .with_llm(LlmConfig::named("small"))
        .with_final_inference(Some("large".into()), options);
    let state = execute(&builder(react).build().unwrap(), asked());
    assert_eq!((state.text().as_str(), state.step_count()), ("Three, I am sure.", 1));
    assert_eq!(state.usage(), Usage::new(20, 2));
    let settings = |it: &InferenceRequest| {
        let form = it.response_format.clone();
        (it.model.as_deref().map(str::to_owned), it.options.temperature, form)
    };
    let requests: Vec<_> = model.requests().iter().map(settings).collect();
    let json = Some(ResponseFormat::JsonObject);
    let expect = [(Some("small".into()), None, json), (Some("large".into()), Some(0.9), None)];
    assert_eq!(requests, expect);
    let ask = "Now give the final answer to the user, as plain text and nothing else.";
    assert_eq!(tails(&model), [vec![], vec![ask.to_owned()]]);
}

#[test]
fn the_form_of_answers_that_a_state_or_an_agent_sets_is_the_form_of_the_final_answer() {
    let schema = json!({"type": "object", "properties": {"sum": {"type": "integer"}}});
    let form = || ResponseFormat::json_schema("sum", schema.clone());
    for by_state in [true, false] {
        let model = FakeModel::script([CALL, ANSWER, r#"{"sum":3}"#]);
        let (agent, state) = if by_state {
            (agent(&model), asked().with_response_format(form()))
        } else {
            let builder = builder(UseReActConfig::model(model.clone()));
            let cached = UseCachedContext::new([]).with_response_format(form());
            (builder.with_capability(cached).build().unwrap(), asked())
        };
        let state = execute(&agent, state);
        assert_eq!((state.text().as_str(), state.step_count()), (r#"{"sum":3}"#, 2));
        let formats: Vec<_> = model.requests().into_iter().map(|it| it.response_format).collect();
        assert_eq!(
            formats,
            [Some(ResponseFormat::JsonObject), Some(ResponseFormat::JsonObject), Some(form())]
        );
        let ask = "Now give the final answer to the user in the requested format, and nothing \
            else.";
        assert_eq!(tails(&model)[2], [ask]);
    }
}

#[test]
fn a_call_is_not_worded_again() {
    let model = FakeModel::script([CALL, ANSWER, "Three."]);
    let react = UseReActConfig::model(model.clone())
        .with_final_inference(None, InferenceOptions::default());
    let state = execute(&builder(react).build().unwrap(), asked());
    assert_eq!((state.text().as_str(), model.asked()), ("Three.", 3));
}

#[test]
fn the_form_of_decisions_is_a_choice() {
    let form = |change: fn(ReActDriver) -> ReActDriver| {
        let model = FakeModel::script([ANSWER]);
        let driver = UseDriver::new(change(ReActDriver::new(model.clone())));
        let state = AgentState::new().with_user_message("go");
        drop(execute(&with(AgentBuilder::base(), driver), state));
        model.requests().pop().unwrap().response_format
    };
    assert_eq!(form(ReActDriver::without_response_format), None);
    assert_eq!(form(|driver| driver), Some(ResponseFormat::JsonObject));
    let enforced = form(ReActDriver::with_enforced_schema);
    let Some(ResponseFormat::JsonSchema { name, strict: true, .. }) = enforced else {
        panic!("{enforced:?}");
    };
    assert_eq!(&*name, "decision");
}

#[test]
fn the_text_of_a_react_decision_is_no_part_of_the_answer() {
    let agent = agent(&FakeModel::echo());
    assert_eq!((agent.driver().name(), agent.driver().answers_in_text()), ("react", false));
}
