use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use loopwright_agent::{
    AgentBuilder, ReActDriver, UseDriver, UseLlmConfig, UseToolSource, UseTools,
};
use loopwright_core::{
    AgentLoop, AgentState, RunOptions, ToolRegistry, ToolSet,
    events::PromptCacheBroken,
    messages::{CacheBreak, ToolSpecs},
};
use loopwright_testing::{
    EventRecorder, FakeModel, MockTool, ScenarioStep, ScriptedToolSource, block_on, tool_results,
};
use serde_json::{Value, json};

use super::*;

fn registry() -> (ToolRegistry, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let mut registry = ToolRegistry::new();
    registry.register(MockTool::returning(
        "geo.weather",
        "Tells the weather. In any town.",
        "sunny",
    ));
    registry.register(MockTool::returning("mail", "Sends mail.", "sent"));
    let count = Arc::clone(&made);
    registry.register_factory("lazy", move || {
        count.fetch_add(1, SeqCst);
        MockTool::returning("lazy", "Does it later.", "later")
    });
    (registry, made)
}

fn agent(model: &FakeModel, offer: ToolExposure) -> AgentLoop {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseToolRegistry::new(registry().0).with_exposure(offer))
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
        .build()
        .unwrap()
}

fn tools(arguments: Value) -> (&'static str, Value) {
    ("tools", arguments)
}

fn asked() -> AgentState {
    AgentState::new().with_user_message("go")
}

fn offered(model: &FakeModel) -> Vec<Vec<String>> {
    let names = |it: &loopwright_core::messages::InferenceRequest| {
        it.tools.iter().map(|it| it.name.to_string()).collect()
    };
    model.requests().iter().map(names).collect()
}

#[test]
fn tools_are_listed_searched_and_explained() {
    let model = FakeModel::script([
        ScenarioStep::tool_calls([
            tools(json!({})),
            tools(json!({ "action": "list", "limit": -5 })),
            tools(json!({ "action": "search", "query": " WEATHER " })),
            tools(json!({ "action": "search", "query": "geo", "limit": 1000 })),
            tools(json!({ "action": "help", "tool": "mail" })),
        ]),
        "done".into(),
    ]);
    let state = block_on(agent(&model, ToolExposure::Callable).execute(asked()));
    let [weather, mail, lazy] = [
        json!({ "name": "geo.weather", "summary": "Tells the weather.", "namespace": "geo" }),
        json!({ "name": "mail", "summary": "Sends mail." }),
        json!({ "name": "lazy", "summary": "Does it later." }),
    ];
    let help = json!({
        "name": "mail", "description": "Sends mail.", "usage": "Sends mail.",
        "parameters": { "type": "object", "properties": {} },
    });
    let expect = [
        json!({ "success": true, "count": 3, "tools": [lazy, weather, mail] }),
        json!({ "success": true, "count": 3, "tools": [lazy] }),
        json!({ "success": true, "query": "WEATHER", "count": 1, "tools": [weather] }),
        json!({ "success": true, "query": "geo", "count": 1, "tools": [weather] }),
        json!({ "success": true, "tool": help }),
    ];
    assert_eq!(tool_results(&state), expect.map(|it| it.to_string()));
}

#[test]
fn questions_that_make_no_sense_are_errors() {
    let model = FakeModel::script([
        ScenarioStep::tool_calls([
            tools(json!({ "action": "help" })),
            tools(json!({ "action": "help", "tool": "scripted" })),
            tools(json!({ "action": "search", "query": " " })),
            tools(json!({ "action": "activate", "tool": "nothing" })),
        ]),
        "done".into(),
    ]);
    let state = block_on(agent(&model, ToolExposure::Callable).execute(asked()));
    let expect = [
        "Error: no tool given; pass its name as `tool`",
        "Error: unknown tool `scripted`; find tools with action `search`",
        "Error: no search text; pass it as `query`",
        "Error: unknown tool `nothing`; find tools with action `search`",
    ];
    assert_eq!(tool_results(&state), expect);
}

