//! Data out of text, and answers of a Rust type, in an agent.

use loopwright_agent::{AgentBuilder, UseLlmConfig, UseTools};
use loopwright_capabilities::structured::{
    ExtractionOptions, OutputMode, RunTyped as _, SchemaDefinition, SchemaRegistry,
    StructuredOutputPolicy, TypedFailure, TypedOptions, UseStructuredOutputs,
};
use loopwright_core::{
    AgentLoop, AgentState, ExecutionStatus, LlmConfig, RunOptions, StopReason,
    events::ValidationFailed,
    messages::{FinishReason, InferenceRequest, Message, ResponseFormat, ToolChoice, Usage},
};
use loopwright_testing::{EventRecorder, FakeModel, MockTool, ScenarioStep};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::told;

/// Somebody who may buy.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Lead {
    name: String,
    age: u8,
}

const ANN: &str = r#"{"age":40,"name":"Ann"}"#;
const FOUND: &str = r#"{"value":{"age":40,"name":"Ann"},"error":null}"#;
const WRONG: &str = r#"{"value":{"name":"Ann"},"error":null}"#;

fn ann() -> Lead {
    Lead { name: "Ann".into(), age: 40 }
}

fn schemas() -> SchemaRegistry {
    SchemaRegistry::new().with_type::<Lead>("lead")
}

fn ask(store_as: Option<&str>) -> ScenarioStep {
    let args = json!({ "input": "I am Ann, 40.", "schema": "lead" });
    ScenarioStep::tool_call("structured_output", with(args, "store_as", store_as))
}

fn with(mut args: Value, key: &str, value: Option<&str>) -> Value {
    if let Some(value) = value {
        args[key] = value.into();
    }
    args
}

fn agent(model: &FakeModel, capability: UseStructuredOutputs) -> AgentLoop {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(capability)
        .build()
        .unwrap()
}

fn start() -> AgentState {
    AgentState::new().with_user_message("go")
}

/// What a run with one extraction came to, and what was asked for it.
async fn extracted(
    capability: UseStructuredOutputs,
    answers: &[&str],
    state: AgentState,
) -> (AgentState, Vec<InferenceRequest>) {
    let model = FakeModel::script(
        [ask(Some("current_lead"))]
            .into_iter()
            .chain(answers.iter().map(|it| ScenarioStep::from(*it)))
            .chain(["done".into()]),
    );
    let state = agent(&model, capability).execute(state).await;
    let mut requests = model.requests();
    requests.remove(0);
    requests.truncate(answers.len());
    (state, requests)
}

fn value(state: &AgentState) -> Value {
    let (_, outcome) = state.step_at(0).unwrap().tool_executions().next().unwrap();
    Value::clone(outcome.output().unwrap().value.as_ref().unwrap())
}

#[tokio::test]
async fn data_is_made_checked_and_stored() {
    let (state, requests) =
        extracted(UseStructuredOutputs::new(schemas()), &[FOUND], start()).await;
    let data: Value = serde_json::from_str(ANN).unwrap();
    assert_eq!(told(&state), [format!("Extracted `lead`. Stored as `current_lead`.\n{ANN}")]);
    assert_eq!(state.metadata().get("current_lead"), Some(&data));
    let expect = json!({
        "success": true, "schema": "lead", "data": data, "store_as": "current_lead", "error": null,
    });
    assert_eq!(value(&state), expect);
    let request = &requests[0];
    assert!(matches!(
        &request.response_format,
        Some(ResponseFormat::JsonSchema { strict: true, name, .. }) if &**name == "lead"
    ));
    let system = request.system.as_deref().unwrap();
    assert!(system.contains("Somebody who may buy."), "{system}");
    assert!(request.tools.is_empty());
}

#[test]
fn the_tool_lists_its_schemas() {
    let agent = agent(&FakeModel::default(), UseStructuredOutputs::new(schemas()));
    let spec = agent.tools().get("structured_output").unwrap().spec();
    assert!(spec.description.ends_with("\n- lead: Somebody who may buy."), "{}", spec.description);
    assert_eq!(spec.parameters["properties"]["schema"]["enum"], json!(["lead"]));
    assert_eq!(spec.parameters["required"], json!(["input", "schema"]));
}

#[test]
fn the_tool_may_have_its_older_name() {
    let capability = UseStructuredOutputs::new(schemas()).with_tool_name("extract_data");
    let agent = agent(&FakeModel::default(), capability);
    assert!(agent.tools().get("extract_data").is_some());
}

