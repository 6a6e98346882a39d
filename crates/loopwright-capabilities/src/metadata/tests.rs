use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_core::{AgentLoop, AgentState, Key};
use loopwright_testing::{FakeModel, ScenarioStep, block_on, tool_results};
use serde_json::{Value, json};

use super::*;

fn agent(policy: MetadataPolicy, steps: Vec<ScenarioStep>) -> AgentLoop {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
        .with_capability(UseMetadataTools::new(policy))
        .build()
        .unwrap()
}

fn run(
    policy: MetadataPolicy,
    steps: impl IntoIterator<Item = Vec<(&'static str, Value)>>,
) -> AgentState {
    let steps = steps.into_iter().map(ScenarioStep::tool_calls);
    let steps = steps.chain(["done".into()]).collect();
    block_on(agent(policy, steps).execute(AgentState::new().with_user_message("go")))
}

fn store(key: &str, value: impl Into<Value>) -> (&'static str, Value) {
    ("store_metadata", json!({ "key": key, "value": value.into() }))
}

fn read(key: &str) -> (&'static str, Value) {
    ("read_metadata", json!({ "key": key }))
}

#[test]
fn stored_metadata_can_be_read_from_the_next_step_on() {
    let state = run(
        MetadataPolicy::default(),
        [
            vec![store("name", "Ada"), read("name")],
            vec![read("name"), store("list", json!([1, { "a": true }]))],
            vec![read("list"), store("none", Value::Null), store("pi", 3.5), store("n", 3)],
            vec![read("none"), ("list_metadata", json!({}))],
        ],
    );
    let list = json!({ "count": 5, "keys": [
        { "key": "list", "type": "array[2]" },
        { "key": "n", "type": "integer" },
        { "key": "name", "type": "string" },
        { "key": "none", "type": "null" },
        { "key": "pi", "type": "float" },
    ] });
    let expect = [
        "Stored `name`: \"Ada\"",
        "Error: unknown key `name`; no values are stored",
        "Ada",
        "Stored `list`: [1,{\"a\":true}]",
        "[1,{\"a\":true}]",
        "Stored `none`: null",
        "Stored `pi`: 3.5",
        "Stored `n`: 3",
        "null",
        &list.to_string(),
    ];
    assert_eq!(tool_results(&state), expect);
    assert_eq!(state.metadata().get("name"), Some(&json!("Ada")));
}

#[test]
fn metadata_that_the_policy_forbids_is_not_stored() {
    let policy = MetadataPolicy { max_value_bytes: 6, ..MetadataPolicy::default() };
    let long = "k".repeat(257);
    let calls = vec![
        store(" ", 1),
        store("tasks", 1),
        store("_seed", 1),
        store("fits", "1234"),
        store("large", "12345"),
        store(&long, 1),
        read(""),
    ];
    let state = run(policy, [calls]);
    let expect = [
        "Error: the key cannot be empty",
        "Error: key `tasks` is reserved; choose another one",
        "Error: key `_seed` is reserved; choose another one",
        "Stored `fits`: \"1234\"",
        "Error: the value is 7 bytes long as JSON; at most 6 are allowed",
        "Error: the key is 257 bytes long; at most 256 are allowed",
        "Error: the key cannot be empty",
    ];
    assert_eq!(tool_results(&state), expect);
    assert_eq!(state.metadata().len(), 1);
}

#[test]
fn the_number_of_keys_is_limited_within_a_step_too() {
    let policy = MetadataPolicy { max_keys: 2, ..MetadataPolicy::default() };
    let one_step =
        vec![store("tasks", 0), store("a", 1), store("a", 2), store("b", 3), store("c", 4)];
    let state = run(policy, [one_step, vec![store("d", 5), store("b", 6)]]);
    let full = "Error: the limit of 2 keys has been reached; overwrite an existing key";
    let expect = ["Stored `a`: 1", "Stored `a`: 2", "Stored `b`: 3", full, full, "Stored `b`: 6"];
    assert_eq!(tool_results(&state)[1..], expect);
    let kept: Vec<_> = state.metadata().iter().map(|(key, it)| (key, it.clone())).collect();
    assert_eq!(kept, [("a", json!(2)), ("b", json!(6))]);
}

#[test]
fn no_key_leads_to_what_capabilities_keep() {
    const OWN: Key<u32> = Key::session("guarded", "count");
    let calls = ["guarded.count", "session.guarded.count", "execution.guarded.count"];
    let state = run(MetadataPolicy::default(), [calls.map(|key| store(key, 9)).to_vec()]);
    assert_eq!(state.metadata().len(), 3);
    assert_eq!(state.get(&OWN), None);
}

#[test]
fn a_second_turn_reads_what_the_first_one_stored() {
    let steps = [
        ScenarioStep::tool_calls([store("a", 1)]),
        "stored".into(),
        ScenarioStep::tool_calls([read("a")]),
        "read".into(),
    ];
    let agent = agent(MetadataPolicy::default(), steps.to_vec());
    let first = block_on(agent.execute(AgentState::new().with_user_message("store")));
    let second = block_on(agent.execute(first.with_user_message("read")));
    assert_eq!(tool_results(&second), ["1"]);
}

#[test]
fn previews_are_cut_between_characters() {
    let long = "ü".repeat(60);
    let text = preview::preview(&json!(long));
    assert_eq!(text, format!("\"{}...\"", "ü".repeat(50)));
    let list = preview::preview(&json!(["é".repeat(200)]));
    assert_eq!(list.chars().count(), 103);
}