#[test]
fn tools_are_in_requests_from_the_step_after_they_were_asked_for_and_stay_for_the_session() {
    let activate = |tool: &str| tools(json!({ "action": "activate", "tool": tool }));
    let model = FakeModel::script([
        ScenarioStep::tool_calls([activate("mail"), activate("mail"), activate("lazy")]),
        ScenarioStep::tool_call("mail", json!({})),
        "done".into(),
        ScenarioStep::tool_calls([activate("geo.weather")]),
        "again".into(),
    ]);
    let events = EventRecorder::new();
    let agent = agent(&model, ToolExposure::Callable).with_event_sink(events.sink());
    let state = block_on(agent.execute(asked()));
    assert_eq!(tool_results(&state)[3], "sent");
    let always = ["tools", "scripted"];
    let with = |more: &[&'static str]| -> Vec<&'static str> { [&always[..], more].concat() };
    let first = [with(&[]), with(&["mail", "lazy"]), with(&["mail", "lazy"])];
    assert_eq!(offered(&model), first);
    let breaks: Vec<_> =
        events.events_of::<PromptCacheBroken>().into_iter().map(|it| (it.step, it.cause)).collect();
    assert_eq!(breaks, [(2, CacheBreak::ToolAdded)]);
    let [second, third] = [&model.requests()[1], &model.requests()[2]].map(|it| it.tools.clone());
    assert!(second.ptr_eq(&third));
    drop(block_on(agent.execute(state.with_user_message("more"))));
    let second = [with(&["mail", "lazy"]), with(&["mail", "lazy", "geo.weather"])];
    assert_eq!(offered(&model)[3..], second);
}

#[test]
fn tools_under_react_are_shown_from_the_step_after_they_were_asked_for() {
    let call = |tool: &str, args: Value| {
        json!({ "thought": "t", "type": "call_tool", "tool": tool, "args": args }).to_string()
    };
    let activate = json!({ "action": "activate", "tool": "mail" });
    let done = json!({ "thought": "t", "type": "final_answer", "answer": "done" }).to_string();
    let model = FakeModel::script([
        ScenarioStep::final_answer(call("tools", activate)),
        ScenarioStep::final_answer(call("mail", json!({}))),
        ScenarioStep::final_answer(done),
    ]);
    let agent = AgentBuilder::base()
        .with_capability(UseDriver::new(ReActDriver::new(model.clone())))
        .with_capability(UseToolRegistry::new(registry().0))
        .build()
        .unwrap();
    let state = block_on(agent.execute(asked()));
    assert_eq!((state.text().as_str(), tool_results(&state)[1].as_str()), ("done", "sent"));
    let names = |system: &str| -> Vec<&'static str> {
        let there = |name: &&str| system.contains(&format!("\"name\":\"{name}\""));
        ["tools", "mail", "geo.weather", "lazy"].into_iter().filter(there).collect()
    };
    let shown: Vec<_> =
        model.requests().iter().map(|it| names(it.system.as_deref().unwrap())).collect();
    assert_eq!(shown, [vec!["tools"], vec!["tools", "mail"], vec!["tools", "mail"]]);
}

#[test]
fn a_tool_that_was_taken_from_the_agent_is_neither_listed_nor_given() {
    let model = FakeModel::script([
        ScenarioStep::tool_calls([
            tools(json!({})),
            tools(json!({ "action": "activate", "tool": "mail" })),
        ]),
        "done".into(),
    ]);
    let agent = agent(&model, ToolExposure::Callable);
    let fewer: ToolSet = agent.tools().filter(|it| &**it.name() != "mail");
    let state = block_on(agent.with_tools(fewer).execute(asked()));
    let list: Value = serde_json::from_str(&tool_results(&state)[0]).unwrap();
    assert_eq!(list["count"], 2);
    assert_eq!(
        tool_results(&state)[1],
        "Error: unknown tool `mail`; find tools with action `search`"
    );
}

#[test]
fn tools_that_are_only_described_are_made_when_they_are_shown_and_cannot_be_called() {
    let (registry, made) = registry();
    let model = FakeModel::script([
        ScenarioStep::tool_calls([
            tools(json!({ "action": "help", "tool": "mail" })),
            tools(json!({ "action": "activate", "tool": "mail" })),
        ]),
        ScenarioStep::tool_call("tools", json!({ "limit": 1 })),
        "done".into(),
    ]);
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseToolRegistry::new(registry).with_exposure(ToolExposure::DescribeOnly))
        .build()
        .unwrap();
    assert_eq!(made.load(SeqCst), 0);
    let state = block_on(agent.execute(asked()));
    assert_eq!(tool_results(&state)[1], "Error: tools cannot be activated here");
    assert_eq!(made.load(SeqCst), 1);
    assert_eq!(offered(&model), vec![vec!["tools".to_owned()]; 3]);
}

#[test]
fn a_run_is_offered_the_same_list_however_many_others_come_and_go() {
    let offering = super::hook::OfferActivatedTools::default();
    let specs = || -> ToolSpecs { registry().0.all().specs().iter().cloned().collect() };
    let offer = |all: &ToolSpecs| offering.offer(all, Vec::new(), &ToolSet::new());
    let own = specs();
    let first = offer(&own);
    for _ in 0..200 {
        offer(&specs());
        assert!(offer(&own).ptr_eq(&first));
    }
}

#[test]
fn late_tools_on_demand_are_found_by_search_and_break_no_prefix_before_they_are_asked_for() {
    let weather = || MockTool::returning("weather", "Reports the weather.", "sunny");
    let source = ScriptedToolSource::new("server", ToolSet::new());
    let model = FakeModel::script([
        ScenarioStep::tool("working"),
        ScenarioStep::tool_calls([
            tools(json!({ "action": "search", "query": "weather" })),
            tools(json!({ "action": "activate", "tool": "weather" })),
        ]),
        ScenarioStep::tool_call("weather", json!({})),
        "done".into(),
    ]);
    let events = EventRecorder::new();
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(UseToolRegistry::new(ToolRegistry::new()))
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
        .with_capability(UseToolSource::new(source.clone()).deferred())
        .with_event_sink(events.sink())
        .build()
        .unwrap();
    let state = block_on(async {
        let mut run = agent.start(asked(), RunOptions::default());
        run.next().await;
        source.set_tools(ToolSet::new().with(weather()));
        run.finish().await
    });
    let found: Value = serde_json::from_str(&tool_results(&state)[1]).unwrap();
    assert_eq!(found["tools"], json!([{ "name": "weather", "summary": "Reports the weather." }]));
    assert_eq!(tool_results(&state)[3], "sunny");
    let (before, after) = (vec!["tools", "scripted"], vec!["tools", "scripted", "weather"]);
    assert_eq!(offered(&model), [before.clone(), before, after.clone(), after]);
    let breaks = events.events_of::<PromptCacheBroken>();
    assert_eq!(breaks.into_iter().map(|it| it.step).collect::<Vec<_>>(), [3]);
}