#[test]
fn schemas_that_cannot_be_used_are_no_agent() {
    let built = |schemas| {
        let capability = UseStructuredOutputs::new(schemas);
        let llm = UseLlmConfig::model(FakeModel::default());
        let builder = AgentBuilder::base().with_capability(llm).with_capability(capability);
        builder.build().unwrap_err().to_string()
    };
    let none = "capability `use_structured_outputs` cannot be used: register a schema first";
    assert_eq!(built(SchemaRegistry::new()), none);
    let broken = SchemaDefinition::new(json!({ "type": "no such type" }));
    let error = built(SchemaRegistry::new().with("odd", broken));
    assert!(error.contains("correct the schema `odd`"), "{error}");
    let unknown = schemas().get("form").unwrap_err().to_string();
    assert_eq!(unknown, "unknown schema `form`; available: lead");
}

#[tokio::test]
async fn a_model_is_told_what_is_wrong_and_asked_again() {
    let events = EventRecorder::new();
    let model =
        FakeModel::script([ask(None), WRONG.into(), "no".into(), FOUND.into(), "done".into()]);
    let agent = agent(&model, UseStructuredOutputs::new(schemas())).with_event_sink(events.sink());
    let state = agent.execute(start()).await;
    assert_eq!(told(&state), [format!("Extracted `lead`.\n{ANN}")]);
    let tail: Vec<String> = model.requests()[3].prompt.tail.iter().map(Message::text).collect();
    let wrong = "The data is invalid:\n- at /: \"age\" is a required property\n\
        Answer again with the complete data and nothing else.";
    assert_eq!((tail[0].as_str(), tail[1].as_str(), tail[2].as_str()), (WRONG, wrong, "no"));
    let failed = events.events_of::<ValidationFailed>();
    assert_eq!(failed.len(), 2);
    assert_eq!(failed[0].errors, ["at /: \"age\" is a required property"]);
}

#[tokio::test]
async fn extraction_ends_after_the_configured_number_of_attempts() {
    let policy = |default_max_retries| StructuredOutputPolicy {
        default_max_retries,
        ..StructuredOutputPolicy::default()
    };
    let lead = SchemaDefinition::of::<Lead>;
    let cases = [
        (lead(), StructuredOutputPolicy::default(), 4),
        (lead(), policy(1), 2),
        (lead().with_max_retries(0), policy(1), 1),
    ];
    for (definition, policy, attempts) in cases {
        let schemas = SchemaRegistry::new().with("lead", definition);
        let capability = UseStructuredOutputs::new(schemas).with_policy(policy);
        let (state, _) = extracted(capability, &vec![WRONG; attempts], start()).await;
        let told = told(&state);
        let expect = format!(
            "Error: no valid `lead` in {attempts} attempts: at /: \"age\" is a required property"
        );
        assert_eq!(told, [expect]);
        assert_eq!(value(&state)["success"], json!(false));
        assert!(!state.had_tool_errors(), "that there is nothing is an answer");
        assert_eq!(state.metadata().get("current_lead"), None);
    }
}

#[tokio::test]
async fn the_schemas_model_counts_before_the_policys_and_that_before_the_agents() {
    let named = |name| Some(LlmConfig::named(name));
    let by_schema = ExtractionOptions { llm: named("of-schema"), ..ExtractionOptions::default() };
    let plain = ExtractionOptions::default();
    let policy = StructuredOutputPolicy { llm: named("of-policy"), ..Default::default() };
    let model = StructuredOutputPolicy { model: Some("other".into()), ..policy.clone() };
    let none = StructuredOutputPolicy::default();
    let agents_own = start().with_llm(LlmConfig::named("of-state"));
    let cases = [
        (by_schema, &policy, start(), Some("of-schema")),
        (plain.clone(), &policy, agents_own.clone(), Some("of-policy")),
        (plain.clone(), &model, start(), Some("other")),
        (plain.clone(), &none, agents_own, Some("of-state")),
        (plain, &none, start(), None),
    ];
    for (options, policy, state, expect) in cases {
        let definition = SchemaDefinition::of::<Lead>().with_options(options);
        let schemas = SchemaRegistry::new().with("lead", definition);
        let capability = UseStructuredOutputs::new(schemas).with_policy(policy.clone());
        let (_, requests) = extracted(capability, &[FOUND], state).await;
        assert_eq!(requests[0].model.as_deref(), expect);
    }
}

