use std::collections::BTreeMap;
use std::time::Duration;

use loopwright_core::messages::Cost;
use proptest::prelude::*;

use super::*;
use crate::loader::DefinitionLoader;

fn read(format: DefinitionFormat, text: &str) -> AgentDefinition {
    let loader = DefinitionLoader::new().with_hooks(["PreToolUse", "Stop"]);
    let read = loader.read(format.extension(), text);
    read.unwrap_or_else(|error| panic!("{error}\n{text}")).definition
}

#[test]
fn people_can_read_what_is_written() {
    let mut definition =
        AgentDefinition::new("ada", "Counts: all of it.", "You count.\n\n---\n  Twice.\n");
    definition.tools = Some(NameList::default());
    definition.llm = Some(LlmConfig::named("acme/small"));
    definition.budget = Some(Budget {
        steps: Some(5),
        time: Some(Duration::from_millis(1500)),
        cost: Some(Cost::from_dollars(0.25)),
        ..Budget::default()
    });
    definition.metadata = Map::from_iter([("team".to_owned(), json!({ "of": ["a", "yes"] }))]);
    let front = "name: ada\ndescription: \"Counts: all of it.\"\nllm: acme/small\ntools: []\n\
        budget:\n  maxCost: 0.25\n  maxSeconds: 1.5\n  maxSteps: 5\n\
        metadata:\n  team:\n    of:\n      - a\n      - \"yes\"\n";
    let markdown = DefinitionFormat::Markdown.write(&definition);
    assert_eq!(markdown, format!("---\n{front}---\n\nYou count.\n\n---\n  Twice.\n"));
    let yaml = DefinitionFormat::Yaml.write(&definition);
    assert_eq!(yaml, format!("{front}systemPrompt: |-\n  You count.\n\n  ---\n    Twice.\n"));
    assert!(DefinitionFormat::Json.write(&definition).starts_with("{\n  \"name\": \"ada\","));
}

#[test]
fn secrets_are_not_shown() {
    let mut definition = AgentDefinition::new("a", "b", "c");
    let mut llm = LlmConfig::named("acme/small");
    llm.options.headers.insert("x-api-key".into(), "sk-hidden".into());
    llm.options.extra.insert("user".into(), "sk-hidden".into());
    definition.llm = Some(llm);
    let metadata =
        json!({ "apiKey": "sk-hidden", "list": [{ "db_password": "sk-hidden" }], "a": 1 });
    definition.metadata = metadata.as_object().unwrap().clone();
    let shown = without_secrets(&definition);
    for format in DefinitionFormat::ALL {
        assert!(format.write(&definition).contains("sk-hidden"));
        assert!(!format.write(&shown).contains("sk-hidden"));
    }
    assert_eq!(shown.metadata["a"], 1);
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e12..1e12_f64).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Texts with everything that YAML makes something of.
fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("---"),
        Just("- "),
        Just(": "),
        Just(" #"),
        Just("'\""),
        Just("\n"),
        Just("\n\n"),
        Just("  "),
        Just("\t"),
        Just("\r\n"),
        Just("true"),
        Just("1e5"),
        Just("&a *b !c"),
        Just("{[,]}"),
        Just("\\n"),
        Just("é日\u{1f600}"),
        Just("\u{0}\u{7f}\u{85}\u{2028}\u{feff}"),
    ];
    let words = prop::collection::vec(word, 0..6).prop_map(|it| it.concat());
    prop_oneof![words, "\\PC{0,20}"]
}

fn names() -> impl Strategy<Value = NameList> {
    prop::collection::vec("[a-z][a-z_]{0,8}", 0..4).prop_map(NameList::from)
}

prop_compose! {
    fn definition()(
        name in "[a-z0-9][a-z0-9_-]{0,20}",
        description in text(),
        label in prop::option::of(text()),
        prompt in text(),
        llm in prop::option::of((prop::option::of("[a-z]{1,5}"), prop::option::of("[a-z/]{1,8}"), prop::option::of(1_u64..9))),
        tools in prop::option::of(names()),
        (tools_deny, skills, capabilities) in (names(), names(), names()),
        (steps, tokens, millis, cents) in (
            prop::option::of(any::<u32>()), prop::option::of(any::<u64>()),
            prop::option::of(0_u64..1_000_000_000), prop::option::of(0_u32..10_000_000),
        ),
        (deadline, metadata) in (
            prop::option::of(0_u64..4_000_000_000_000),
            prop::collection::btree_map(text(), value(), 0..4),
        ),
        servers in prop::option::of(prop::collection::btree_map(
            "[a-z]{1,8}", prop::option::of(prop::collection::btree_map("[a-z]{1,8}", value(), 1..3)), 0..3,
        )),
        hooks in prop::collection::btree_map(
            prop::sample::select(&["PreToolUse", "Stop"][..]), prop::collection::vec(value(), 1..3), 0..3,
        ),
        initial_prompt in prop::option::of(text()),
        configs in prop::collection::vec(prop::collection::btree_map(text(), value(), 0..3), 0..4),
    ) -> AgentDefinition {
        let llm = llm.map(|(provider, model, tokens)| {
            let mut options = InferenceOptions::default();
            options.max_output_tokens = tokens;
            LlmConfig { provider: provider.map(Into::into), model: model.map(Into::into), options }
        });
        let budget = Budget {
            steps, tokens,
            time: millis.map(Duration::from_millis),
            cost: cents.map(|it| Cost::from_dollars(f64::from(it) / 100.0)),
            deadline: deadline.map(loopwright_core::Timestamp::from_millis),
        };
        let configured: NameList = capabilities;
        let capability_config = configured.iter().zip(configs).filter(|(_, it)| !it.is_empty());
        let capability_config = capability_config
            .map(|(name, it)| (name.to_owned(), serde_json::Value::Object(it.into_iter().collect())))
            .collect();
        let server = |server: Option<BTreeMap<String, serde_json::Value>>| {
            server.map_or(serde_json::Value::Null, |it| serde_json::Value::Object(it.into_iter().collect()))
        };
        let mcp_servers =
            servers.map(|it| it.into_iter().map(|(name, it)| (name, server(it))).collect());
        let hooks = hooks.into_iter().map(|(event, it)| (event.to_owned(), it.into())).collect();
        let initial_prompt = initial_prompt.map(|it| format!("x{it}"));
        AgentDefinition {
            mcp_servers, hooks, initial_prompt,
            label, llm, tools, tools_deny, skills, capabilities: configured, capability_config,
            budget: Some(budget),
            metadata: metadata.into_iter().collect(),
            ..AgentDefinition::new(name, format!("x{description}"), format!("x{prompt}"))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { fork: false, timeout: 0, ..ProptestConfig::default() })]

    #[test]
    fn every_format_is_read_as_it_was_written(definition in definition()) {
        let canonical = canonical(&definition);
        for format in DefinitionFormat::ALL {
            let text = format.write(&definition);
            prop_assert_eq!(&read(format, &text), &canonical, "{}", text);
            prop_assert_eq!(&format.write(&canonical), &text);
        }
    }
}
