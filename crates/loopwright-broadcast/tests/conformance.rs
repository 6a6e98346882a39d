//! The contract: sequences, payload keys, mapping of endings, presets.

use std::{collections::BTreeSet, sync::Arc};

use loopwright_broadcast::{
    BroadcastConfig, BroadcastStatus, Broadcaster, Broadcasting, EncodedEnvelope, Redactor,
    envelope_types,
};
use loopwright_core::{
    AgentState, EventEnvelope, EventSink as _, RunOptions, StopReason, Timestamp, ToolOutput,
    messages::{ExecutionId, Usage},
};
use loopwright_testing::{
    FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, block_on, test_loop,
};
use serde_json::{Value, json};

use crate::support::{ROOM, all, answering, event, event_of, payloads, run, told, words};

/// A step with a tool, and one that answers.
fn two_steps() -> [ScenarioStep; 2] {
    [
        ScenarioStep::tool_call("look", json!({ "q": "hi" })).with_usage(Usage::new(10, 2)),
        "done".into(),
    ]
}

fn looking() -> loopwright_core::AgentLoop {
    let agent = answering(two_steps());
    agent
        .clone()
        .with_tools(agent.tools().clone().with(MockTool::returning("look", "Looks.", "seen")))
}

fn hear(broadcaster: &mut Broadcaster, it: Value) -> Vec<Value> {
    let frames = broadcaster.on_event(&event(it));
    frames.iter().map(|it| serde_json::from_str(it.json()).unwrap()).collect()
}

fn broadcaster(config: BroadcastConfig) -> Broadcaster {
    Broadcaster::new(config, "s", ExecutionId::new("e"))
}

fn step_started() -> Value {
    json!({ "type": "step_started", "step": 1, "messages": 3, "tools": ["look"] })
}

fn tool_started(arguments: &str) -> Value {
    json!({
        "type": "tool_call_started", "step": 1, "call": 0, "id": "call_7", "tool": "look",
        "arguments": arguments, "attempt": 1,
    })
}

#[test]
fn item_10_events_come_in_the_order_of_the_contract() {
    let standard = told(BroadcastConfig::standard(), &looking());
    let expect = [
        "status processing",
        "step.started",
        "tool.started",
        "tool.completed",
        "step.completed",
        "step.started",
        "stream.chunk",
        "stream.chunk",
        "stream.chunk",
        "step.completed",
        "status completed",
    ];
    assert_eq!(words(&standard), expect);
    let minimal = words(&told(BroadcastConfig::minimal(), &looking()));
    assert_eq!(minimal, expect.into_iter().filter(|it| *it != "stream.chunk").collect::<Vec<_>>());
    let debug = told(BroadcastConfig::debug(), &looking());
    assert_eq!(payloads(&debug, envelope_types::CONTINUATION).len(), 2);
}

#[test]
fn item_10_an_envelope_has_the_keys_of_the_contract() {
    let mut broadcaster = broadcaster(BroadcastConfig::standard());
    let frames = broadcaster.on_event(&event(step_started()));
    assert_eq!(
        frames.iter().map(|it| &**it.json()).collect::<Vec<_>>(),
        [
            r#"{"type":"agent.status","session_id":"s","execution_id":"e","timestamp":"2026-03-04T05:06:07.089Z","payload":{"status":"processing","previous_status":"idle"}}"#,
            r#"{"type":"agent.step.started","session_id":"s","execution_id":"e","timestamp":"2026-03-04T05:06:07.089Z","payload":{"step_number":1,"message_count":3,"available_tools":["look"]}}"#,
        ]
    );
    assert_eq!(frames[0].channel(), "agent.s");
}

#[test]
fn a_broadcasting_uses_its_configuration_and_the_name_of_its_session() {
    let broadcast = |config: BroadcastConfig| told(config, &answering(["done"]));
    let everything = broadcast(BroadcastConfig::debug());
    assert!(everything.iter().all(|envelope| &*envelope.session_id == "s"), "{everything:?}");
    let chunks = |envelopes: &[_]| payloads(envelopes, envelope_types::STREAM_CHUNK).len();
    assert!(chunks(&everything) > 1, "{everything:?}");
    assert_eq!(chunks(&broadcast(BroadcastConfig::minimal())), 0);
}