#[tokio::test]
async fn the_schemas_way_of_asking_counts_before_the_policys() {
    let options = |mode| ExtractionOptions { output_mode: mode, ..ExtractionOptions::default() };
    let cases = [
        (Some(OutputMode::Json), Some(OutputMode::Tool), OutputMode::Json),
        (None, Some(OutputMode::Tool), OutputMode::Tool),
        (None, Some(OutputMode::Text), OutputMode::Text),
        (None, None, OutputMode::Schema),
    ];
    for (of_schema, of_policy, expect) in cases {
        let definition = SchemaDefinition::of::<Lead>().with_options(options(of_schema));
        let schemas = SchemaRegistry::new().with("lead", definition);
        let policy = StructuredOutputPolicy { output_mode: of_policy, ..Default::default() };
        let capability = UseStructuredOutputs::new(schemas).with_policy(policy);
        let (_, requests) = extracted(capability, &[FOUND], start()).await;
        let request = &requests[0];
        let in_words = request
            .system
            .as_deref()
            .unwrap()
            .contains("Answer with JSON that matches this schema");
        let mode = match (&request.response_format, &request.tool_choice, in_words) {
            (Some(ResponseFormat::JsonSchema { .. }), ToolChoice::Auto, false) => {
                OutputMode::Schema
            }
            (Some(ResponseFormat::JsonObject), ToolChoice::Auto, true) => OutputMode::Json,
            (None, ToolChoice::Tool(_), false) => OutputMode::Tool,
            (None, ToolChoice::Auto, true) => OutputMode::Text,
            other => panic!("{other:?}"),
        };
        assert_eq!(mode, expect);
    }
}

#[tokio::test]
async fn a_capabilitys_own_model_is_asked_in_place_of_the_agents() {
    let own = FakeModel::script([FOUND]);
    let model = FakeModel::script([ask(None), "done".into()]);
    let capability = UseStructuredOutputs::new(schemas()).with_model(own.clone());
    let state = start().with_llm(LlmConfig::named("of-state"));
    agent(&model, capability).execute(state).await;
    assert_eq!((own.asked(), model.asked()), (1, 2));
    assert_eq!(own.requests()[0].model, None, "the state's model is another provider's");
}

#[tokio::test]
async fn prompt_and_examples_are_told() {
    let definition = SchemaDefinition::of::<Lead>()
        .with_prompt("Look for ages.")
        .with_example("Bob is 3.", json!({ "name": "Bob", "age": 3 }));
    let schemas = SchemaRegistry::new().with("lead", definition);
    let system_prompt = Some("You extract.".to_owned());
    let policy = StructuredOutputPolicy { system_prompt, ..Default::default() };
    let capability = UseStructuredOutputs::new(schemas).with_policy(policy);
    let (_, requests) = extracted(capability, &[FOUND], start()).await;
    assert_eq!(
        requests[0].system.as_deref(),
        Some(
            "You extract.\n\nSomebody who may buy.\n\nLook for ages.\n\nExample text:\nBob is 3.\n\
             Example data:\n{\"age\":3,\"name\":\"Bob\"}"
        )
    );
}

#[tokio::test]
async fn a_model_may_say_that_there_is_no_such_data() {
    let nothing = r#"{"value":null,"error":"nobody is named"}"#;
    let (state, _) = extracted(UseStructuredOutputs::new(schemas()), &[nothing], start()).await;
    assert_eq!(told(&state), ["Error: the input contains no `lead`: nobody is named"]);
}

#[tokio::test]
async fn a_key_that_cannot_be_stored_is_not_extracted() {
    let policy = StructuredOutputPolicy { max_keys: 1, ..StructuredOutputPolicy::default() };
    let cases = [
        (json!({ "input": " ", "schema": "lead" }), "Error: Input cannot be empty"),
        (
            json!({ "input": "x", "schema": "lead", "store_as": "tasks" }),
            "Error: `tasks` is reserved; store the data under another name",
        ),
        (
            json!({ "input": "x", "schema": "lead", "store_as": "_budget" }),
            "Error: `_budget` is reserved; store the data under another name",
        ),
        (
            json!({ "input": "x", "schema": "lead", "store_as": "b" }),
            "Error: the limit of 1 stored values has been reached; to replace a stored value, use its name",
        ),
    ];
    for (args, expect) in cases {
        let steps = [ScenarioStep::tool_call("structured_output", args), "done".into()];
        let model = FakeModel::script(steps);
        let agent = agent(&model, UseStructuredOutputs::new(schemas()).with_policy(policy.clone()));
        let state = agent.execute(start().with_metadata("a", 1)).await;
        assert_eq!((told(&state), model.asked()), (vec![expect.to_owned()], 2));
    }
}

