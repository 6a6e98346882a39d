use std::sync::Arc;

use loopwright_core::{AgentLoop, RunOptions, ToolOutput};
use loopwright_testing::{
    FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, block_on, test_loop, validate,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const OFF: SlimSerializationConfig = SlimSerializationConfig {
    max_content_length: 2000,
    include_continuation_trace: true,
    ..SlimSerializationConfig::standard()
};

fn agent(answers: impl IntoIterator<Item = ScenarioStep>) -> AgentLoop {
    let agent = test_loop(ModelDriver::new(FakeModel::script(answers)));
    let tool =
        MockTool::new("look", "Looks.", |_| Ok::<_, std::io::Error>(ToolOutput::text("seen")));
    agent.with_tools(agent.tools().clone().with(tool))
}

fn run(agent: &AgentLoop, state: AgentState) -> AgentState {
    let options = RunOptions { env: FrozenClock::new().env(0), ..RunOptions::default() };
    block_on(agent.start(state, options).finish())
}

fn looked() -> AgentState {
    let steps = [
        ScenarioStep::tool_call("look", json!({ "q": "hi" })).with_text("Let me see."),
        "It is there.".into(),
    ];
    run(&agent(steps), AgentState::new().with_user_message("Is it there?"))
}

fn said(slim: &SlimState) -> Vec<(&str, &str)> {
    slim.messages.iter().map(|it| (&*it.role, &*it.content)).collect()
}

#[test]
fn item_11_presets_are_those_of_the_contract() {
    let standard = SlimSerializationConfig {
        max_messages: 50,
        max_steps: 20,
        max_content_length: 2000,
        include_tool_results: true,
        include_steps: true,
        include_continuation_trace: false,
        redact_tool_args: false,
    };
    assert_eq!(SlimSerializationConfig::standard(), standard);
    assert_eq!(SlimSerializationConfig::default(), standard);
    let minimal = SlimSerializationConfig {
        max_messages: 20,
        max_steps: 0,
        max_content_length: 500,
        include_tool_results: false,
        include_steps: false,
        ..standard
    };
    assert_eq!(SlimSerializationConfig::minimal(), minimal);
    let full = SlimSerializationConfig {
        max_messages: 100,
        max_steps: 50,
        max_content_length: 5000,
        include_continuation_trace: true,
        ..standard
    };
    assert_eq!(SlimSerializationConfig::full(), full);
}

#[test]
fn item_11_the_last_messages_are_kept_and_cut_between_characters() {
    let state = AgentState::new()
        .with_user_message("first")
        .with_user_message("äöüßa")
        .with_user_message("abcd");
    let config = SlimSerializationConfig { max_messages: 2, max_content_length: 4, ..OFF };
    assert_eq!(
        said(&SlimState::from_state(&state, &config)),
        [("user", "äöüß..."), ("user", "abcd")]
    );
    // Arguments are whole or not there.
    let arguments = |max_content_length| {
        let config = SlimSerializationConfig { max_content_length, ..OFF };
        let slim = serde_json::to_value(SlimState::from_state(&looked(), &config)).unwrap();
        slim["messages"][1]["_metadata"]["tool_calls"][0]["arguments"].clone()
    };
    assert_eq!((arguments(10), arguments(9)), (json!(r#"{"q":"hi"}"#), json!(null)));
    let none = SlimSerializationConfig { max_messages: 0, ..OFF };
    assert_eq!(said(&SlimState::from_state(&state, &none)), []);
}

#[test]
fn item_11_a_state_has_the_keys_of_the_contract() {
    let state = looked().with_metadata("user", "Ana").with_metadata("api_key", "k");
    let slim = serde_json::to_value(SlimState::from_state(&state, &OFF)).unwrap();
    let id = state.id().unwrap().as_str();
    assert_eq!(
        slim,
        json!({
            "agent_id": id, "parent_agent_id": null, "status": "completed", "step_count": 2,
            "usage": { "input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "reasoning": 0 },
            "execution": {
                "started_at": "2026-01-01T00:00:00.000Z", "updated_at": state.updated_at(),
                "cumulative_seconds": 0.0,
            },
            "messages": [
                { "role": "user", "content": "Is it there?", "_metadata": {} },
                {
                    "role": "assistant", "content": "Let me see.",
                    "_metadata": { "tool_calls": [{ "id": "call_0", "name": "look", "arguments": "{\"q\":\"hi\"}" }] },
                },
                { "role": "tool", "content": "seen", "_metadata": { "tool_call_id": "call_0", "tool_name": "look" } },
                { "role": "assistant", "content": "It is there.", "_metadata": {} },
            ],
            "steps": [
                {
                    "step_number": 1, "type": "tool_execution", "has_tool_calls": true,
                    "finish_reason": "tool_calls", "errors": 0, "usage": { "total": 0 },
                    "tool_calls": [{ "id": "call_0", "name": "look" }],
                },
                {
                    "step_number": 2, "type": "final_response", "has_tool_calls": false,
                    "finish_reason": "stop", "errors": 0, "usage": { "total": 0 }, "tool_calls": [],
                },
            ],
            "last_continuation": {
                "should_continue": false, "stop_reason": "completed", "resolved_by": "tool_calls",
            },
            "metadata": { "user": "Ana", "api_key": "[redacted]" },
        })
    );
}

#[test]
fn item_11_arguments_tell_no_secrets_and_are_otherwise_what_the_model_wrote() {
    let arguments = [json!({ "api_key": "k", "q": "hi" }), json!({ "q": "hi" })];
    let calls = ScenarioStep::tool_calls(arguments.map(|it| ("look", it)));
    let state = run(&agent([calls, "done".into()]), AgentState::new().with_user_message("go"));
    let slim = SlimState::from_state(&state, &OFF);
    let told = slim.messages[1].metadata.tool_calls.iter().map(|it| it.arguments.as_ref().unwrap());
    let [secret, plain] = told.collect::<Vec<_>>()[..] else { panic!("{slim:?}") };
    assert_eq!(&**secret, r#"{"api_key":"[redacted]","q":"hi"}"#);
    let written: Vec<_> = state.transcript().get(1).unwrap().message().tool_calls().collect();
    assert!(Arc::ptr_eq(plain, &written[1].arguments));
}

#[test]
fn item_11_arguments_and_results_are_left_out_if_they_are_to_be() {
    let redacted = SlimSerializationConfig {
        redact_tool_args: true,
        include_tool_results: false,
        ..SlimSerializationConfig::standard()
    };
    let slim = SlimState::from_state(&looked(), &redacted);
    let calls = serde_json::to_value(&slim.messages[1].metadata.tool_calls).unwrap();
    assert_eq!(calls, json!([{ "id": "call_0", "name": "look" }]));
    assert_eq!(slim.messages[2].content, "[tool result omitted]");
    assert_eq!(slim.last_continuation, None);
    let minimal = SlimState::from_state(&looked(), &SlimSerializationConfig::minimal());
    assert_eq!((minimal.steps.len(), minimal.messages.len()), (0, 4));
}

#[test]
fn item_11_one_step_that_is_kept_has_number_one() {
    let one = SlimSerializationConfig { max_steps: 1, ..OFF };
    let steps = SlimState::from_state(&looked(), &one).steps;
    assert_eq!((steps.len(), steps[0].step_number, steps[0].kind), (1, 1, StepKind::FinalResponse));
}

#[test]
fn item_11_time_is_counted_over_all_executions() {
    let clock = FrozenClock::new();
    let slow = clock.clone();
    let tool = MockTool::new("wait", "Waits.", move |_| {
        slow.advance(std::time::Duration::from_millis(12_500));
        Ok::<_, std::io::Error>(ToolOutput::text("waited"))
    });
    let agent = agent([ScenarioStep::tool_call("wait", json!({})), "done".into()]);
    let agent = agent.with_tools(agent.tools().clone().with(tool));
    let options = RunOptions { env: clock.env(0), ..RunOptions::default() };
    let state = AgentState::new().with_user_message("go");
    let state = block_on(agent.start(state, options).finish());
    let seconds = SlimState::from_state(&state, &OFF).execution.cumulative_seconds;
    assert!((seconds - 12.5).abs() < 1e-9, "{seconds}");
}

#[test]
fn item_11_what_can_be_restored_is_restored() {
    let state = looked().with_metadata("user", "Ana");
    let text = serde_json::to_string(&SlimState::from_state(&state, &OFF)).unwrap();
    let slim: SlimState = serde_json::from_str(&text).unwrap();
    let restored = slim.restore().unwrap();
    assert_eq!(SlimState::from_state(&restored, &OFF).messages, slim.messages);
    assert_eq!(restored.metadata().get("user"), Some(&json!("Ana")));
    validate(restored.transcript()).unwrap();
}

#[test]
fn item_11_a_call_of_another_form_still_has_a_name() {
    let names = |json: Value| serde_json::from_value::<SlimCall>(json).unwrap().name;
    assert_eq!(&*names(json!({ "id": "1", "function": { "name": "look" } })), "look");
    assert_eq!(&*names(json!({ "id": "1" })), "unknown");
}

#[test]
fn an_invalid_conversation_is_not_restored() {
    let slim = |messages: Value| {
        let mut slim = SlimState::from_state(&AgentState::new(), &OFF);
        slim.messages = serde_json::from_value(messages).unwrap();
        slim.restore().unwrap_err().to_string()
    };
    let call = json!({ "tool_calls": [{ "id": "1", "name": "look" }] });
    let alone = json!([{ "role": "assistant", "content": "", "_metadata": call }]);
    assert_eq!(slim(alone), "tool calls and results at message 1 do not match");
    let result = json!([{ "role": "tool", "content": "", "_metadata": {} }]);
    assert_eq!(slim(result), "tool calls and results at message 1 do not match");
    let nobody = json!([{ "role": "nobody", "content": "", "_metadata": {} }]);
    assert_eq!(slim(nobody), "message 1 has unknown role `nobody`");
}

proptest! {
    #[test]
    fn item_11_a_call_and_its_results_are_never_split(
        calls in prop::collection::vec(0_usize..4, 1..6), most in 0_usize..20, length in 0_usize..6,
    ) {
        let steps = calls.iter().map(|many| match many {
            0 => ScenarioStep::tool("hm"),
            many => ScenarioStep::tool_calls((0..*many).map(|it| ("look", json!({ "it": it })))),
        });
        let agent = agent(steps.chain(["dönäß".into()]));
        let state = run(&agent, AgentState::new().with_user_message("go"));
        let config = SlimSerializationConfig { max_messages: most, max_content_length: length, ..OFF };
        let slim = SlimState::from_state(&state, &config);
        prop_assert!(slim.messages.len() <= most);
        let restored = slim.restore().unwrap();
        prop_assert!(validate(restored.transcript()).is_ok());
        let whole = SlimState::from_state(&state, &SlimSerializationConfig { max_messages: usize::MAX, ..config });
        prop_assert!(whole.messages.ends_with(&slim.messages));
    }
}