#[test]
fn a_broadcaster_that_is_reset_begins_another_run_as_idle() {
    let mut standard = broadcaster(BroadcastConfig::standard());
    let run = [step_started(), completed("completed")];
    let first = ends(&mut standard, &run);
    assert_eq!(standard.status(), BroadcastStatus::Completed);
    standard.reset();
    assert_eq!(standard.status(), BroadcastStatus::Idle);
    assert_eq!(ends(&mut standard, &run), first);
}

#[test]
fn item_10_every_payload_has_the_keys_of_the_contract() {
    let mut debug = broadcaster(BroadcastConfig::debug());
    let usage = json!({ "input": 5, "output": 2 });
    let payload = |frames: Vec<Value>| frames.last().unwrap()["payload"].clone();
    assert_eq!(
        payload(hear(
            &mut debug,
            json!({
                "type": "step_completed", "step": 2, "kind": "tool_execution",
                "has_tool_calls": true, "errors": ["x"], "usage": usage, "finish": "tool_calls",
                "duration": { "secs": 2, "nanos": 0 },
            })
        )),
        json!({
            "step_number": 2, "has_tool_calls": true, "errors": 1, "finish_reason": "tool_calls",
            "usage": { "input": 5, "output": 2, "cache_read": 0, "cache_write": 0, "reasoning": 0, "total": 7 },
            "duration_ms": 2000,
        })
    );
    assert_eq!(
        payload(hear(&mut debug, tool_started(r#"{"q":"hi"}"#))),
        json!({ "tool_name": "look", "tool_call_id": "call_7", "args": { "q": "hi" } })
    );
    let completed = |outcome: Value, success: bool| {
        json!({
            "type": "tool_call_completed", "step": 1, "call": 0, "id": null, "tool": "look",
            "arguments": "{}", "outcome": outcome, "success": success, "duration": { "secs": 2, "nanos": 0 },
        })
    };
    let returned = json!({ "returned": ToolOutput::text("seen") });
    assert_eq!(
        payload(hear(&mut debug, completed(returned, true))),
        json!({
            "tool_name": "look", "tool_call_id": "step-1-call-0", "success": true, "error": null,
            "duration_ms": 2000, "result_summary": "seen",
        })
    );
    let blocked = json!({ "blocked": { "reason": "no" } });
    let told = payload(hear(&mut debug, completed(blocked, false)));
    assert_eq!((&told["error"], &told["result_summary"]), (&json!("no"), &Value::Null));
    let outcome = json!({
        "should_continue": false, "resolved_by": "tool_calls", "stop_reason": "completed",
        "evaluations": [{ "criterion": "tool_calls", "decision": "allow_stop", "reason": "none" }],
    });
    assert_eq!(
        payload(hear(
            &mut debug,
            json!({ "type": "continuation_evaluated", "step": 2, "outcome": outcome })
        )),
        json!({
            "step_number": 2, "should_continue": false, "should_stop": true,
            "stop_reason": "completed", "resolved_by": "tool_calls",
            "evaluations": [{
                "criterion": "tool_calls", "decision": "allow_stop", "reason": "none", "stop_reason": null,
            }],
        })
    );
}

#[test]
fn item_10_a_summary_names_arguments_and_real_ids_go_with_them() {
    let told = told(BroadcastConfig::standard(), &looking());
    let started = payloads(&told, envelope_types::TOOL_STARTED);
    assert_eq!(
        started,
        [json!({ "tool_name": "look", "tool_call_id": "call_0", "args_summary": "q: 'hi'" })]
    );
    let completed = payloads(&told, envelope_types::TOOL_COMPLETED);
    assert_eq!(
        (&completed[0]["tool_call_id"], &completed[0]["success"]),
        (&json!("call_0"), &json!(true))
    );
}

#[test]
fn item_10_presets_are_those_of_the_contract() {
    let standard = BroadcastConfig {
        include_stream_chunks: true,
        include_continuation_trace: false,
        include_tool_args: false,
        max_arg_length: 100,
        auto_status_tracking: true,
    };
    assert_eq!(BroadcastConfig::standard(), standard);
    assert_eq!(BroadcastConfig::default(), standard);
    assert_eq!(
        BroadcastConfig::minimal(),
        BroadcastConfig { include_stream_chunks: false, ..standard }
    );
    let debug = BroadcastConfig {
        include_continuation_trace: true,
        include_tool_args: true,
        max_arg_length: 500,
        ..standard
    };
    assert_eq!(BroadcastConfig::debug(), debug);
}

#[test]
fn item_10_an_ending_has_the_status_of_its_reason() {
    let expect = |reason| match reason {
        StopReason::Completed => "completed",
        StopReason::ErrorForbade => "failed",
        StopReason::UserRequested => "cancelled",
        _ => "stopped",
    };
    for reason in StopReason::ALL {
        assert_eq!(BroadcastStatus::of_ending(Some(reason)).as_str(), expect(reason), "{reason}");
    }
    assert_eq!(BroadcastStatus::of_ending(None), BroadcastStatus::Completed);
}

fn ends(broadcaster: &mut Broadcaster, events: &[Value]) -> Vec<Value> {
    let frames = events.iter().flat_map(|it| hear(broadcaster, it.clone()));
    frames.filter(|it| it["type"] == "agent.status").map(|it| it["payload"].clone()).collect()
}

fn completed(status: &str) -> Value {
    json!({ "type": "execution_completed", "status": status, "steps": 1, "usage": {}, "errors": 0 })
}

fn stopped(reason: &str) -> Value {
    let signal = json!({ "reason": reason, "message": "enough", "source": "me" });
    json!({ "type": "execution_stopped", "signal": signal, "steps": 1 })
}

fn failed() -> Value {
    let failure = json!({ "kind": "other", "chain": ["broken"] });
    json!({ "type": "execution_failed", "failure": failure, "steps": 1, "usage": {} })
}

#[test]
fn item_10_a_run_that_is_stopped_or_fails_says_so_once_and_why() {
    let mut standard = broadcaster(BroadcastConfig::standard());
    let told =
        ends(&mut standard, &[step_started(), stopped("user_requested"), completed("stopped")]);
    assert_eq!(
        told[1..],
        [json!({
            "status": "cancelled", "previous_status": "processing",
            "error_message": "user_requested: enough", "last_response": null,
        })]
    );
    standard.reset();
    let told = ends(&mut standard, &[step_started(), failed(), failed(), completed("failed")]);
    assert_eq!(told.len(), 2);
    assert_eq!(told[1]["status"], "failed");
    assert!(told[1]["error_message"].as_str().unwrap().contains("broken"));
    // A reason that was declared final is no natural end.
    standard.reset();
    let outcome = json!({
        "should_continue": false, "resolved_by": "guard", "stop_reason": "finish_reason", "evaluations": [],
    });
    let decided = json!({ "type": "continuation_evaluated", "step": 1, "outcome": outcome });
    let told = ends(&mut standard, &[step_started(), decided.clone(), completed("completed")]);
    assert_eq!(told[1]["status"], "stopped");
    // What was decided and then overruled is no end.
    standard.reset();
    let told =
        ends(&mut standard, &[step_started(), decided, step_started(), completed("completed")]);
    assert_eq!(told[1]["status"], "completed");
}

#[test]
fn item_10_without_tracking_only_bad_ends_are_told_and_a_status_by_hand() {
    let quiet = BroadcastConfig { auto_status_tracking: false, ..BroadcastConfig::standard() };
    let mut quiet = broadcaster(quiet);
    assert_eq!(ends(&mut quiet, &[step_started(), completed("completed")]), [Value::Null; 0]);
    let told = ends(&mut quiet, &[step_started(), stopped("steps_limit")]);
    assert_eq!(told[0]["status"], "stopped");
    let at = Timestamp::from_millis(0);
    for _ in 0..2 {
        let frame = quiet.publish_status(BroadcastStatus::Stopped, at);
        assert_eq!(frame.envelope().unwrap().status(), Some(BroadcastStatus::Stopped));
    }
    assert_eq!(
        frame_keys(&quiet.publish_status(BroadcastStatus::Idle, at)),
        ["error_message", "last_response", "previous_status", "status",]
    );
    quiet.reset();
    assert_eq!(quiet.status(), BroadcastStatus::Idle);
}

fn frame_keys(frame: &loopwright_broadcast::EncodedEnvelope) -> Vec<String> {
    frame.envelope().unwrap().payload.as_object().unwrap().keys().cloned().collect()
}

fn delta(delta: impl Into<Value>) -> Value {
    let delta: Value = delta.into();
    json!({ "type": "stream_delta", "step": 1, "delta": delta })
}

#[test]
fn item_10_fragments_are_numbered_and_an_answer_ends_once() {
    let mut standard = broadcaster(BroadcastConfig::standard());
    let events = [
        delta(json!({ "text": "a" })),
        delta(json!({ "text": "" })),
        delta(json!({ "reasoning": "hm" })),
        json!({ "type": "stream_delta", "step": 1, "delta": { "text": "other" }, "aside": true }),
        delta(json!({ "text": "b" })),
        delta(json!("end")),
        delta(json!("end")),
        delta(json!({ "text": "broken off" })),
        stopped("time_limit"),
        delta(json!({ "text": "new" })),
    ];
    let frames = events.into_iter().flat_map(|it| hear(&mut standard, it));
    let chunks: Vec<_> = frames
        .filter(|it| it["type"] == "agent.stream.chunk")
        .map(|it| {
            let payload = &it["payload"];
            (
                payload["chunk_index"].as_u64().unwrap(),
                payload["content"].clone(),
                payload["is_complete"].clone(),
            )
        })
        .collect();
    let chunk = |index: u64, content: &str, ends: bool| (index, json!(content), json!(ends));
    assert_eq!(
        chunks,
        [
            chunk(0, "a", false),
            chunk(1, "b", false),
            chunk(2, "", true),
            chunk(3, "broken off", false),
            chunk(4, "", true),
            chunk(0, "new", false),
        ]
    );
}

#[test]
fn item_10_texts_are_cut_between_characters_and_nothing_secret_is_told() {
    let config = BroadcastConfig {
        max_arg_length: 12,
        include_tool_args: true,
        ..BroadcastConfig::standard()
    };
    let redaction = Redactor::new(["hunter2hunter2"]);
    let mut debug = broadcaster(config).with_redaction(redaction);
    let arguments = r#"{"text":"ääääääääääääää","password":"x","n":["hunter2hunter2"]}"#;
    let told = hear(&mut debug, tool_started(arguments));
    assert_eq!(
        told[0]["payload"]["args"],
        json!({ "text": "ääääääääääää...", "password": "[redacted]", "n": ["[redacted]"] })
    );
}

#[test]
fn agents_that_run_at_the_same_time_do_not_mix() {
    let broadcasting = Broadcasting::new(BroadcastConfig::standard());
    let subscription = broadcasting.subscribe(ROOM);
    for (agent, text) in [("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")] {
        broadcasting.emit(&event_of(
            agent,
            &format!("run-{agent}"),
            delta(json!({ "text": text })),
        ));
    }
    drop(broadcasting);
    let told: Vec<_> = all(subscription)
        .into_iter()
        .map(|it| (it.session_id, it.execution_id, it.payload["chunk_index"].as_u64().unwrap()))
        .collect();
    let of = |agent: &str, index| (agent.to_owned(), format!("run-{agent}"), index);
    assert_eq!(told, [of("a", 0), of("b", 0), of("a", 1), of("b", 1)]);
}

#[test]
fn an_execution_that_waits_for_a_decision_is_idle_and_goes_on() {
    let mut standard = broadcaster(BroadcastConfig::standard());
    let paused = json!({ "type": "execution_paused", "calls": [0] });
    let resumed = json!({ "type": "execution_started", "name": "a", "messages": 1, "tools": 1, "resumed": true });
    let told = ends(&mut standard, &[step_started(), paused, resumed]);
    let words: Vec<_> = told.iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(words, ["processing", "idle", "processing"]);
}

#[test]
fn a_tools_own_model_call_is_no_part_of_the_answer() {
    let beside = FakeModel::script(["beside"]).with_fragment_size(2);
    let asks = MockTool::with_cx("ask", "Asks.", move |_, cx| {
        let beside = beside.clone();
        Box::pin(async move {
            let request = loopwright_core::messages::InferenceRequest::default();
            let response =
                cx.infer(&beside, request).await.map_err(loopwright_core::BoxError::from)?;
            Ok(ToolOutput::text(response.message.text()))
        })
    });
    let script = [ScenarioStep::tool_call("ask", json!({})), "done".into()];
    let agent = test_loop(ModelDriver::new(FakeModel::script(script).with_fragment_size(9)));
    let agent = agent.clone().with_tools(agent.tools().clone().with(asks));
    let told = told(BroadcastConfig::standard(), &agent);
    let said: Vec<_> = payloads(&told, envelope_types::STREAM_CHUNK)
        .iter()
        .map(|it| it["content"].clone())
        .collect();
    assert_eq!(said, [json!("done"), json!("")]);
    assert_eq!(payloads(&told, envelope_types::TOOL_COMPLETED)[0]["result_summary"], "beside");
}

#[test]
fn a_subscription_follows_every_turn_of_a_conversation() {
    let broadcasting = Broadcasting::new(BroadcastConfig::minimal());
    let subscription = broadcasting.subscribe(ROOM);
    let agent = answering(["one", "two"]);
    let agent = agent.with_event_sink(Arc::new(broadcasting));
    let mut executions = Vec::new();
    let mut state = AgentState::new();
    for text in ["1?", "2?"] {
        state = block_on(agent.execute(state.with_user_message(text)));
        executions.push(state.execution().unwrap().id().to_string());
    }
    drop(agent);
    let steps =
        all(subscription).into_iter().filter(|it| it.kind == envelope_types::STEP_COMPLETED);
    let told: Vec<_> = steps.map(|it| it.execution_id).collect();
    assert_eq!(told, executions);
}

#[test]
fn times_are_in_utc_whatever_the_place() {
    let told = told(BroadcastConfig::minimal(), &answering(["hi"]));
    let times: BTreeSet<String> = told.iter().map(|it| it.timestamp.to_string()).collect();
    assert_eq!(times, BTreeSet::from(["2026-01-01T00:00:00.000Z".to_owned()]));
}

#[test]
fn a_run_that_is_cancelled_before_it_begins_has_a_status_too() {
    let broadcasting = Broadcasting::new(BroadcastConfig::standard()).with_session("s");
    let subscription = broadcasting.subscribe(ROOM);
    let options = RunOptions { env: FrozenClock::new().env(0), ..RunOptions::default() };
    options.cancel.cancel();
    let agent = answering(["hi"]).with_event_sink(Arc::new(broadcasting));
    drop(block_on(agent.start(AgentState::new().with_user_message("go"), options).finish()));
    drop(agent);
    assert_eq!(words(&all(subscription)), ["status cancelled"]);
}

#[test]
fn a_run_without_listeners_emits_nothing() {
    let broadcasting = Broadcasting::new(BroadcastConfig::debug());
    drop(run(&looking(), Arc::new(broadcasting.clone())));
    let subscription = broadcasting.subscribe(ROOM);
    drop(broadcasting);
    assert_eq!(all(subscription), []);
}

#[test]
fn a_custom_event_is_told_under_its_name_without_secrets_and_with_short_texts() {
    let mut broadcaster =
        broadcaster(BroadcastConfig::standard()).with_redaction(Redactor::new(["hunter2hunter2"]));
    let event = json!({
        "type": "ticket_created", "number": 7, "title": "ä".repeat(101),
        "note": "hunter2hunter2", "api_key": "k",
    });
    let data = json!({
        "number": 7, "title": format!("{}...", "ä".repeat(100)),
        "note": "[redacted]", "api_key": "[redacted]",
    });
    let told = hear(&mut broadcaster, event);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["type"], envelope_types::EVENT);
    assert_eq!(told[0]["payload"], json!({ "name": "ticket_created", "data": data }));
    let told = hear(&mut broadcaster, json!({ "type": "progress", "value": 0.5 }));
    assert_eq!(told[0]["payload"], json!({ "name": "progress", "data": { "value": 0.5 } }));
}

#[test]
fn an_envelope_names_the_permission_mode_of_its_event_and_fragments_of_two_modes_are_not_joined() {
    let mut broadcaster = broadcaster(BroadcastConfig::standard());
    let mut chunk = |mode: Option<&'static str>| {
        let fragment = json!({
            "type": "stream_delta", "step": 1, "delta": { "text": "a" }, "aside": false,
        });
        let envelope = EventEnvelope { permission_mode: mode.map(Into::into), ..event(fragment) };
        broadcaster.on_event(&envelope).pop().unwrap()
    };
    let modes = [None, None, Some("unconfined"), Some("unconfined")];
    let frames = modes.map(&mut chunk);
    let joined = EncodedEnvelope::join_fragments(frames);
    let told: Vec<_> = joined.iter().map(|it| it.envelope().unwrap()).collect();
    let told: Vec<_> = told.iter().map(|it| it.permission_mode.as_deref()).collect();
    assert_eq!(told, [None, Some("unconfined")]);
    assert!(!joined[0].json().contains("permission_mode"));
}