#[tokio::test]
async fn extraction_is_charged_to_the_execution() {
    let spent = |text: &str| ScenarioStep::from(text).with_usage(Usage::new(10, 1));
    let steps = [ask(None), spent(WRONG), spent(FOUND), spent("done")];
    let agent = agent(&FakeModel::script(steps), UseStructuredOutputs::new(schemas()));
    assert_eq!(agent.execute(start()).await.usage(), Usage::new(30, 3));
}

fn plain(model: &FakeModel) -> AgentLoop {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseTools::new().with_tool(MockTool::returning("look", "", "seen")))
        .build()
        .unwrap()
}

#[tokio::test]
async fn an_agent_answers_with_a_value_after_its_tools() {
    let steps = [ScenarioStep::tool_call("look", json!({})), ANN.into()];
    let model = FakeModel::script(steps);
    let typed = plain(&model).run_typed::<Lead>(start()).await.unwrap();
    assert_eq!(typed.value, ann());
    assert_eq!(typed.state.status(), &ExecutionStatus::Completed);
    let format = model.requests()[0].response_format.clone();
    assert!(matches!(format, Some(ResponseFormat::JsonSchema { strict: true, .. })));
}

#[tokio::test]
async fn an_agent_whose_answer_does_not_fit_answers_again_in_every_turn() {
    let steps = ["Ann", r#"{"name":"Ann","age":300}"#, ANN, "Bob", ANN];
    let model = FakeModel::script(steps);
    let agent = plain(&model);
    let options = || TypedOptions { max_retries: 2, ..TypedOptions::default() };
    let run = |state| agent.run_typed_with::<Lead>(state, options(), RunOptions::default());
    let first = run(start()).await.unwrap();
    assert_eq!((first.value, first.state.step_count()), (ann(), 3));
    let second = run(first.state.with_user_message("again")).await.unwrap();
    assert_eq!((second.value, second.state.step_count()), (ann(), 2));
}

#[tokio::test]
async fn an_answer_that_never_fits_ends_the_run_with_what_is_wrong() {
    let model = FakeModel::script([r#"{"name":"Ann"}"#]);
    let options = TypedOptions { max_retries: 1, ..TypedOptions::default() };
    let agent = plain(&model);
    let error =
        agent.run_typed_with::<Lead>(start(), options, RunOptions::default()).await.unwrap_err();
    let text = "no valid answer in 2 attempts: at /: \"age\" is a required property";
    assert_eq!(error.reason, TypedFailure::Invalid(text.into()));
    assert_eq!(error.state.stop_signal().map(|it| it.reason), Some(StopReason::RetryLimitReached));
    assert_eq!(model.asked(), 2);
}

#[tokio::test]
async fn an_agent_can_answer_by_calling_a_tool() {
    let give = |args: Value| ScenarioStep::tool_call("final_answer", args);
    let steps = [
        "Ann".into(),
        give(json!({ "name": "Ann" })),
        give(json!({ "name": "Ann", "age": 40 })),
        "never asked".into(),
    ];
    let model = FakeModel::script(steps);
    let options = TypedOptions { mode: OutputMode::Tool, ..TypedOptions::default() };
    let agent = plain(&model);
    let typed =
        agent.run_typed_with::<Lead>(start(), options, RunOptions::default()).await.unwrap();
    assert_eq!((typed.value, model.asked()), (ann(), 3));
    assert_eq!(typed.state.status(), &ExecutionStatus::Completed);
    assert!(model.requests()[0].system.as_deref().unwrap().contains("calling `final_answer`"));
}

#[tokio::test]
async fn a_run_that_failed_has_no_answer_and_says_why() {
    let model = FakeModel::script([ScenarioStep::error("down")]);
    let error = plain(&model).run_typed::<Lead>(start()).await.unwrap_err();
    let TypedFailure::Ended(reason) = &error.reason else { panic!("{error}") };
    assert!(reason.contains("down"), "{reason}");
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_asked_for_again() {
    let cut = ScenarioStep::from(r#"{"value":"#).with_finish(FinishReason::Length);
    let model = FakeModel::script([ask(None), cut, FOUND.into(), "done".into()]);
    let state = agent(&model, UseStructuredOutputs::new(schemas())).execute(start()).await;
    assert_eq!(told(&state), [format!("Extracted `lead`.\n{ANN}")]);
}
