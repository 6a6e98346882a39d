//! Every capability composes with every other one, in both orders.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use loopwright_agent::{AgentBuilder, UseHook};
use loopwright_core::{
    AgentState, CallableHook, InferenceDecision, Priority, RunOptions, messages::InferenceRequest,
};
use loopwright_testing::{EventRecorder, FrozenClock, validate};
use serde_json::{Value, json};

use crate::everything::{PARTS, Part, World, builder, model};

/// What can be seen of an agent from outside.
#[derive(Debug, PartialEq)]
struct Seen {
    requests: Vec<Value>,
    events: Vec<Value>,
    state: Value,
}

/// Pairs whose order shows, and why. A star stands for every other capability.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "use_self_description",
        "*",
        "it tells which tools there are, in the order of the capabilities that brought them",
    ),
    (
        "use_execution_retrospective",
        "use_task_planning",
        "both speak at the end of requests, the one that was added first first",
    ),
];

/// Lets an agent of a pair call a tool of each, twice.
async fn run(pair: [&Part; 2], calls: [&Part; 2], world: &World) -> Seen {
    let names = pair.map(|it| it.name);
    let turn = || calls.map(Part::step).into_iter().chain(["done".into()]);
    let model = model(turn().chain(turn()).collect());
    let (events, requests) = (EventRecorder::new(), Arc::new(Mutex::new(Vec::new())));
    let notes = Arc::clone(&requests);
    let noting = CallableHook::new("noting").before_inference(move |request, _, _| {
        notes.lock().unwrap().push(shown(request));
        Ok(InferenceDecision::Send)
    });
    let parts = pair.map(|it| it.make(world)).into_iter();
    let agent = parts
        .fold(builder(&model), AgentBuilder::with_shared_capability)
        .with_capability(UseHook::new(noting).with_priority(Priority::HISTORY))
        .with_event_sink(events.sink())
        .build()
        .unwrap();
    let mut state = AgentState::new();
    for text in ["go", "go on"] {
        let env = FrozenClock::manual().env(1);
        let options = RunOptions { env, ..RunOptions::default() };
        state = agent.start(state.with_user_message(text), options).finish().await;
        assert_eq!(state.text(), "done", "{names:?}: {:?}", state.status());
        let errors: Vec<_> = state.errors().collect();
        assert!(errors.is_empty(), "{names:?}: {errors:?}");
    }
    assert_eq!(validate(state.transcript()), Ok(()));
    let is_replayed = names.contains(&"use_replay");
    assert_eq!(model.asked() == 0, is_replayed);
    let requests = requests.lock().unwrap().clone();
    let events = events.envelopes().iter().map(|it| without_ids(json!(it))).collect();
    Seen { requests, events, state: json!(state) }
}

/// A request as a wire would write it.
fn shown(request: &InferenceRequest) -> Value {
    let prompt = &request.prompt;
    let turns: Vec<_> = prompt.stable().map(|turn| json!(turn.body())).collect();
    json!({
        "model": request.model,
        "system": request.system,
        "tools": request.tools,
        "choice": request.tool_choice,
        "parallel": request.parallel_tool_calls,
        "format": request.response_format,
        "options": request.options,
        "turns": turns,
        "tail": prompt.tail,
    })
}

fn without_ids(mut envelope: Value) -> Value {
    for key in ["agent", "parent", "execution"] {
        envelope.as_object_mut().unwrap().remove(key);
    }
    envelope
}

/// Runs a pair. What is replayed is recorded first.
async fn played(pair: [&Part; 2], calls: [&Part; 2], world: &World) -> Seen {
    world.clean();
    if pair.iter().any(|it| it.name == "use_replay") {
        let recording = PARTS.iter().find(|it| it.name == "use_recording").unwrap();
        let with = |it: &'static Part| if it.name == "use_replay" { recording } else { it };
        let harmless = PARTS.iter().find(|it| it.name == "use_execution_history").unwrap();
        let others = pair.map(|it| PARTS.iter().find(|part| part.name == it.name).unwrap());
        // One recording is enough.
        let others = match others.map(|it| it.name) {
            ["use_recording" | "use_replay", "use_recording" | "use_replay"] => {
                [recording, harmless]
            }
            _ => others.map(with),
        };
        run(others, calls, world).await;
        fs::rename(&world.recording, &world.replay).unwrap();
    }
    run(pair, calls, world).await
}

/// Lays aside what has no meaning: the place of a tool in a list, and which of two hooks of one priority
/// was told of first.
fn normal(mut seen: Seen) -> Seen {
    seen.requests.iter_mut().for_each(sort_tools);
    let mut start = 0;
    for end in 0..=seen.events.len() {
        let is_hook = |it: &Value| it["event"]["type"] == "hook_executed";
        if seen.events.get(end).is_none_or(|it| !is_hook(it)) {
            seen.events[start..end].sort_by_key(|it| it["event"].to_string());
            start = end + 1;
        }
    }
    for event in &mut seen.events {
        event.as_object_mut().unwrap().remove("seq");
        sort_tools(&mut event["event"]);
    }
    seen
}

fn sort_tools(of: &mut Value) {
    if let Some(tools) = of.get_mut("tools").and_then(Value::as_array_mut) {
        tools.sort_by_key(Value::to_string);
    }
}

fn exception(pair: [&Part; 2]) -> Option<usize> {
    let [one, two] = pair.map(|it| it.name);
    let is = |at: &str, name: &str| at == "*" || at == name;
    EXCEPTIONS.iter().position(|(a, b, _)| (is(a, one) && is(b, two)) || (is(a, two) && is(b, one)))
}

/// Says where two differ first.
fn difference(one: &Seen, two: &Seen) -> Option<String> {
    let lists = [("request", &one.requests, &two.requests), ("event", &one.events, &two.events)];
    for (what, one, two) in lists {
        let at = (0..one.len().max(two.len())).find(|at| one.get(*at) != two.get(*at));
        if let Some(at) = at {
            return Some(format!("{what} {at}:\n{:#?}\n{:#?}", one.get(at), two.get(at)));
        }
    }
    (one.state != two.state).then(|| format!("state:\n{}\n{}", one.state, two.state))
}

#[tokio::test]
async fn every_pair_of_capabilities_works_and_its_order_has_no_meaning() {
    let (world, mut found, mut used) = (World::new(), Vec::new(), vec![0; EXCEPTIONS.len()]);
    for (number, one) in PARTS.iter().enumerate() {
        for two in &PARTS[number + 1..] {
            let pair = [one, two];
            let first = played(pair, pair, &world).await;
            let again = played(pair, pair, &world).await;
            if let Some(difference) = difference(&first, &again) {
                found.push(format!("{} and {}, again: {difference}", one.name, two.name));
            }
            let swapped = played([two, one], pair, &world).await;
            let differs = difference(&normal(first), &normal(swapped));
            match (differs, exception(pair)) {
                (Some(difference), None) => {
                    found.push(format!("{} and {}, swapped: {difference}", one.name, two.name));
                }
                (Some(_), Some(exception)) => used[exception] += 1,
                (None, _) => (),
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    let stale: Vec<_> = EXCEPTIONS.iter().zip(used).filter(|(_, used)| *used == 0).collect();
    assert!(stale.is_empty(), "these are none: {stale:?}");
}
